"""``starling forecast``: what a run will need before it runs, and which way to train fits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starling.cli.flags import Json, Quiet
from starling.cli.forecast_table import print_answer
from starling.cli.output import print_json
from starling.cli.progress import progress
from starling.core.errors import InputError
from starling.core.memory import parse_budget

if TYPE_CHECKING:
    from starling.plan.calibration import Calibration
    from starling.plan.forecast.candidates import Offer
    from starling.plan.forecast.subject import Subject

_GRAPH: Any = {"show_default": False, "rich_help_panel": "A graph that is not here"}
_MACHINES: Any = {"show_default": False, "rich_help_panel": "Workers"}
_MODEL: Any = {"rich_help_panel": "Model and strategy"}


def forecast(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A graph directory or a parts directory; or give --nodes, --edges, --features.", show_default=False
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes.", **_GRAPH)] = None,
    edges: Annotated[int | None, typer.Option(min=0, help="Edges, each direction counted.", **_GRAPH)] = None,
    features: Annotated[int | None, typer.Option(min=1, help="Columns of features.", **_GRAPH)] = None,
    classes: Annotated[int | None, typer.Option(min=1, help="Classes. Default 16.", **_GRAPH)] = None,
    train_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of the nodes that are trained on. Default 0.5.", **_GRAPH)
    ] = None,
    edge_features: Annotated[int | None, typer.Option(min=1, help="Columns of edge attributes, for gate.", **_GRAPH)] = None,
    relations: Annotated[int | None, typer.Option(min=1, help="Kinds of edges, for rgcn and rgat.", **_GRAPH)] = None,
    edge_balance: Annotated[
        float | None,
        typer.Option(
            min=1, help="Edges of the largest part over the mean, e.g. 1.05 with partition --balance edges.", **_GRAPH
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="gcn, sage, gat, gatv2, gate, rgat, rgcn, gin, sgc or mlp.", **_MODEL)] = "sage",
    layers: Annotated[int, typer.Option(min=1, max=64, help="Graph layers.", **_MODEL)] = 2,
    hidden: Annotated[int, typer.Option(min=1, help="Columns of the inner layers.", **_MODEL)] = 128,
    dropout: Annotated[float, typer.Option(min=0, max=0.99, help="Share of values dropped between layers.", **_MODEL)] = 0.0,
    strategy: Annotated[
        str | None,
        typer.Option(help="Only global, mini, cluster, cohesive or saint. Default all.", show_default=False, **_MODEL),
    ] = None,
    parallel: Annotated[
        Literal["hybrid", "data"] | None,
        typer.Option(help="Only this one, beside one process. Default all.", show_default=False, **_MODEL),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="mini: targets a step. Default 1024.", show_default=False, **_MODEL)
    ] = None,
    fanouts: Annotated[
        str | None,
        typer.Option(
            help="mini: neighbours to sample, one number a layer: 15,10. Default 10 a layer.", show_default=False, **_MODEL
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Workers to compare with one process.", rich_help_panel="Workers")] = 1,
    worker_memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_budget,
            metavar="SIZE",
            help="Memory of each, e.g. 4GiB. Default: what is free here, divided.",
            **_MACHINES,
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Network between machines with a worker each: 1Gbit, or 25Gbit,20us with a latency. Default: all on this machine.",
            **_MACHINES,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of each. Default: its share of the cores.", **_MACHINES)
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(min=1, max=2048, help="Also simulate clusters of 1, 2, 4 … up to so many workers.", **_MACHINES),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Rates of another machine, from starling calibrate -o FILE. Default: this machine's own.", **_MACHINES
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of trial cuts and batches.", rich_help_panel="Model and strategy")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict memory, traffic and time of every way to train; recommend one that fits, with the command that runs it.

    starling forecast graph --model sage --hidden 256 --layers 3 --workers 4 --worker-memory 4GiB --network 1Gbit

    starling forecast --nodes 111000000 --edges 3200000000 --features 128 --workers 16 --worker-memory 32GiB --network 10Gbit

    starling forecast graph --workers 4 --simulate 1024 --network 10Gbit
    """
    from starling.plan.forecast.candidates import Asked
    from starling.plan.forecast.network import parse_network
    from starling.plan.forecast.request import Request, answer
    from starling.plan.forecast.subject import open_subject

    link = None if network is None else parse_network(network)
    asked = Asked(workers, strategy, parallel, batch_size, read_fanouts(fanouts, layers))
    request = Request(asked, model, layers, hidden, dropout, worker_memory, link, threads, simulate, seed)
    given = {"--nodes": nodes, "--edges": edges, "--features": features}
    silent = quiet or json
    if path is None:
        subject = _from_numbers(given, classes, train_share, edge_features, relations, edge_balance)
    else:
        beside = given | {
            "--classes": classes,
            "--train-share": train_share,
            "--edge-features": edge_features,
            "--relations": relations,
            "--edge-balance": edge_balance,
        }
        _refuse_both(path, beside)
        subject = open_subject(path, seed=seed, progress=progress(quiet=silent))
    found = answer(subject, request, offer(), known_rates(calibration, quiet=silent))
    warning = found.calibration.warning()
    if warning:
        print(f"starling: {warning}", file=sys.stderr)
    print_json(found.to_json()) if json else print_answer(found)
    if found.refusal is not None:
        raise InputError(found.refusal)


