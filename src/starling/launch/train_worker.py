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

from starling.core.errors import InputError

if TYPE_CHECKING:
    from starling.comm.team import Team
    from starling.train.config import RunConfig
    from starling.train.results import EpochRecord, Watcher
    from starling.train.run_directory import RunDirectory

ENTRY = f"{__name__}:train"

_LOOK_EVERY, _TELL_EVERY = 0.1, 0.2
"""Seconds."""


def train(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """Train as one worker; what worker 0 returns is the result.

    `spec`: the config, as TOML or as the path of a ``.toml`` file; where the run directory is to be (on worker 0's machine);
    whether to `resume` a run that is there; and, from the launcher, a file to tell it how it goes.
    """
    from starling.train.trainer import fit

    config = _config(spec, team)
    told = spec.get("live")
    watch = Live(Path(told)) if told and team.rank == 0 else None
    scratch = Path(spec["run"]) if spec.get("run") else None
    result = fit(config, _directory(spec), watch=watch, team=team, scratch=scratch, resume=bool(spec.get("resume")))
    return {"summary": result.to_json(), "losses": list(result.losses)}


def _config(spec: dict[str, Any], team: Team) -> RunConfig:
    """The config for as many workers as there are, which must be able to share its parts."""
    from starling.train.config import RunConfig

    given = spec.get("config")
    if not isinstance(given, str):
        raise InputError('Expected {"config": "FILE.toml", "run": "DIRECTORY"} as the spec of a training, got no config.')
    if not given.endswith(".toml"):
        return RunConfig.from_tables(tomllib.loads(given))  # the launcher has checked it
    config = RunConfig.read(Path(given))
    if config.team.workers not in (1, team.size):
        raise InputError(
            f"{given} is for {config.team.workers} workers, and {team.size} were started. Leave out 'workers' of [team]."
        )
    for name in ("threads", "transport", "deadline"):
        if getattr(config.team, name) != type(config.team).model_fields[name].default:
            raise InputError(f"Workers were started without the '{name}' of [team] in {given}. Pass them --{name} instead.")
    _check_same_device(config, team, given)
    _check_own_parts(config.data.path, team, shared=config.shares_parts)
    return config.model_copy(update={"team": config.team.model_copy(update={"workers": team.size})})


def _check_same_device(config: RunConfig, team: Team, given: str) -> None:
    """Workers took their devices when they met, before any of them read the config."""
    from starling.train.devices import check_device

    check_device(config.run.device)
    wanted, taken = config.run.device.partition(":")[0], team.device.type
    if team.size > 1 and wanted != taken:
        raise InputError(
            f"Workers were started on the device {taken}, and {given} says {wanted}. Pass them --device {wanted}, or change the "
            "'device' of [run]."
        )


def _check_own_parts(path: Path, team: Team, *, shared: bool) -> None:
    from starling.core.manifest import read_json
    from starling.engine.hybrid.share.worker_graph import parts_of_worker
    from starling.engine.same_parts import check_same_parts
    from starling.launch.preflight import check_parts
    from starling.store.parts_manifest import PartsManifest

    if team.size == 1:
        return
    if read_json(path).get("format") != "starling-parts":
        raise InputError(
            f"Workers share a parts directory, got {path}. Make one with: starling partition {path} -p {team.size} -o PARTS."
        )
    manifest = PartsManifest.read(path)
    own = parts_of_worker(team.rank, team.size, manifest.parts)
    check_parts(path, manifest, workers=team.size, shared=shared, parts=own)
    check_same_parts(path, manifest, team)


def _directory(spec: dict[str, Any]) -> RunDirectory | Path | None:
    """The run directory made by the launcher, or where worker 0 shall make one."""
    from starling.train.config import CONFIG
    from starling.train.run_directory import RunDirectory

    path = Path(spec["run"]) if spec.get("run") else None
    if path is not None and path.is_dir() and not (path / CONFIG).exists():
        return RunDirectory(path)
    return path


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
