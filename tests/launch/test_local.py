"""Real processes: they work together, and they end together. Each run costs an import of torch a worker, so there are few."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from starling.core.errors import InputError
from starling.launch.folders import sweep
from starling.launch.local import run_workers
from starling.launch.reports import WorkerError
from tests.support.source import ROOT

ENTRIES = "tests.launch.entries"
DEADLINE = 5.0
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# Interrupted twice, the second time for good.
PARENT = f"""
import json, sys, tempfile
from starling.launch.local import run_workers
tempfile.tempdir = sys.argv[2]
for attempt in ("first", "second"):
    try:
        spec = {{"pids": sys.argv[1] + "/" + attempt, "rank": None, "how": ""}}
        run_workers("{ENTRIES}:fail", spec, workers=2, deadline={DEADLINE})
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\\n")
        sys.stderr.flush()
"""


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if "starling.launch.worker" in child.cmdline()]


def listening() -> set[int]:
    return {line.laddr.port for line in psutil.Process().net_connections("tcp") if line.status == psutil.CONN_LISTEN}


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, port, file or changed signal handler survives a run."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("STARLING_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ports, handlers = listening(), [signal.getsignal(number) for number in HANDLED]
    yield
    assert workers_of(psutil.Process()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "pids"] == []
    assert not list(Path("/dev/shm").glob("starling*"))
    assert [signal.getsignal(number) for number in HANDLED] == handlers
    assert listening() <= ports


def fail(how: str, rank: int | None = 1, **more: Any) -> str:
    """The message on a run in which one worker ends that way."""
    spec = {"rank": rank, "how": how, **more}
    with pytest.raises(WorkerError) as caught:
        run_workers(f"{ENTRIES}:fail", spec, workers=3 if more else 2, deadline=DEADLINE, remains=lambda: "See runs/x.")
    return str(caught.value)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_compute_together(workers: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"name": "Ähre", "list": [1, 2.5, None]}
    threads = 2 if workers == 2 else None
    if workers == 4:
        monkeypatch.delenv("STARLING_THREADS")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # lines stay whole all the same
    result = run_workers(f"{ENTRIES}:add_ranks", spec, workers=workers, threads=threads)
    share = max(1, len(os.sched_getaffinity(0)) // 4)
    expected = {1: 1, 2: 2, 4: share}[workers]
    assert result == {
        "rank": 0,
        "size": workers,
        "total": workers * (workers + 1) / 2,
        "spec": spec,
        "threads": [str(expected), str(expected), expected],
    }
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "this must not reach the launcher's standard output\n" * 100 * workers


def test_a_worker_that_raises_while_another_is_stopped(capfd: pytest.CaptureFixture[str]) -> None:
    """torch's agent alone would wait half a minute for the one that is stopped."""
    message = fail("raise", stopped=2)
    assert message.startswith("Worker 1 of 3 (epoch 3, step 2) failed: ValueError: no more seeds (entries.py, line ")
    assert message.endswith("). See runs/x.")
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_is_stopped(capfd: pytest.CaptureFixture[str]) -> None:
    """Its peer and the launcher both notice; either may be the first."""
    assert re.match(
        r"Worker 0 of 2 \(epoch 3, step 2\) (was|is) stopped .*SIGSTOP.* s\. See runs/x\.$", fail("SIGSTOP", rank=0)
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_is_stopped_before_it_has_said_a_word(rank: int, capfd: pytest.CaptureFixture[str]) -> None:
    """It has no status file yet, and would keep the others waiting for it for minutes."""
    stopped: list[bool] = []
    thread = threading.Thread(target=lambda: stopped.append(stop_first(rank)))
    thread.start()
    message = fail("raise", rank=None)
    thread.join()
    assert stopped == [True]
    assert message == (
        f"Worker {rank} of 2 (starting) was stopped by a signal (SIGSTOP or the like) for more than 2.5 s. See runs/x."
    )
    assert capfd.readouterr() == ("", "")


def stop_first(rank: int) -> bool:
    """Stop a worker as soon as its process is there; whether it has said nothing yet."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for worker in workers_of(psutil.Process()):
            if worker.environ().get("RANK") == str(rank):
                worker.suspend()
                words = worker.cmdline()
                return not Path(words[words.index("--desk") + 1], f"status-{rank}").exists()
        time.sleep(0.002)
    return False


def test_a_worker_that_leaves_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    assert fail("leave", rank=0) == (
        "Worker 0 of 2 (epoch 3, step 2) left before the end of the run, with status 0. See runs/x."
    )
    assert capfd.readouterr() == ("", "")


def test_a_mistake_of_the_user_keeps_its_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        run_workers("json:no_such", {}, workers=2, deadline=DEADLINE, remains=lambda: "See runs/x.")
    assert str(caught.value) == "The module json has no function 'no_such' to run."
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1, "deadline": 0.0}, {"workers": 1, "threads": 0}])
def test_settings_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected"):
        run_workers("json:dumps", {}, **wrong)


def test_ctrl_c_and_then_a_launcher_that_is_killed(tmp_path: Path) -> None:
    pids, scratch = tmp_path / "pids", tmp_path / "pids" / "scratch"
    for folder in ("first", "second", "scratch"):
        (pids / folder).mkdir(parents=True)
    command = [sys.executable, "-c", PARENT, str(pids), str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        try:
            first = running(pids / "first", parent)
            parent.send_signal(signal.SIGINT)
            gone(first)
            second = running(pids / "second", parent)
            assert len(list(scratch.iterdir())) == 1
            parent.kill()
            out, err = parent.communicate(timeout=30)
            gone(second)
        finally:
            parent.kill()
    assert (out, err) == ("", "interrupted\n")
    assert len(list(scratch.iterdir())) == 1
    sweep(scratch)
    assert list(scratch.iterdir()) == []


def running(folder: Path, parent: subprocess.Popen[str]) -> list[psutil.Process]:
    """The workers that wrote their process numbers, when both have."""
    end = time.monotonic() + 120
    while len(texts := [path.read_text() for path in folder.iterdir()]) < 2 or not all(texts):
        assert parent.poll() is None, parent.stderr and parent.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)
    return [psutil.Process(int(text)) for text in texts]


def gone(processes: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(processes, 60)
    for process in left:
        process.kill()
    assert left == []