def read_fanouts(text: str | None, layers: int) -> Any:
    """Fan-outs as the user writes them, checked."""
    if text is None:
        return None
    from starling.plan.fanouts import one_a_layer
    from starling.plan.mini import Mini
    from starling.plan.registry import read_settings

    settings = read_settings("mini", {"fanouts": text})
    assert isinstance(settings, Mini.Settings)
    return one_a_layer(settings.fanouts, layers)


def offer() -> Offer:
    """What `starling train` can run, read off its settings."""
    from typing import get_args

    from starling.plan.forecast.candidates import Offer
    from starling.plan.registry import STRATEGIES
    from starling.train.sync_settings import SyncSettings
    from starling.train.team_settings import TeamSettings

    parallel = get_args(TeamSettings.model_fields["parallel"].annotation)
    sync = get_args(SyncSettings.model_fields["name"].annotation)
    return Offer(frozenset(STRATEGIES), frozenset(parallel), frozenset(sync))


def known_rates(path: Path | None, *, quiet: bool) -> Calibration:
    """The calibration asked for, or this machine's own; where there is none yet, it is measured now, quickly, and kept."""
    from starling.plan.calibration import default_path, read_calibration, save_calibration

    if path is not None or default_path().is_file():
        return read_calibration(path)
    from starling.launch.calibrate import calibrate

    print(
        "starling: This machine was never calibrated; measuring it quickly, once (starling calibrate does it well).",
        file=sys.stderr,
    )
    made = calibrate(quick=True, progress=progress(quiet=quiet))
    save_calibration(made)
    if warning := made.busy_warning():
        print(f"starling: {warning}", file=sys.stderr)
    return made


def _from_numbers(
    given: dict[str, int | None],
    classes: int | None,
    train_share: float | None,
    edge_features: int | None,
    relations: int | None,
    edge_balance: float | None,
) -> Subject:
    from starling.plan.forecast.facts import facts_of_numbers
    from starling.plan.forecast.subject import Numbers

    missing = [flag for flag, value in given.items() if value is None]
    if missing:
        raise InputError(
            f"Expected a graph, or its numbers with --nodes, --edges and --features, got no {' and no '.join(missing)}."
            if len(missing) < len(given)
            else "Expected a graph or parts directory to forecast for, or its numbers with --nodes, --edges and --features."
        )
    nodes, edges, features = (int(value or 0) for value in given.values())
    train = None if train_share is None else max(1, round(nodes * train_share)) if train_share else 0
    facts = facts_of_numbers(
        nodes, edges, features, classes=classes, train=train, edge_features=edge_features or 0, relations=relations or 0
    )
    return Numbers(facts, edge_balance=edge_balance)


def _refuse_both(path: Path, given: dict[str, Any]) -> None:
    """A graph has its own numbers; others would contradict it or be ignored."""
    for flag, value in given.items():
        if value is not None:
            raise InputError(f"{path} has its own numbers, got {flag} {value} as well. Leave one of them out.")
