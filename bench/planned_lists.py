"""Layers of a mini-batch with all neighbours: lists of edges that are copied for it, beside the graph's own read through a map.

    python bench/planned_lists.py PARTS        # parts of an edge-cut, as of bench/hybrid.py: a worker for each of two

Batches of targets are planned both ways in turn, three layers each, by two workers that are threads; then the first worker sums 128
columns over the edges of every layer, forward and backward, and over copied lists attends to them, with four heads. Times are
processor seconds of that worker's thread, medians over batches; bytes are those of all arrays that stand for a batch's edges. A few
minutes; results/planned_lists.json and a table in docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from doc_tables import write_table
from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.active import ActiveSet
from starling.engine.hybrid.plan import WorkerLayer
from starling.engine.hybrid.worker_graph import WorkerGraph, open_worker_graph
from starling.kernels.frontier import FrontierPool
from starling.kernels.mapped import Lists, MappedLists, sum_lists
from starling.kernels.rows import rows_of
from starling.kernels.sampling import take_all
from starling.kernels.spmm import plain_sum
from starling.nn.gather import Attention
from starling.nn.graph import LocalGraph
from starling.nn.view import View
from starling.store.parts import open_parts

RESULTS = Path(__file__).resolve().parent / "results" / "planned_lists.json"
WORKERS, LAYERS, TARGETS, WIDTH, HEADS = 2, 3, 2_048, 128, 4
WAYS = ("copied", "through a map")


def planned(graph: WorkerGraph, team: Team, own: NDArray[Any], way: str, step: int) -> list[WorkerLayer]:
    """The layers of a batch, with everything that sums over them read."""
    active, layers = ActiveSet(graph, team, FrontierPool(graph.rows), step), []
    for _ in range(LAYERS):
        if way == "copied":
            layer, own = active.expand(own, lambda rows: take_all(graph.incoming, rows, 1))
        else:
            layer, own = active.expand_whole(own)
        split = layer.split(numbered=False)
        for lists in (split.inner_turned(np.empty(0)), *(peer.backward for peer in split.peers.values())):
            assert lists.rows >= 0
        layers.append(layer)
    return layers


def sums(layers: list[WorkerLayer]) -> None:
    """What the first pass over a batch and the way back read of edges: each layer's sums and their transposes."""
    for layer in layers:
        split = layer.split(numbered=False)
        _sum(split.inner, layer.traffic.owned)
        _sum(split.inner_turned(np.empty(0)), layer.outputs)
        for worker, peer in split.peers.items():
            _sum(peer.forward, layer.traffic.mirror_count(worker))
            _sum(peer.backward, layer.outputs)


def attention(layers: list[WorkerLayer]) -> None:
    """What GAT computes over the edges of a batch, forward and backward; of lists that are through a map it would read copies."""
    draw = torch.Generator().manual_seed(0)
    source, target = (torch.randn(HEADS, WIDTH // HEADS, generator=draw, requires_grad=True) for _ in range(2))
    for layer in layers:
        block = layer.block
        graph = LocalGraph(torch.from_numpy(block.offsets), torch.from_numpy(block.neighbours), len(layer.rows), layer.outputs)
        rows = torch.randn(len(layer.rows), WIDTH, generator=draw, requires_grad=True)
        out = View(graph).aggregate(Attention(source, target), "softmax", rows)
        out.sum().backward()  # type: ignore[no-untyped-call]


def _sum(lists: Lists, columns: int) -> None:
    x, out = np.ones((columns, WIDTH), np.float32), np.empty((lists.rows, WIDTH), np.float32)
    sum_lists(lists, plain_sum(np.float32), rows_of(x), rows_of(out))


def held_bytes(layers: list[WorkerLayer]) -> int:
    """All arrays of the batch's edges, each once."""
    arrays: dict[int, NDArray[Any]] = {}

    def keep(*some: NDArray[Any]) -> None:
        arrays.update((array.__array_interface__["data"][0], array) for array in some)

    for layer in layers:
        split = layer.split(numbered=False)
        if layer.sums is None:
            keep(layer.block.offsets, layer.block.neighbours, layer.block.edge)
        pairs = [
            (split.inner, split.inner_turned(np.empty(0))),
            *((peer.forward, peer.backward) for peer in split.peers.values()),
        ]
        for lists in (lists for pair in pairs for lists in pair):
            if isinstance(lists, MappedLists):
                work = lists.ordinary
                assert work.before is not None
                keep(lists.place, work.begin, work.end, work.before)
            else:
                keep(lists.offsets, lists.neighbours, lists.edges)
    return sum(array.nbytes for array in arrays.values())


def measured(path: Path, batches: int) -> list[dict[str, Any]]:
    parts = open_parts(path)

    def work(team: Team) -> list[dict[str, Any]]:
        graph = open_worker_graph(parts, team.rank, team.size)
        draw, lines = np.random.default_rng(team.rank), []
        _ = graph.whole_split.inner.transposed_unnumbered, [peer.backward for peer in graph.whole_split.peers.values()]
        for batch in range(batches + 1):  # the first compiles
            own = np.sort(draw.choice(graph.owned, TARGETS // WORKERS, replace=False))
            for number, way in enumerate(WAYS):
                layers, planning = _timed(partial(planned, graph, team, own, way, 2 * batch + number))
                line = {
                    "way": way,
                    "planning": planning,
                    "bytes": held_bytes(layers),
                    "edges": sum(layer.edges for layer in layers),
                }
                if team.rank == 0:
                    line["sums"] = _timed(partial(sums, layers))[1]
                    if way == "copied":
                        line["attention"] = _timed(partial(attention, layers))[1]
                lines.append(line)
        return lines[len(WAYS) :]

    return run_threads(WORKERS, work)[0]


def _timed(job: Callable[[], Any]) -> tuple[Any, float]:
    began = time.thread_time()
    return job(), time.thread_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=Path)
    parser.add_argument("--batches", type=int, default=9)
    asked = parser.parse_args()
    lines = measured(asked.parts, asked.batches)
    RESULTS.write_text(json.dumps(lines, indent=1) + "\n")
    rows = ["| edges | planning, s | sums, s | attention, s | bytes an edge |", "|---|---:|---:|---:|---:|"]
    for way in WAYS:
        mine = [line for line in lines if line["way"] == way]
        planning, computing = (statistics.median(line[what] for line in mine) for what in ("planning", "sums"))
        attending = f"{statistics.median(line['attention'] for line in mine):.3f}" if way == "copied" else ""
        size = statistics.median(line["bytes"] / line["edges"] for line in mine)
        rows.append(f"| {way} | {planning:.3f} | {computing:.3f} | {attending} | {size:.1f} |")
    write_table("engine.md", "planned_lists", "\n".join(rows))


if __name__ == "__main__":
    main()
