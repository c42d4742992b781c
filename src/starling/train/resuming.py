"""A run that goes on keeps its settings: which may be changed, and what is said where others are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starling.core.errors import InputError
from starling.core.user_class import ClassPlace
from starling.plan.registry import read_settings
from starling.train.checkpoint_directory import epochs_done
from starling.train.config import CONFIG, RunConfig, merged, read_config
from starling.train.embeddings import edges_of
from starling.train.run_directory import SUMMARY
from starling.train.setup import resolved_model

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
            f"Expected a run directory to go on with, got {run}, which has no {CONFIG}. Begin it without --resume."
        )
    saved, own = read_config(run / CONFIG), {name: dict(table) for name, table in merged(*changes).items()}
    before = RunConfig.from_tables(saved)
    if given := own.get("data", {}).pop("path", None):
        _check_same_graph(Path(given), before.data.path, run)
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
        place = ClassPlace.parse(tables[name]["name"])
        tables[name] = {"name": tables[name]["name"] if place is None else place.name, **settings}
    kept = {
        name: {key: value for key, value in table.items() if key not in _FREE.get(name, ())} for name, table in tables.items()
    }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(kept, default=str))
    return plain


def check_unchanged(before: Mapping[str, Mapping[str, Any]], config: RunConfig, whose: str, otherwise: str) -> None:
    """Refuse settings that what was learnt so far does not go with."""
    for name, table in essence(config).items():
        for key, value in table.items():
            was = before.get(name, {}).get(key)
            if was != value:
                raise InputError(
                    f"{whose} has {_shown(was)} as the '{key}' of [{name}] and goes on with it, got {_shown(value)}. Leave it out, "
                    f"or {otherwise}."
                )


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value)


def _check_same_graph(given: Path, saved: Path, run: Path) -> None:
    """The graph that was given at first may be given again, also where the run has parts of it."""
    if given.resolve() != saved and edges_of(given) != edges_of(saved):
        raise InputError(f"The run {run} is of another graph, {saved}, got {given}. Leave the path out, or begin another run.")


def _check_more_to_do(run: Path, before: RunConfig, now: RunConfig) -> None:
    done, wanted = epochs_done(run), now.run.epochs
    if wanted != before.run.epochs and now.schedule.name == "cosine":
        raise InputError(
            f"The rates of a cosine schedule depend on all epochs, {before.run.epochs} in the run {run}, got --epochs {wanted}. "
            "Leave it out, or begin another run."
        )
    if wanted < done:
        raise InputError(f"The run {run} has trained {done} epochs already, got --epochs {wanted}. Pass more, or leave it out.")
    if (run / SUMMARY).is_file() and (wanted, now.run.patience) == (before.run.epochs, before.run.patience):
        trained = json.loads((run / SUMMARY).read_text())["epochs"]
        early = trained < wanted
        raise InputError(
            f"The run {run} has ended, after {trained} epochs{', out of patience' if early else ''}. To train on pass "
            f"{'a longer --patience' if early else 'more --epochs'}."
        )
