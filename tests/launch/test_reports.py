from __future__ import annotations

import errno
import time

import pytest

from starling.comm.failures import PeerLost
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Lost
from starling.core.errors import InputError, StarlingError
from starling.launch.reports import Report, RunEnded, WorkerError


def report_of(error: BaseException, phase: str = "epoch 3, step 2") -> Report:
    here = Phase()
    here.enter(phase)
    try:
        raise error
    except BaseException as caught:
        return Report.of(caught, 1, here)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InputError("no"), "input"),
        (StarlingError("no"), "raised"),
        (ValueError("no"), "raised"),
        (SystemExit(0), "raised"),
        (MemoryError(), "raised"),
        (KeyboardInterrupt(), "interrupted"),
        (PeerLost(3, 1), "lost"),
        (RunEnded("over"), "lost"),
    ],
)
def test_kinds(error: BaseException, kind: str) -> None:
    assert report_of(error).kind == kind


def test_an_error_of_ours_keeps_its_sentence() -> None:
    error = report_of(StarlingError("No space left. Free some.")).error(4)
    assert str(error) == "Worker 1 of 4 (epoch 3, step 2) failed: No space left. Free some."
    assert isinstance(error, WorkerError)
    assert (error.rank, error.size, error.phase, error.exit_status) == (1, 4, "epoch 3, step 2", 1)


def test_what_no_program_can_help_is_told_in_words() -> None:
    error = report_of(OSError(errno.ENOSPC, "No space left on device")).error(4)
    assert str(error) == (
        "Worker 1 of 4 (epoch 3, step 2) failed: No space left on the device. Free some space, or choose another place."
    )


def test_any_other_error_says_where_it_came_from() -> None:
    report = report_of(ValueError("two\nlines"))
    assert str(report.error(2)).startswith(
        "Worker 1 of 2 (epoch 3, step 2) failed: ValueError: two lines (test_reports.py, line "
    )
    assert report.trace.startswith("Traceback")
    assert "ValueError: two\nlines" in report.trace


def test_an_error_without_words() -> None:
    assert report_of(AssertionError()).cause.startswith("AssertionError (test_reports.py, line ")


def test_a_mistake_of_the_user_is_nobodys_in_particular() -> None:
    error = report_of(InputError("Expected 3 birds, got 2.")).error(4)
    assert isinstance(error, InputError)
    assert (str(error), error.exit_status) == ("Expected 3 birds, got 2.", 2)


def test_a_silent_worker_is_to_blame_itself() -> None:
    phase = Phase()
    phase.enter("waiting")
    report = Report.on(Lost(3, "epoch 2", 9.04, "gives no sign of life"), 1, phase, 9.0)
    assert (report.kind, report.rank, report.peer) == ("silent", 3, None)
    assert str(report.error(4)) == "Worker 3 of 4 (epoch 2) gives no sign of life, for 9.0 s."


@pytest.mark.parametrize("lost", [Lost(3, "epoch 2", 0.4, "is gone"), Lost(None, "waiting", 0.0, "does not answer any more")])
def test_a_worker_that_is_gone_or_a_store_only_explains_why_this_one_ends(lost: Lost) -> None:
    phase = Phase()
    phase.enter("waiting")
    report = Report.on(lost, 1, phase, 9.0)
    assert (report.kind, report.rank, report.phase, report.peer) == ("lost", 1, "waiting", lost.rank)
    assert str(lost) in str(report.error(4)) + "."


def test_witnesses_name_the_one_that_is_gone() -> None:
    gone = Report.on_gone(Lost(3, "epoch 2", 0.4, "is gone"))
    assert (gone.kind, gone.rank, gone.phase) == ("gone", 3, "epoch 2")
    assert str(gone.error(4)).startswith("Worker 3 of 4 (epoch 2) was killed or ended without a word: its process is gone.")
    silenced = Report.on_silenced(report_of(PeerLost(3, 1)), "epoch 2")
    assert str(silenced.error(4)) == (
        "Worker 3 of 4 (epoch 2) was killed, cut off or ended without a word. Worker 1 saw: Worker 3 closed its connection before "
        "message 1 of step 0 (forward) had passed."
    )


def test_who_was_lost_and_when() -> None:
    before = time.monotonic()
    report = report_of(PeerLost(3, 1))
    assert report.peer == 3
    assert before <= report.moment <= time.monotonic()
    assert report_of(ValueError()).peer is None
