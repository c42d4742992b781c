"""Rates of the kernels beside NumPy, SciPy and torch on the same edges or rows, as ratios within one run.

    python bench/kernels.py [--edges 20000000] [--nodes 1000000] [--repeats 3]      # two to three minutes; run nothing else

Prints a Markdown table and writes the raw seconds to bench/results/kernels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from starling.core.environment import thread_count
from starling.core.keyed import stream_key, units
from starling.kernels.csr import csr_from_pairs, transpose
from starling.kernels.csr_files import csr_out_of_core
from starling.kernels.dedupe import dedupe_pairs
from starling.kernels.degrees import count_degrees
from starling.kernels.dropout import drop_features
from starling.kernels.relabel import relabel_map, unique_relabel, unique_relabel_with
from starling.kernels.symmetrise import symmetrise

RESULTS = Path(__file__).parent / "results" / "kernels.json"
BATCH = 1_000_000


@dataclass(frozen=True)
class Measurement:
    """Seconds of every repeat of one way to do a job over `items` edges, ids or numbers."""

    job: str
    way: str
    items: int
    seconds: list[float]

    @property
    def rate(self) -> float:
        """Millions of items a second, by the best repeat: whatever else the machine did only ever slowed one down."""
        return self.items / min(self.seconds) / 1e6


def skewed_pairs(nodes: int, edges: int) -> np.ndarray:
    """Edges whose ends are drawn with a heavy tail, spread over the numbering as in a real graph."""
    rank = np.empty((edges, 2), np.int64)
    for side in (0, 1):
        rank[:, side] = nodes * units(stream_key(1, "bench", step=side), 0, edges) ** 3
    return (rank * 2_654_435_761 % nodes).astype(np.int32)


def scipy_csr(pairs: np.ndarray, nodes: int) -> csr_array:
    """What one would write with SciPy: its CSR by destination, with the edge numbers as data."""
    return csr_array((np.arange(len(pairs), dtype=np.int32), (pairs[:, 1], pairs[:, 0])), shape=(nodes, nodes))


def numpy_csr(pairs: np.ndarray, nodes: int) -> tuple[np.ndarray, ...]:
    order = np.argsort(pairs[:, 1], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 1], minlength=nodes))])
    return offsets, pairs[order, 0], order


def numpy_relabel(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different ids in order of first appearance, as NumPy alone can give them."""
    unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return unique[order], rank[inverse].astype(np.int32)


def numpy_dedupe(pairs: np.ndarray) -> np.ndarray:
    _, first = np.unique(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1], return_index=True)
    mask = np.zeros(len(pairs), bool)
    mask[first] = True
    return mask


def write_out_of_core(pairs: np.ndarray, nodes: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        blocks = (pairs[start : start + (1 << 20)] for start in range(0, len(pairs), 1 << 20))
        csr_out_of_core(blocks, nodes, len(pairs), Path(directory), 256 << 20)


def measure(nodes: int, edges: int, repeats: int) -> list[Measurement]:
    pairs = skewed_pairs(nodes, edges)
    csr = csr_from_pairs(pairs, nodes)
    matrix = csr_array((csr.edge, csr.neighbours, csr.offsets), shape=(nodes, nodes))
    ids = np.ascontiguousarray(pairs[:BATCH, 0])
    places = relabel_map(nodes)
    rows = np.random.default_rng(0).normal(size=(20_000, 128)).astype(np.float32)
    tensor, dropped, positions, key = (
        torch.from_numpy(rows),
        np.empty_like(rows),
        np.arange(len(rows)),
        stream_key(1, "dropout"),
    )
    jobs: dict[str, tuple[int, dict[str, Callable[[], object]]]] = {
        "degrees": (
            edges,
            {"Starling": lambda: count_degrees(pairs, nodes), "NumPy": lambda: np.bincount(pairs[:, 1], minlength=nodes)},
        ),
        "CSR from edges": (
            edges,
            {
                "Starling": lambda: csr_from_pairs(pairs, nodes),
                "Starling, one thread": lambda: csr_from_pairs(pairs, nodes, threads=1),
                "Starling, out of core in 256 MiB": lambda: write_out_of_core(pairs, nodes),
                "SciPy (adds up copies)": lambda: scipy_csr(pairs, nodes),
                "NumPy": lambda: numpy_csr(pairs, nodes),
            },
        ),
        "transpose": (
            edges,
            {
                "Starling": lambda: transpose(csr, nodes),
                "Starling, one thread": lambda: transpose(csr, nodes, threads=1),
                "SciPy": matrix.tocsc,
            },
        ),
        "first occurrences": (
            edges,
            {"Starling": lambda: dedupe_pairs(pairs), "NumPy": lambda: numpy_dedupe(pairs)},
        ),
        "symmetrise": (edges, {"Starling": lambda: symmetrise(pairs)}),
        "relabel a batch": (
            len(ids),
            {
                "Starling, by hash": lambda: unique_relabel(ids),
                "Starling, by map": lambda: unique_relabel_with(places, ids),
                "NumPy": lambda: numpy_relabel(ids),
            },
        ),
        "dropout of 20,000 rows": (
            rows.size,
            {
                "Starling, by node and feature": lambda: drop_features(rows, positions, key, 0.5, dropped),
                "torch": lambda: torch.nn.functional.dropout(tensor, 0.5),
            },
        ),
    }
    measurements = []
    for job, (items, ways) in jobs.items():
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for repeat in range(repeats + 1):  # in turn, so that all ways meet the same weather
            for way, run in ways.items():
                start = time.perf_counter()
                run()
                if repeat:  # the first time compiles, and warms up
                    seconds[way].append(time.perf_counter() - start)
        measurements += [Measurement(job, way, items, seconds[way]) for way in ways]
    return measurements


def table(measurements: list[Measurement]) -> str:
    """Markdown; the ratio is to the first way of the same job."""
    lines = ["| job | way | million a second | ratio |", "|---|---|---:|---:|"]
    first: dict[str, float] = {}
    for one in measurements:
        base = first.setdefault(one.job, one.rate)
        lines.append(f"| {one.job} | {one.way} | {one.rate:,.1f} | {one.rate / base:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    measurements = measure(options.nodes, options.edges, options.repeats)
    print(
        f"{options.edges:,} edges, {options.nodes:,} nodes, {thread_count()} threads, best of {options.repeats}, load {load}\n"
    )
    print(table(measurements))
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "nodes": options.nodes,
        "edges": options.edges,
        "threads": thread_count(),
        "load_before": load,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "measurements": [asdict(one) for one in measurements],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
