"""Start the workers of a run on this machine, wait for them, and give back what worker 0 returned.

    result = run_workers("package.module:function", {"epochs": 3}, workers=4)

calls ``function(team, spec)`` in each of four new processes. The first failure ends all of them within `deadline` seconds and is
raised here as one error; whatever happens, no process, port, shared memory or temporary file is left.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starling.comm.heartbeat import DEADLINE
from starling.core.errors import InputError, StarlingError
from starling.launch.agent import run_agent
from starling.launch.desk import Desk, Status
from starling.launch.folders import own_folder
from starling.launch.reports import WorkerError
from starling.launch.verdict import Evidence, first_cause
from starling.launch.watch import Watch

_PATIENCE, _GRACE = 0.5, 0.2
"""Shares of the deadline: how long a worker may be stopped, and how long the others may take to end."""


def run_workers(
    entry: str,
    spec: Mapping[str, Any],
    *,
    workers: int,
    threads: int | None = None,
    deadline: float = DEADLINE,
    transport: str = "auto",
    device: str = "cpu",
    scratch: Path | None = None,
    remains: Callable[[], str] = str,
) -> dict[str, Any]:
    """Run `entry` ("package.module:function") in each of `workers` processes; what it returned in worker 0.

    `spec` and the result are JSON. `threads` is for each worker, by default its share of the cores; `transport` is that of
    comm/switch.py. `scratch` is where a temporary directory may be, in which workers make theirs. `remains` gives a sentence
    that ends the message of a failure (where to find what was learnt so far), or none. Raises InputError or WorkerError;
    KeyboardInterrupt if this process was told to end.
    """
    if workers < 1:
        raise InputError(f"Expected at least 1 worker, got {workers}.")
    if threads is not None and threads < 1:
        raise InputError(f"Expected at least 1 thread for each worker, got {threads}.")
    if deadline <= 0:
        raise InputError(f"Expected a deadline of more than 0 seconds, got {deadline:g}.")
    with own_folder(scratch or Path(tempfile.gettempdir())) as folder:
        desk = Desk(folder)
        desk.spec.write_text(json.dumps(dict(spec)))
        options = {
            "desk": folder,
            "launcher": os.getpid(),
            "deadline": deadline,
            "transport": transport,
            "device": device,
            **({"threads": threads} if threads else {}),
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        with Watch(desk, workers, patience=_PATIENCE * deadline, grace=_GRACE * deadline) as watch:
            # -P: a file in the working directory must not pass for a module of the same name.
            exits = run_agent(["-P", "-m", "starling.launch.worker", entry, str(desk.spec), *flags], workers, desk.logs)
        statuses = {rank: status for rank in range(workers) if (status := desk.status(rank)) is not None}
        failure = first_cause(Evidence(workers, desk.reports(), exits, watch.deaths, watch.killed, statuses))
        if failure is not None:
            raise _with_remains(failure, remains())
        return _result(desk, workers, statuses)


def _with_remains(failure: StarlingError, remains: str) -> StarlingError:
    if remains and not isinstance(failure, InputError):
        failure.args = (f"{failure} {remains}",)
    return failure


def _result(desk: Desk, workers: int, statuses: Mapping[int, Status]) -> dict[str, Any]:
    if not desk.result.is_file():
        phase = statuses[0].phase if 0 in statuses else "starting"
        raise WorkerError(0, workers, phase, "left before the end of the run, with status 0")
    result: dict[str, Any] = json.loads(desk.result.read_text())
    return result
