"""Layers of a mini-batch: lists of edges that are copied for it, beside the graph's own read through a map.

    python bench/planned_lists.py PARTS        # four parts of an edge-cut, as of bench/hybrid.py

Batches of targets are planned both ways in turn, three layers each, with all neighbours and with 10 or 25 of each node, by two
workers that are threads; then the first worker sums 128 columns over the edges of every layer, forward and backward, takes their
maxima, and attends to them with four heads. By four workers it sums alone: the more there are to hear from, the more passes. Times
are processor seconds of that worker's thread, medians over batches; bytes are those of all arrays that stand for a batch's edges. A
few minutes; results/planned_lists.json and a table in docs/engine.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from doc_tables import write_table
from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.keyed import stream_key
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.planning.active import ActiveSet
from starling.engine.hybrid.planning.looked_up_edges import LookedUpEdges
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph
from starling.kernels.adjacency import Adjacency, Lists
from starling.kernels.frontier import FrontierPool
from starling.kernels.looked_up import LookedUpLists
from starling.kernels.mapped import MappedLists
from starling.kernels.rows import rows_of
from starling.kernels.sampling import Taken, take_all, take_uniform
from starling.kernels.spmm import plain_sum, weighted_sum
from starling.nn.gather import Attention, Copy
from starling.nn.graph import NO_LOOPS, LocalGraph, local_graph
from starling.nn.later_graph import Unlisted
from starling.nn.view import View
from starling.plan.batch import Block
from starling.store.parts import open_parts

RESULTS = Path(__file__).resolve().parent / "results" / "planned_lists.json"
LAYERS, TARGETS, WIDTH, HEADS = 3, 2_048, 128, 4
WAYS = ("copied", "through a map")
NEIGHBOURS: dict[str, int | None] = {"all": None, "10": 10, "25": 25}


@dataclass(frozen=True)
class Cell:
    """What is measured of a batch: how many workers it has, which neighbours, what is done with them, and how they are read."""

    workers: int
    neighbours: str
    what: str
    way: str


CELLS = {
    2: [Cell(2, *names) for names in itertools.product(NEIGHBOURS, ("sums", "maxima", "attention"), WAYS)],
    4: [Cell(4, *names) for names in itertools.product(NEIGHBOURS, ("sums",), WAYS)],
}


def planned(graph: WorkerGraph, team: Team, own: NDArray[Any], cell: Cell, step: int) -> list[WorkerLayer]:
    """The layers of a batch, with all lists that sums, or attention, read."""
    active, layers = ActiveSet(graph, team, FrontierPool(graph.rows), step), []
    fanout, in_place = NEIGHBOURS[cell.neighbours], cell.way != "copied"

    def take(rows: NDArray[Any]) -> Taken:
        if fanout is None:
            return take_all(graph.incoming, rows, 1)
        return take_uniform(graph.incoming, rows, graph.position[rows], fanout, stream_key(step, "bench"), threads=1)

    for _ in range(LAYERS):
        layer, own = active.expand_whole(own) if in_place and fanout is None else active.expand(own, take, in_place=in_place)
        if cell.what == "sums":
            split = layer.edges.split(numbered=False)
            for lists in (split.inner.turned_for(np.empty(0)), *(peer.backward for peer in split.peers.values())):
                assert lists.rows >= 0
        else:
            assert lists_of(layer).transposed.offsets[-1] >= 0
        layers.append(layer)
    return layers


def lists_of(layer: WorkerLayer) -> Lists:
    """All edges, as attention reads them."""
    return graph_of(layer).adjacency


def graph_of(layer: WorkerLayer) -> LocalGraph:
    """The layer's graph, made once."""
    graph: LocalGraph | None = layer.__dict__.get("_bench_graph")
    if graph is None:
        sources = len(layer.rows)
        rows = {"looped": NO_LOOPS, "position": torch.arange(sources)}
        graph = layer.edges.graph(Unlisted(sources, layer.outputs, {}, rows), lambda block: listed(block, sources))
        layer.__dict__["_bench_graph"] = graph
    return graph


def listed(block: Block, sources: int) -> LocalGraph:
    return local_graph(torch.from_numpy(block.offsets), torch.from_numpy(block.neighbours), sources, looped=NO_LOOPS)


def sums(layers: list[WorkerLayer]) -> None:
    """What the first pass over a batch and the way back read of edges: each layer's sums and their transposes."""
    for layer in layers:
        split = layer.edges.split(numbered=False)
        _sum(split.inner, layer.traffic.owned)
        _sum(split.inner.turned_for(np.empty(0)), layer.outputs)
        for worker, peer in split.peers.items():
            _sum(peer.forward, layer.traffic.mirror_count(worker))
            _sum(peer.backward, layer.outputs)


