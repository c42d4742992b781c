"""Training by real workers that are killed, stopped or interrupted: the run ends, says who and where, and what was learnt stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from starling.train.run_directory import RunDirectory
from tests.engine.hybrid.runs import cut
from tests.support.source import ROOT
from tests.support.trainable import trainable_graph

WHERE = r"\((epoch \d+, step 1|evaluation after epoch \d+)\)"


def worker_of(parent: psutil.Process, rank: int) -> psutil.Process:
    for child in parent.children(recursive=True):
        if "starling.launch.worker" in child.cmdline() and child.environ().get("RANK") == str(rank):
            return child
    raise AssertionError(f"no worker {rank}")


def train_until(folder: Path, act: Callable[[psutil.Process], None], *flags: str) -> tuple[int, str]:
    """Train for ever with two workers, act when some epochs are over; the exit status and what was said."""
    parts, run = cut(trainable_graph(folder / "g"), folder / "cut", 2, np.arange(60) % 2), folder / "run"
    command = [sys.executable, "-m", "starling", "train", parts, "--workers", "2", "--epochs", "1000000", "--quiet"]
    more = ["--run", run, "--deadline", "4", "--hidden", "8", "--threads", "1", *flags]
    (folder / "tmp").mkdir()
    places = {"PYTHONPATH": str(ROOT / "src"), "STARLING_THREADS": "1", "TMPDIR": str(folder / "tmp")}
    with subprocess.Popen(
        [*map(str, command), *map(str, more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | places,
        start_new_session=True,
    ) as process:
        parent = psutil.Process(process.pid)
        try:
            end = time.monotonic() + 120
            while not (metrics := run / "metrics.jsonl").is_file() or metrics.read_text().count("\n") < 3:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end
                time.sleep(0.05)
            everybody = [parent, *parent.children(recursive=True)]
            began = time.monotonic()
            act(parent)
            _, said = process.communicate(timeout=60)
            assert time.monotonic() - began < 15
        finally:
            for child in [*parent.children(recursive=True), parent] if process.poll() is None else []:
                child.kill()
    assert psutil.wait_procs(everybody, 10)[1] == []
    assert list((folder / "tmp").glob("starling*")) == []
    assert not (run / "scratch").exists()
    _check_valid(run)
    return process.returncode, said


def _check_valid(run: Path) -> None:
    """Its settings, its metrics and its best weights so far can be read, and it does not pretend to have ended."""
    config = RunDirectory.open(run).config()
    assert config.team.workers == 2
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
    assert not (run / "summary.json").exists()


def test_a_worker_that_is_stopped_ends_the_run(tmp_path: Path) -> None:
    """Nobody sends anything any more, and nothing has failed: silence is what gives it away."""
    status, said = train_until(tmp_path, lambda parent: worker_of(parent, 1).send_signal(signal.SIGSTOP))
    assert status == 1
    assert re.match(
        rf"starling: Worker 1 of 2 {WHERE} was stopped by a signal \(SIGSTOP or the like\) for more than", said.strip()
    ), said


def test_a_worker_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    status, said = train_until(tmp_path, lambda parent: worker_of(parent, 1).send_signal(signal.SIGKILL))
    assert status == 1
    how = r"was killed by signal 9 \(SIGKILL\)\. If nobody sent it, the machine was out of memory: .*"
    assert re.fullmatch(rf"starling: Worker 1 of 2 {WHERE} {how}\. What was learnt before is in .*run\.", said.strip()), said


def test_a_worker_that_is_killed_leaves_no_scratch_files(tmp_path: Path) -> None:
    """Rows that averaging keeps in the run directory; `train_until` looks for them."""
    flags = ("--parallel", "data", "--sync", "average", "--strategy", "global")
    status, said = train_until(tmp_path, lambda parent: worker_of(parent, 0).send_signal(signal.SIGKILL), *flags)
    assert status == 1
    assert "Worker 0 of 2" in said


def test_a_worker_that_is_killed_with_a_pipeline_at_work(tmp_path: Path) -> None:
    """In each of its stages: tests/engine/data/test_failures.py."""
    flags = ("--parallel", "data", "--strategy", "mini", "--batch-size", "8", "--fanouts", "3,2")
    status, said = train_until(tmp_path, lambda parent: worker_of(parent, 0).send_signal(signal.SIGKILL), *flags)
    assert status == 1
    assert re.match(r"starling: Worker 0 of 2 \(.*\) was killed by signal 9 \(SIGKILL\)\.", said.strip()), said


def test_ctrl_c_leaves_a_valid_run_directory(tmp_path: Path) -> None:
    status, said = train_until(tmp_path, lambda parent: os.killpg(parent.pid, signal.SIGINT))
    assert status == 130
    assert "Traceback" not in said
