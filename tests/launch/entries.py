"""What the workers of these tests do."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from starling.comm.team import Team
from starling.core.errors import InputError


def add_ranks(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    for _ in range(100):
        print("this must not reach the launcher's standard output")  # noqa: T201
    total = team.all_sum(1, torch.tensor([team.rank + 1.0]))
    return {
        "rank": team.rank,
        "size": team.size,
        "total": total.item(),
        "spec": spec,
        "threads": [os.environ["STARLING_THREADS"], os.environ["OMP_NUM_THREADS"], torch.get_num_threads()],
    }


def wrong_input(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    raise InputError("Expected 3 birds, got 2. Catch another.")


def fail(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """Worker spec["rank"] ends in the way spec["how"] says; the others wait for a message of it."""
    team.phase.enter("epoch 3, step 2")
    tempfile.mkdtemp()  # nobody here will remove it
    if team.rank == spec["rank"]:
        end(spec["how"])
    if team.rank == spec.get("stopped"):
        end("SIGSTOP")
    if "pids" in spec:
        Path(spec["pids"], str(team.rank)).write_text(str(os.getpid()))
    team.all_sum(1, torch.ones(1))
    time.sleep(60)
    return {}


def end(how: str) -> None:
    if how == "raise":
        raise ValueError("no more seeds")
    if how == "leave":
        os._exit(0)
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(60)
