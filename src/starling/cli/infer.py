"""``starling infer``: a prediction for every node, under the user's own ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starling.cli.flags import Json
from starling.cli.output import memory_line, print_facts, print_json, show
from starling.core.memory import parse_budget


def infer(
    run: Annotated[Path, typer.Argument(help="A run directory, made by starling train.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write, as its ending says: .csv, .parquet or .npy.", show_default=False),
    ],
    graph: Annotated[
        Path | None,
        typer.Option(help="Predict for another graph with the same features; by default the run's own.", show_default=False),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_budget,
            metavar="SIZE",
            help="Budget, e.g. 2GiB: what is larger goes in blocks. Default half of what is free.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default the run's own.", show_default=False)] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Link prediction: score these pairs, a CSV or Parquet file with the columns source and destination (and type, "
            "where edges have types), in place of writing a row of numbers for every node.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    json: Json = False,
) -> None:
    """Write a prediction for every node under your own ids: exact, from all neighbours, layer by layer."""
    from starling.train.prediction import PredictRequest, predict

    result = predict(PredictRequest(run, output, graph, memory, device, force, pairs))
    if json:
        print_json(result.to_json())
        return
    scores = {name: value for name, value in vars(result.scores).items() if value is not None}
    facts: list[tuple[str, object]] = [
        ("nodes", result.nodes),
        (result.metric, ", ".join(f"{name} {show(value)}" for name, value in scores.items()) or None),
        ("time", f"{result.seconds:.1f} s"),
        memory_line(result.peak_rss_bytes),
    ]
    print_facts(f"Wrote {output}", facts)
