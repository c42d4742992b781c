"""A run that goes on keeps its settings: which may be changed, and what is said where others are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starling.core.errors import InputError
from starling.core.manifest import file_entry, read_json
from starling.core.user_class import ClassPlace
from starling.plan.registry import read_settings
from starling.train.checkpoint_directory import epochs_done
from starling.train.config import CONFIG, RunConfig, read_config
from starling.train.config_tables import merged
from starling.train.embeddings import edges_of
from starling.train.model import resolved_model
from starling.train.run_directory import SUMMARY, RunDirectory

_FREE: dict[str, tuple[str, ...]] = {
    "data": ("path",),
    "run": ("epochs", "patience", "checkpoint_every", "memory"),
    "team": ("threads", "transport", "deadline", "cache", "overlap"),
    "embedding": ("memory",),
    "pipeline": ("mode", "depths", "memory"),
}
"""Settings of how long and by which means a run trains, not of what it learns."""


def resumed(run: Path, *changes: Mapping[str, Mapping[str, Any]]) -> RunConfig:
    """The settings of a run that is to go on, with `changes` laid over them; refuses what would make it another run."""
    if not (run / CONFIG).is_file():
        raise InputError(
            f"Expected a run directory to go on with, got {run}, which has no {CONFIG}. Begin it without --resume"
            f"{', and with another --run' if run.exists() else ''}."
        )
    with RunDirectory(run).held():
        pass  # whoever trains in it now is not to be disturbed; the first worker will hold it
    saved, own = read_config(run / CONFIG), {name: dict(table) for name, table in merged(*changes).items()}
    before = RunConfig.from_tables(saved)
    if given := own.get("data", {}).pop("path", None):
        _check_same_graph(Path(given), before.data.path, run)
    for name, choice in (("model", before.model), ("strategy", before.strategy)):
        if _known_as(own.get(name, {}).get("name", "")) == _known_as(choice.name):
            del own[name]["name"]  # the run has a copy of the user's file
    now = RunConfig.from_tables(merged(saved, own))
    check_unchanged(essence(before), now, f"The run {run}", f"begin another one with --config {run / CONFIG}")
    _check_more_to_do(run, before, now)
    return now


def essence(config: RunConfig) -> dict[str, dict[str, Any]]:
    """All settings that what is learnt depends on, as plain values."""
    tables = config.to_tables()
    for name, settings in (
        ("model", resolved_model(config.model)),
        ("strategy", read_settings(config.strategy.name, config.strategy.settings).model_dump()),
    ):
        tables[name] = {"name": _known_as(tables[name]["name"]), **settings}
    kept = {
        name: {key: value for key, value in table.items() if key not in _FREE.get(name, ())} for name, table in tables.items()
    }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(kept, default=str))
    return plain


def _known_as(name: str) -> str:
    """A model or strategy, wherever its file is; one of the user's is another when its file has changed."""
    place = ClassPlace.parse(name)
    if place is None or not place.file.is_file():
        return name
    return f"{place.name} of {place.file.name}, SHA-256 {file_entry(place.file).sha256[:12]}…"


def contents_of(graph: Path) -> str:
    """The SHA-256 of all arrays of a graph or of its parts, as its manifest tells them."""
    files: Any = read_json(graph)["files"]
    arrays = {name: file["sha256"] for name, file in files.items() if name.endswith(".npy")}
    return hashlib.sha256(json.dumps(arrays, sort_keys=True).encode()).hexdigest()


def check_unchanged(before: Mapping[str, Mapping[str, Any]], config: RunConfig, whose: str, otherwise: str) -> None:
    """Refuse settings that what was learnt so far does not go with."""
    for name, table in essence(config).items():
        earlier = before.get(name, {})
        for key in {**table, **earlier}:
            was, value = earlier.get(key), table.get(key)
            if was != value:
                raise InputError(
                    f"{whose} has {_shown(was)} as the '{key}' of [{name}] and goes on with it, got {_shown(value)}. Leave it out, "
                    f"or {otherwise}."
                )


def check_epochs(done: int, planned: int, config: RunConfig, whose: str) -> None:
    """Refuse an end that later epochs would have known of, or that has passed already; `planned` was to be the last."""
    wanted = config.run.epochs
    if wanted != planned and config.schedule.name == "cosine":
        raise InputError(
            f"The rates of a cosine schedule depend on all epochs, {planned} in {whose}, got --epochs {wanted}. Leave it out, or "
            "begin another run."
        )
    if wanted < done or wanted == done != planned:  # which would have been evaluated as the last one
        raise InputError(
            f"{whose[0].upper()}{whose[1:]} has trained {done} epochs already, got --epochs {wanted}. Pass more, or leave it out."
        )


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value)


def _check_same_graph(given: Path, saved: Path, run: Path) -> None:
    """The graph that was given at first may be given again, also where the run has parts of it."""
    if given.resolve() != saved and edges_of(given) != edges_of(saved):
        raise InputError(f"The run {run} is of another graph, {saved}, got {given}. Leave the path out, or begin another run.")


def _check_more_to_do(run: Path, before: RunConfig, now: RunConfig) -> None:
    done = epochs_done(run)
    if (run / SUMMARY).is_file():
        done = json.loads((run / SUMMARY).read_text())["epochs"]
        early = done < before.run.epochs
        if 0 < now.run.patience <= before.run.patience if early else now.run.epochs == done:
            raise InputError(
                f"The run {run} has ended, after {done} epochs{', out of patience' if early else ''}. To train on pass "
                f"{'a longer --patience' if early else 'more --epochs'}."
            )
    check_epochs(done, before.run.epochs, now, f"the run {run}")