def attention(layers: list[WorkerLayer]) -> None:
    """What GAT computes over the edges of a batch, forward and backward."""
    draw = torch.Generator().manual_seed(0)
    source, target = (torch.randn(HEADS, WIDTH // HEADS, generator=draw, requires_grad=True) for _ in range(2))
    for layer in layers:
        rows = torch.randn(len(layer.rows), WIDTH, generator=draw, requires_grad=True)
        out = View(graph_of(layer)).aggregate(Attention(source, target), "softmax", rows)
        out.sum().backward()  # type: ignore[no-untyped-call]


def maxima(layers: list[WorkerLayer]) -> None:
    """What GraphSAGE computes with maxima, forward and backward."""
    draw = torch.Generator().manual_seed(0)
    for layer in layers:
        rows = torch.randn(len(layer.rows), WIDTH, generator=draw, requires_grad=True)
        View(graph_of(layer)).aggregate(Copy(), "max", rows).sum().backward()  # type: ignore[no-untyped-call]


COMPUTE: dict[str, Callable[[list[WorkerLayer]], None]] = {"sums": sums, "maxima": maxima, "attention": attention}


def _sum(lists: Lists, columns: int) -> None:
    x, out = np.ones((columns, WIDTH), np.float32), np.empty((lists.rows, WIDTH), np.float32)
    weighted_sum(lists, plain_sum(np.float32), rows_of(x), rows_of(out))


def held_bytes(layers: list[WorkerLayer], what: str) -> int:
    """All arrays of the batch's edges, each once, and whole where only a stretch of it is read."""
    arrays: dict[int, NDArray[Any]] = {}

    def keep(*some: NDArray[Any]) -> None:
        for array in some:
            while isinstance(array.base, np.ndarray):
                array = array.base
            arrays[array.__array_interface__["data"][0]] = array

    for layer in layers:
        if not isinstance(layer.edges, LookedUpEdges):
            keep(layer.edges.block.offsets, layer.edges.block.neighbours, layer.edges.block.edge)
        if what != "sums":
            pairs = [(lists_of(layer), lists_of(layer).transposed)]
        else:
            split = layer.edges.split(numbered=False)
            peers = split.peers.values()
            pairs = [(split.inner, split.inner.turned_for(np.empty(0))), *((peer.forward, peer.backward) for peer in peers)]
        for lists in (lists for pair in pairs for lists in pair):
            if isinstance(lists, LookedUpLists):
                keep(lists.place, lists.offsets, lists.found_in.through, lists.found_in.shift)
                keep(lists.chosen if isinstance(lists, MappedLists) else lists.found_in.moved)
            else:
                assert isinstance(lists, Adjacency)
                keep(lists.offsets, lists.neighbours, lists.edges)
    return sum(array.nbytes for array in arrays.values())


def measured(path: Path, batches: int, workers: int) -> list[dict[str, Any]]:
    parts, cells = open_parts(path), CELLS[workers]

    def work(team: Team) -> list[dict[str, Any]]:
        graph = open_worker_graph(parts, team.rank, team.size)
        draw, lines = np.random.default_rng(team.rank), []
        for batch in range(batches + 1):  # the first compiles, and makes what all share
            own = np.sort(draw.choice(graph.owned, TARGETS // workers, replace=False))
            for number, cell in enumerate(cells):
                layers, planning = _timed(partial(planned, graph, team, own, cell, len(cells) * batch + number))
                edges = sum(layer.edges.count for layer in layers)
                line = {**asdict(cell), "planning": planning, "bytes": held_bytes(layers, cell.what), "edges": edges}
                if team.rank == 0:
                    line["computing"] = _timed(partial(COMPUTE[cell.what], layers))[1]
                lines.append(line)
        return lines[len(cells) :]

    return run_threads(workers, work)[0]


def _timed(job: Callable[[], Any]) -> tuple[Any, float]:
    began = time.thread_time()
    return job(), time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=Path)
    parser.add_argument("--batches", type=int, default=9)
    asked = parser.parse_args()
    lines = [line for workers in CELLS for line in measured(asked.parts, asked.batches, workers)]
    RESULTS.write_text(json.dumps(lines, indent=1) + "\n")
    rows = [
        "| workers | neighbours | | edges | planning, s | computing, s | bytes an edge |",
        "|---:|---|---|---|---:|---:|---:|",
    ]
    for cell in itertools.chain(*CELLS.values()):
        mine = [line for line in lines if asdict(cell).items() <= line.items()]
        planning, computing = (statistics.median(line[key] for line in mine) for key in ("planning", "computing"))
        size = statistics.median(line["bytes"] / line["edges"] for line in mine)
        names = f"{cell.workers} | {cell.neighbours} | {cell.what} | {cell.way}"
        rows.append(f"| {names} | {planning:.3f} | {computing:.3f} | {size:.1f} |")
    write_table("engine.md", "planned_lists", "\n".join(rows))


if __name__ == "__main__":
    main()
