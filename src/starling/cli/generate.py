"""``starling generate``: a graph of any size from a model, the same for the same seed."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from starling.cli.flags import Force, Json, Memory, Output, Quiet, Seed
from starling.cli.graph_facts import import_result, print_import
from starling.cli.import_ import parse_split
from starling.cli.output import print_json
from starling.cli.progress import progress
from starling.core.errors import InputError, nearest
from starling.core.memory import check_program_fits
from starling.store.graph import create_graph
from starling.stream.generators import GENERATORS
from starling.stream.ingest import ImportOptions

_MODELS = "; ".join(f"`{name}`: {generator.summary}" for name, generator in GENERATORS.items())


def generate(
    model: Annotated[str, typer.Argument(help=_MODELS, show_default=False)],
    output: Output,
    nodes: Annotated[int | None, typer.Option(min=1, help="Number of nodes.")] = None,
    edges: Annotated[
        int | None, typer.Option(min=0, help="Edges to ask for, both directions counted; repeats are dropped.")
    ] = None,
    classes: Annotated[int | None, typer.Option(min=1, help="Classes, which are also the communities (dcsbm).")] = None,
    features: Annotated[int | None, typer.Option(min=0, help="Feature width.")] = None,
    mix: Annotated[float | None, typer.Option(min=0, max=1, help="Share of edges that ignore communities (dcsbm).")] = None,
    exponent: Annotated[float | None, typer.Option(help="Exponent of the power-law degrees (dcsbm).")] = None,
    signal: Annotated[float | None, typer.Option(help="Strength of the class in the features (dcsbm).")] = None,
    split: Annotated[str | None, typer.Option(help="Percentages of train/val/test nodes, e.g. 60/20/20 (dcsbm).")] = None,
    order: Annotated[str | None, typer.Option(help="Node order: random or community (dcsbm).")] = None,
    a: Annotated[float | None, typer.Option(min=0, max=1, help="Chance that both ends are in the first half (rmat).")] = None,
    b: Annotated[float | None, typer.Option(min=0, max=1, help="Chance that only the source is (rmat).")] = None,
    c: Annotated[float | None, typer.Option(min=0, max=1, help="Chance that only the destination is (rmat).")] = None,
    seed: Seed = 0,
    memory: Memory = "1GiB",  # type: ignore[assignment]  # typer parses the default as it parses the flag
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a graph from a model, block by block, in bounded memory."""
    began = time.monotonic()
    if model not in GENERATORS:
        raise InputError(f"Unknown model '{model}'. {nearest(model, GENERATORS)}")
    given = {
        "nodes": nodes,
        "edges": edges,
        "classes": classes,
        "features": features,
        "mix": mix,
        "exponent": exponent,
        "signal": signal,
        "split": parse_split(split),
        "order": order,
        "a": a,
        "b": b,
        "c": c,
    }
    generator = GENERATORS[model]
    settings = _checked(
        model, generator.settings, {name: value for name, value in given.items() if value is not None} | {"seed": seed}
    )
    check_program_fits(memory)
    options = ImportOptions(direction="undirected", self_loops="drop", duplicates="drop", seed=seed, memory=memory)
    graph = create_graph(generator.make(settings), output, options, force=force, progress=progress(quiet=quiet or json))
    result = import_result(graph, time.monotonic() - began)
    print_json(result) if json else print_import(graph, result)


def _checked(model: str, settings: Any, values: dict[str, Any]) -> Any:
    """The generator's settings from the flags given; a flag the model does not have is an error, not ignored."""
    try:
        return settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        said = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # several flags that do not fit together
            raise InputError(f"Wrong flags for the model '{model}': {said}.") from None
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise InputError(f"The model '{model}' has no --{name}. It takes: {', '.join(settings.model_fields)}.") from None
        if first["type"] == "missing":
            raise InputError(f"The model '{model}' needs --{name}.") from None
        raise InputError(f"Wrong --{name} for the model '{model}': {said}, got {first['input']!r}.") from None
