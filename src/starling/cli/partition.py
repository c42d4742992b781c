"""``starling partition``: cut a graph into parts for workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from starling.cli.flags import Force, Json, Memory, Output, Quiet, Seed, Threads
from starling.cli.output import memory_line, print_facts, print_json, print_table, show
from starling.cli.progress import progress
from starling.core.assignment import Note
from starling.core.errors import InputError
from starling.core.memory import format_bytes, parse_budget, peak_rss_bytes
from starling.partition.quality import Quality
from starling.partition.registry import METHODS
from starling.plan.loads import BALANCES
from starling.plan.partition_request import PartitionRequest
from starling.plan.partitioning import PartitionReport, partition_graph
from starling.store.graph import open_graph

METHODS_EPILOG = "Methods:\n\n" + "\n\n".join(
    f"- **{name}**: {method.summary}"
    + (f" (settings: {', '.join(method.Settings.model_fields)})" if method.Settings.model_fields else "")
    for name, method in METHODS.items()
)


def partition(
    graph: Annotated[Path, typer.Argument(help="A graph directory.", show_default=False)],
    output: Output,
    parts: Annotated[str, typer.Option("--parts", "-p", help="Number of parts, or auto with --worker-memory.")] = "auto",
    method: Annotated[
        str | None,
        typer.Option(help="How to cut: a method from the list below, or your own as file.py:Class.", show_default="flock"),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, as name=value. Repeatable.", show_default=False)
    ] = None,
    halo_hops: Annotated[int, typer.Option(min=0, max=3, help="Hops of neighbours kept around a part.")] = 1,
    sub_parts: Annotated[
        int, typer.Option(min=1, help="Second-level parts inside each part, for the workers of one machine.")
    ] = 1,
    balance: Annotated[
        str | None, typer.Option(help=f"Loads to even out afterwards, comma-separated, of {', '.join(BALANCES)}.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, help="How far above the mean a load may be, in per cent.", show_default="5")
    ] = None,
    keep_vertex_cut: Annotated[
        bool, typer.Option("--keep-vertex-cut", help="Keep the masters and mirrors of a vertex-cut method.")
    ] = False,
    worker_memory: Annotated[
        int | None,
        typer.Option(parser=parse_budget, metavar="SIZE", help="Memory of a worker, for --parts auto.", show_default=False),
    ] = None,
    assignment: Annotated[
        Path | None,
        typer.Option(help="Use a partition made elsewhere: a METIS .part file, a DGL partition folder.", show_default=False),
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Layer width for which the report counts bytes.")] = 128,
    seed: Seed = 0,
    memory: Memory = "1GiB",  # type: ignore[assignment]  # typer parses the default as it parses the flag
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cut a graph into parts and write a shard for each."""
    given: dict[str, Any] = {"method": method, "tolerance": None if tolerance is None else tolerance / 100}
    request = PartitionRequest(
        parts=_part_count(parts),
        settings=_settings(setting or []),
        seed=seed,
        memory=memory,
        threads=threads,
        halo_hops=halo_hops,
        sub_parts=sub_parts,
        balance=tuple(name.strip() for name in balance.split(",")) if balance is not None else (),
        keep_vertex_cut=keep_vertex_cut,
        worker_memory=worker_memory,
        assignment=assignment,
        **{name: value for name, value in given.items() if value is not None},
    )
    report = partition_graph(open_graph(graph), output, request, force=force, progress=progress(quiet=quiet or json))
    result = _result(report, request, width)
    print_json(result) if json else _print(report, result, width)


def _part_count(text: str) -> Any:
    if text == "auto" or (text.isascii() and text.isdecimal()):
        return text if text == "auto" else int(text)
    raise InputError(f"Expected a whole number of parts or 'auto', got '{text}'.")


def _settings(flags: list[str]) -> dict[str, Note]:
    settings: dict[str, Note] = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals or not name:
            raise InputError(f"Expected --set as name=value, got '{flag}'.")
        settings[name] = value
    return settings


def _result(report: PartitionReport, request: PartitionRequest, width: int) -> dict[str, Any]:
    quality, seconds = report.quality, report.assign_seconds + report.shard_seconds
    streamed = sum(quality.part_edges) * max(1, report.assignment.passes)
    return {
        "method": request.method if request.assignment is None else str(request.assignment),
        "parts": report.assignment.parts,
        "kind": report.assignment.kind,
        "replication_factor": round(quality.replication_factor, 6),
        "edge_cut": round(quality.edge_cut, 6),
        "node_balance": round(quality.node_balance, 4),
        "edge_balance": round(quality.edge_balance, 4),
        "train_balance": None if quality.train_balance is None else round(quality.train_balance, 4),
        "halo_share": round(quality.halo_share, 6),
        "width": width,
        "bytes_per_layer": quality.bytes_per_layer(width),
        "random": _beside(report.random, width),
        "passes": report.assignment.passes,
        "seconds": round(seconds, 3),
        "assign_seconds": round(report.assign_seconds, 3),
        "shard_seconds": round(report.shard_seconds, 3),
        "edges_per_second": round(sum(quality.part_edges) / seconds) if seconds else 0,
        "streamed_edges_per_second": round(streamed / report.assign_seconds) if report.assign_seconds else 0,
        "peak_rss_bytes": peak_rss_bytes(),
        "assign_peak_rss_bytes": report.assign_peak_rss_bytes,
        "seed": request.seed,
        "settings": request.settings,
        "notes": report.assignment.notes,
        "output": str(report.path),
    }


def _beside(random: Quality, width: int) -> dict[str, Any]:
    """The same graph dealt out at random."""
    return {
        "replication_factor": round(random.replication_factor, 6),
        "edge_cut": round(random.edge_cut, 6),
        "halo_share": round(random.halo_share, 6),
        "bytes_per_layer": random.bytes_per_layer(width),
    }


def _print(report: PartitionReport, result: dict[str, Any], width: int) -> None:
    """A table beside a random partition, so that "is 30 % halo normal?" has an answer."""
    quality, random = report.quality, report.random
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, side in (("", "left"), (escape(str(result["method"])), "right"), ("random", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    table.add_row("replication factor", f"{quality.replication_factor:.3f}", f"{random.replication_factor:.3f}")
    table.add_row("edges cut", f"{quality.edge_cut:.1%}", f"{random.edge_cut:.1%}")
    table.add_row("halo share of a part", f"{quality.halo_share:.1%}", f"{random.halo_share:.1%}")
    table.add_row(
        f"sent per layer of width {width}",
        format_bytes(quality.bytes_per_layer(width)),
        format_bytes(random.bytes_per_layer(width)),
    )
    for name in ("node", "edge", "train"):
        value = getattr(quality, f"{name}_balance")
        if value is not None:
            table.add_row(f"{name} balance (max/mean)", f"{value:.3f}", "")
    print_table(f"Wrote {report.path}", table)
    notes = [(name.replace("_", " "), show(value)) for name, value in report.assignment.notes.items()]
    print_facts(
        "",
        [
            ("parts", result["parts"]),
            *notes,
            ("assigned in", f"{report.assign_seconds:.1f} s, {_passes(report.assignment.passes)}"),
            ("shards built in", f"{report.shard_seconds:.1f} s"),
            memory_line(result["peak_rss_bytes"]),
        ],
    )


def _passes(count: int) -> str:
    return "1 pass over the edges" if count == 1 else f"{count} passes over the edges"
