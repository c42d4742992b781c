"""``starling train --auto``: settings that the user left open, taken from the forecast's recommendation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starling.cli.forecast import known_rates, offer, read_fanouts
from starling.cli.forecast_table import seconds
from starling.cli.progress import progress
from starling.core.errors import InputError
from starling.core.memory import format_bytes

if TYPE_CHECKING:
    from starling.plan.forecast.forecast import Plan
    from starling.plan.forecast.request import Request
    from starling.train.config import RunConfig

Tables = Mapping[str, Mapping[str, Any]]


def with_choice(layers: list[Any], auto: bool, worker_memory: int | None, *, quiet: bool) -> list[Any]:
    """Layers of settings with the plan's beneath what the user has given."""
    from starling.train.config_tables import merged

    if not auto:
        raise InputError(
            "--worker-memory is what --auto chooses a plan for. Pass --auto too, or --memory for features and evaluation."
        )
    given = merged(*layers)
    made = chosen_settings(given, worker_memory, quiet=quiet)
    return [*layers, {name: _unset(name, table, given.get(name, {})) for name, table in made.items()}]


def _unset(name: str, made: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan adds; of workers it may take fewer."""
    return {key: value for key, value in made.items() if key not in given or (name, key) == ("team", "workers")}


def chosen_settings(given: Tables, worker_memory: int | None, *, quiet: bool) -> dict[str, dict[str, Any]]:
    """The tables of the recommended plan; `given` is what the user has set, which the plan keeps to.

    `--workers` is how many there may be: one process is taken where it is faster.
    """
    from starling.plan.forecast.request import answer
    from starling.plan.forecast.subject import open_subject
    from starling.train.config import RunConfig

    path = given.get("data", {}).get("path")
    if path is None:
        raise InputError("Expected a graph to choose a plan for, got none. Give its path.")
    if given.get("task", {}).get("name") == "link":
        raise InputError(
            "Forecasts are for tasks on nodes: what link prediction holds of edges, pairs and rankings is not in them, got --auto "
            "with --task link. Leave out --auto, and say --strategy, --workers and --parallel yourself."
        )
    config = RunConfig.from_tables(_with_parallel(given))
    subject = open_subject(Path(path), seed=config.run.seed, progress=progress(quiet=quiet))
    found = answer(subject, _request(config, given, worker_memory), offer(), known_rates(None, quiet=quiet))
    if warning := found.calibration.warning():
        print(f"starling: {warning}", file=sys.stderr)
    best = found.found.best
    if best is None:
        raise InputError(found.refusal or "Nothing fits.")
    if best.way.in_turn and subject.parts is None:
        raise InputError(f"Only parts that are trained on in turn fit, so the graph must be cut first. Run: {found.command}.")
    if not quiet:
        told = f"{format_bytes(best.memory_bytes)} a worker, {seconds(best.seconds_per_epoch)} an epoch"
        print(f"starling: --auto takes {best.way.words}: {told}.", file=sys.stderr)
    return _tables(best)


def _with_parallel(given: Tables) -> Tables:
    """Models are averaged with --parallel data alone, which a user who leaves the parallelism open need not say."""
    if given.get("sync", {}).get("name") != "average" or "parallel" in given.get("team", {}):
        return given
    return {**given, "team": {**given.get("team", {}), "parallel": "data"}}


def _request(config: RunConfig, given: Tables, worker_memory: int | None) -> Request:
    """What is asked of the forecast: what `given` leaves open is the forecast's to choose; `config` has it checked."""
    from starling.plan.forecast.candidates import Asked
    from starling.plan.forecast.request import Request
    from starling.train.model import resolved_model

    model, strategy = resolved_model(config.model), config.strategy.settings
    layers = int(model.get("layers", 2))
    fanouts, batch_size = strategy.get("fanouts"), strategy.get("batch_size")
    batches, team = strategy.get("batches"), given.get("team", {})
    # nobody else has such settings
    implied = "mini" if fanouts is not None or batch_size is not None else "cohesive" if batches is not None else None
    asked = Asked(
        workers=config.team.workers,
        strategy=given.get("strategy", {}).get("name", implied),
        parallel=team.get("parallel"),
        batch_size=batch_size,
        fanouts=read_fanouts(fanouts, layers) if isinstance(fanouts, str) else None if fanouts is None else tuple(fanouts),
        batches=batches if isinstance(batches, int) else None,  # `train` says what is wrong with it
        boundary=config.team.boundary if "boundary" in team else None,
        sync=given.get("sync", {}).get("name"),
        balance_workers=config.team.balance_workers,
    )
    return Request(
        asked,
        config.model.name,
        layers,
        int(model.get("hidden", 128)),
        float(model.get("dropout", 0.0)),
        worker_memory,
        threads=config.team.threads,
    )


def _tables(plan: Plan) -> dict[str, dict[str, Any]]:
    way = plan.way
    strategy: dict[str, Any] = {"name": way.strategy}
    if way.strategy == "mini":
        strategy |= {"fanouts": list(way.fanouts)} if way.fanouts is not None else {}
        strategy |= {"batch_size": way.batch_size} if way.batch_size is not None else {}
    if way.batches is not None:
        strategy["batches"] = way.batches
    team: dict[str, Any] = {"workers": way.workers, "parallel": way.parallel, "boundary": way.boundary}
    tables: dict[str, dict[str, Any]] = {"strategy": strategy, "team": team, "sync": {"name": way.sync}}
    if plan.memory.budget is not None:
        tables["run"] = {"memory": plan.memory.budget}
    return tables
