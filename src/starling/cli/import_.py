"""``starling import``: any edge list, with its node tables, into a graph directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from starling.cli.flags import Force, Json, Memory, Output, Quiet, Seed
from starling.cli.graph_facts import import_result, print_import
from starling.cli.output import print_json
from starling.cli.progress import progress
from starling.core.artifact import refuse_own_input
from starling.core.errors import InputError
from starling.core.memory import check_program_fits


def import_(
    files: Annotated[
        list[str],
        typer.Argument(help="Edge files (.npy, .npz, .csv, .tsv, .txt, .parquet, also gzipped), or - for standard input."),
    ],
    output: Output,
    undirected: Annotated[
        bool | None,
        typer.Option(
            "--undirected/--directed",
            help="Add the reverse of every edge that lacks one, or say that direction matters. By default the edges are "
            "stored as they are, and the graph counts as undirected when every edge has its reverse.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Node table: ids, and any of features, labels, splits, types.")] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Feature rows: .npy, .npz (also SciPy CSR), .csv, .parquet; those of one node type as TYPE=FILE, repeatable."
        ),
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Labels: .npy, .npz, .csv, .parquet.")] = None,
    num_nodes: Annotated[int | None, typer.Option(min=1, help="Number of nodes, where the last ones have no edges.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="What a column is, as role=name: source, destination, weight, attr, type, time, split, skip. Repeatable."
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Column separator of text files; guessed by default.")] = None,
    header: Annotated[bool | None, typer.Option(help="Whether text files begin with a header; guessed by default.")] = None,
    ids: Annotated[
        Literal["auto", "position", "relabel", "string"],
        typer.Option(
            help="Whole-number ids are node positions (position), names to be renumbered (relabel), or read as text (string). "
            "auto takes them as positions unless they are absurdly large."
        ),
    ] = "auto",
    inverse: Annotated[
        bool, typer.Option("--inverse", help="Add the reverse of every edge as an edge of another type, rev_NAME of NAME.")
    ] = False,
    self_loops: Annotated[Literal["keep", "drop"], typer.Option(help="Edges from a node to itself.")] = "keep",
    duplicates: Annotated[Literal["keep", "drop"], typer.Option(help="Second and later copies of an edge.")] = "keep",
    classes: Annotated[int | None, typer.Option(min=1, help="Number of classes, where the largest label is not seen.")] = None,
    split: Annotated[str | None, typer.Option(help="Make a random split, e.g. 60/20/20, where the data has none.")] = None,
    seed: Seed = 0,
    memory: Memory = "1GiB",  # type: ignore[assignment]  # typer parses the default as it parses the flag
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read edges and node tables of any size into a graph directory."""
    from starling.store.graph import create_graph
    from starling.stream.ingest import ImportOptions
    from starling.stream.readers import open_inputs

    began = time.monotonic()
    if force:
        given = [
            *(name for name in files if name != "-"),
            *(name for name in (nodes, labels) if name is not None),
            *(features or []),
        ]
        refuse_own_input(output, *(Path(name.partition("=")[2] or name) for name in given), what="graph")
    check_program_fits(memory)
    options = ImportOptions(
        direction="as-is" if undirected is None else "undirected" if undirected else "directed",
        self_loops=self_loops,
        duplicates=duplicates,
        ids="auto" if ids == "string" else ids,
        classes=classes,
        inverse=inverse,
        split=parse_split(split),
        seed=seed,
        memory=memory,
    )
    of_all, of_types = _features(features or [])
    raw = open_inputs(
        files,
        nodes=nodes,
        features=of_all,
        type_features=of_types,
        labels=labels,
        num_nodes=num_nodes,
        columns=_roles(column or []),
        header=header,
        delimiter=delimiter,
        id_kind="string" if ids == "string" else "auto",
        memory=memory,
    )
    graph = create_graph(raw, output, options, force=force, progress=progress(quiet=quiet or json))
    result = import_result(graph, time.monotonic() - began)
    print_json(result) if json else print_import(graph, result)


def parse_split(text: str | None) -> tuple[int, int, int] | None:
    """Percentages of train, val and test in ``60/20/20``."""
    if text is None:
        return None
    shares = text.split("/")
    if (
        len(shares) != 3
        or not all(share.isascii() and share.isdecimal() for share in shares)
        or sum(map(int, shares)) > 100
        or int(shares[0]) == 0
    ):
        raise InputError(
            f"Expected --split as three percentages such as 60/20/20, with at least 1 % to train on, got '{text}'."
        )
    train, val, test = map(int, shares)
    return train, val, test


def _features(flags: list[str]) -> tuple[str | None, dict[str, str]]:
    """The file for all nodes, and the files of node types given as TYPE=FILE."""
    of_all, of_types = list[str](), dict[str, str]()
    for flag in flags:
        kind, equals, name = flag.partition("=")
        if equals and not _is_there(flag):
            if not kind or not name:
                raise InputError(f"Expected --features as FILE or TYPE=FILE, got '{flag}'.")
            if kind in of_types:
                raise InputError(f"Features of '{kind}' stand both in {of_types[kind]} and in {name}. Give them once.")
            of_types[kind] = name
        else:
            of_all.append(flag)
    if len(of_all) > 1:
        raise InputError(
            f"Expected one file of features for all nodes, got {of_all[0]} and {of_all[1]}; of a type it is TYPE=FILE."
        )
    return (of_all[0] if of_all else None), of_types


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # such as a name longer than any file can have
        return False


def _roles(flags: list[str]) -> dict[str, str]:
    roles = {}
    for flag in flags:
        role, equals, name = flag.partition("=")
        if not equals or not role or not name:
            raise InputError(f"Expected --column as role=name, for example --column weight=amount, got '{flag}'.")
        roles[role] = name
    return roles
