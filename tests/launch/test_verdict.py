"""Who is to blame, in every order that things can be noticed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from starling.core.errors import InputError
from starling.launch.desk import DONE, Status
from starling.launch.reports import Kind, Report, WorkerError
from starling.launch.verdict import Evidence, WorkerTrace, first_cause


def report(rank: int, moment: float, kind: Kind = "raised", **more: Any) -> Report:
    return Report(rank, kind, f"step of {rank}", f"the cause of {rank}", moment, **more)


def blamed(
    *reports: Report,
    exits: Mapping[int, int],
    deaths: Mapping[int, float] | None = None,
    killed: set[int] | None = None,
    done: set[int] | None = None,
    unseen: set[int] | None = None,
) -> str:
    """The message on a run of four workers that were last seen in ``step of <rank>``."""
    phases = {rank: DONE if rank in (done or ()) else f"step of {rank}" for rank in range(4) if rank not in (unseen or ())}
    statuses = {rank: Status(100 + rank, phase) for rank, phase in phases.items()}
    # whom the agent ended
    everybody = dict(exits) | {rank: -15 for rank in statuses if rank not in exits and rank not in (done or ())}
    error = first_cause(Evidence(4, reports, everybody, deaths or {}, killed or set(), statuses))
    assert error is not None
    return str(error)


def test_nothing_went_wrong() -> None:
    statuses = {rank: Status(rank, DONE) for rank in range(4)}
    assert first_cause(Evidence(4, [], {}, {0: 1.0}, set(), statuses)) is None


def test_an_error_is_told_with_its_traceback() -> None:
    evidence = Evidence(4, [report(1, 5.0, trace="Traceback: here")], {1: 1}, {}, set(), {})
    error = first_cause(evidence)
    assert isinstance(error, WorkerError)
    assert str(error) == "Worker 1 of 4 (step of 1) failed: the cause of 1."
    assert isinstance(error.__cause__, WorkerTrace)
    assert "Traceback: here" in str(error.__cause__)


def test_of_two_errors_the_first() -> None:
    assert "Worker 2" in blamed(report(1, 5.1), report(2, 5.0), exits={1: 1, 2: 1})


def test_an_error_wins_over_those_who_lost_its_worker() -> None:
    """Even if their reports are earlier, as clocks of processes that wake in any order may have it."""
    lost = report(0, 4.9, "lost", peer=1)
    assert "Worker 1 of 4 (step of 1) failed: the cause of 1" in blamed(lost, report(1, 5.0), exits={0: 1, 1: 1})


@pytest.mark.parametrize("noticed", [4.0, 5.0, 6.0])
def test_a_killed_worker_wins_over_those_who_lost_it(noticed: float) -> None:
    message = blamed(report(0, 5.0, "lost", peer=1), exits={0: 1, 1: -9}, deaths={0: 5.01, 1: noticed})
    assert message.startswith("Worker 1 of 4 (step of 1) was killed by signal 9 (SIGKILL). If nobody sent it")


def test_a_killed_worker_wins_over_an_error_that_came_after() -> None:
    assert "Worker 1 of 4" in blamed(report(0, 5.0), exits={0: 1, 1: -9}, deaths={1: 5.02})


def test_an_error_wins_over_a_crash_that_came_after() -> None:
    assert "Worker 0 of 4" in blamed(report(0, 5.0), exits={0: 1, 1: -6}, deaths={1: 5.5})


def test_an_error_wins_over_a_crash_of_its_own_worker() -> None:
    assert "failed: the cause of 1" in blamed(report(1, 5.0), exits={1: -11}, deaths={1: 5.0})


def test_those_the_agent_ended_are_not_to_blame() -> None:
    assert "Worker 3 of 4 (step of 3) was killed by signal 11 (SIGSEGV)." in blamed(exits={3: -11, 0: -15})


def test_a_worker_that_somebody_terminated() -> None:
    assert "Worker 2 of 4 (step of 2) was killed by signal 15 (SIGTERM)." in blamed(exits={2: -15, 0: -15, 1: -15})


def test_a_worker_that_somebody_terminated_and_another_lost() -> None:
    message = blamed(report(0, 5.0, "lost", peer=2), exits={0: 1, 2: -15}, deaths={0: 5.05, 2: 5.0})
    assert "Worker 2 of 4 (step of 2) was killed by signal 15" in message


def test_a_worker_that_was_ended_because_of_an_error_and_then_lost_by_another() -> None:
    message = blamed(report(1, 5.0), report(0, 5.3, "lost", peer=2), exits={1: 1, 0: 1, 2: -15}, deaths={2: 5.25, 1: 5.1})
    assert "Worker 1 of 4 (step of 1) failed" in message


def test_a_stopped_worker_and_its_end_by_the_watch() -> None:
    stopped = Report(2, "stopped", "step of 2", "was stopped by a signal", 9.0)
    message = blamed(stopped, report(0, 9.1, "lost", peer=2), exits={2: -9, 0: 1}, deaths={2: 9.05, 0: 9.2}, killed={2})
    assert message == "Worker 2 of 4 (step of 2) was stopped by a signal."


def test_an_error_wins_over_whom_the_watch_had_to_end() -> None:
    assert "Worker 1 of 4" in blamed(report(1, 5.0), exits={1: 1, 3: -9}, deaths={3: 5.01}, killed={3})


def test_a_worker_that_left_without_a_word() -> None:
    phases = {0: Status(1, "waiting"), 1: Status(2, "epoch 3")}
    lost = report(0, 5.0, "lost", peer=1)
    error = first_cause(Evidence(2, [lost], {0: 1}, {1: 4.9, 0: 5.1}, set(), phases))
    assert str(error) == "Worker 1 of 2 (epoch 3) left before the end of the run, with status 0."
    assert "with status 3." in blamed(exits={1: 3}, deaths={1: 5.0})


def test_a_worker_that_never_began() -> None:
    message = blamed(report(0, 5.0), exits={2: -9}, unseen={2})
    assert message.startswith("Worker 2 of 4 (starting) was killed by signal 9")


def test_a_worker_whose_end_nobody_saw_is_the_last_to_blame() -> None:
    assert "Worker 0 of 4" in blamed(report(0, 5.0), exits={0: 1, 2: -11})


def test_only_a_lost_peer_is_known() -> None:
    assert "Worker 0 of 4 (step of 0) had to stop: the cause of 0." in blamed(
        report(0, 5.0, "lost", peer=1), exits={0: 1}, done={1, 2, 3}
    )


def test_a_mistake_of_the_user_comes_from_all_workers_as_one() -> None:
    wrong = [Report(rank, "input", "starting", "Expected 3 birds.", 5.0 + rank) for rank in range(4)]
    error = first_cause(Evidence(4, wrong, dict.fromkeys(range(4), 2), {}, set(), {}))
    assert isinstance(error, InputError)
    assert str(error) == "Expected 3 birds."


def test_a_signal_without_a_name() -> None:
    assert "killed by signal 63 (unknown)" in blamed(exits={1: -63})
