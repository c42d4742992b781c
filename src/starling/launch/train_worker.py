"""What every worker of a training run does, and how the launcher learns how it goes."""

from __future__ import annotations

import json
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starling.comm.team import Team
    from starling.train.results import EpochRecord, Watcher

ENTRY = f"{__name__}:train"

_LOOK_EVERY, _TELL_EVERY = 0.1, 0.2
"""Seconds."""


def train(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """Train as one worker. `spec`: the config as TOML, the run directory, and a file to tell the launcher how it goes."""
    from starling.train.config import RunConfig
    from starling.train.run_directory import RunDirectory
    from starling.train.trainer import fit

    told = spec.get("live")
    watch = Live(Path(told)) if told and team.rank == 0 else None
    directory = RunDirectory(Path(spec["run"])) if team.rank == 0 else None
    result = fit(RunConfig.from_tables(tomllib.loads(spec["config"])), directory, watch=watch, team=team)
    return {"summary": result.to_json(), "losses": list(result.losses)}


class Live:
    """A watcher that writes a line for whatever it is told; steps only now and then."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._told = 0.0

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        """Training begins."""
        self._write("begin", epochs, steps, metric)

    def step(self, epoch: int, step: int, loss: float) -> None:
        """A step is done."""
        if time.monotonic() - self._told > _TELL_EVERY:
            self._told = time.monotonic()
            self._write("step", epoch, step, loss)

    def epoch(self, record: EpochRecord) -> None:
        """An epoch is done."""
        self._write("epoch", record.to_json())

    def _write(self, *line: object) -> None:
        self._file.write(json.dumps(line) + "\n")


@contextmanager
def followed(path: Path, watch: Watcher | None) -> Iterator[None]:
    """Tell `watch` what another process writes with `Live`, for as long as the block lasts."""
    if watch is None:
        yield
        return
    path.touch()
    stop = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, watch, stop), name="starling-follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _follow(path: Path, watch: Watcher, stop: threading.Event) -> None:
    from starling.train.results import EpochRecord

    with path.open() as file:
        rest = ""
        while True:
            ending = stop.is_set()
            rest += file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                what, *values = json.loads(line)
                getattr(watch, what)(*([EpochRecord.from_json(values[0])] if what == "epoch" else values))
            if ending:
                return
            stop.wait(_LOOK_EVERY)
