"""How close the weighted sum is to the machine: ns an edge and GB/s, beside torch's CSR product and a plain copy.

    python bench/kernels_spmm.py [--nodes 200000] [--edges 9250000] [--widths 128,40] [--threads 2] [--json OUT]

A graph of random neighbours (no locality) and one whose neighbours lie near (as after relabelling by community). A round runs
all contestants once, so that a noisy machine is noisy to all of them; the table shows medians and the ratio to torch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import starling.nn  # noqa: F401  (asks for huge pages before torch is loaded)

import numpy as np  # isort: skip
import torch  # isort: skip

from starling.kernels.adjacency import Adjacency, adjacency  # isort: skip
from starling.kernels.rows import rows_of  # isort: skip
from starling.kernels.spmm import Coefficients, plain_sum, weighted_sum  # isort: skip


def graph(nodes: int, edges: int, near: bool) -> Adjacency:
    generator = np.random.default_rng(0)
    degree = generator.multinomial(edges, generator.dirichlet(np.full(nodes, 2.0)))
    offsets = np.concatenate([[0], np.cumsum(degree)])
    neighbours = generator.integers(0, nodes, edges)
    if near:
        local = generator.random(edges) < 0.8
        window = nodes // 40
        rows = np.repeat(np.arange(nodes), degree)
        neighbours[local] = (rows[local] + generator.integers(-window, window, int(local.sum()))) % nodes
    return adjacency(offsets, neighbours.astype(np.int32), nodes)


def measure(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=9_250_000)
    parser.add_argument("--widths", default="128,40")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*Sparse.*")
    torch.set_num_threads(args.threads)
    lines = []
    for near in (False, True):
        edges = graph(args.nodes, args.edges, near)
        values = torch.ones(args.edges)
        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(edges.offsets), torch.from_numpy(edges.neighbours).long(), values, (args.nodes, args.nodes)
        )
        for width in (int(text) for text in args.widths.split(",")):
            lines += compare(edges, matrix, width, near, args)
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1) + "\n")


def compare(
    edges: Adjacency, matrix: torch.Tensor, width: int, near: bool, args: argparse.Namespace
) -> list[dict[str, object]]:
    x = torch.randn(args.nodes, width)
    out, copied = torch.empty_like(x), torch.empty_like(x)
    stored = x.bfloat16().view(torch.uint16)
    none = np.empty(0, np.float32)
    weights = np.random.default_rng(1).random(4 * args.edges, np.float32)
    heads = Coefficients(weights, none, none, none, 4)
    sums, into, threads = plain_sum(np.float32), rows_of(out.numpy()), args.threads
    seconds = measure(
        {
            "copy": lambda: copied.copy_(x),
            "torch csr": lambda: matrix @ x,
            "sum": lambda: weighted_sum(edges, sums, rows_of(x.numpy()), into, threads=threads),
            "sum, bfloat16": lambda: weighted_sum(edges, sums, rows_of(stored.numpy()), into, threads=threads),
            "4 heads": lambda: weighted_sum(edges, heads, rows_of(x.numpy()), into, threads=threads),
        },
        args.rounds,
    )
    lines = []
    for name, taken in seconds.items():
        read = 2 * x.nbytes if name == "copy" else args.edges * width * (2 if "bf" in name else 4)
        line = {
            "work": name,
            "neighbours": "near" if near else "random",
            "width": width,
            "seconds": round(taken, 4),
            "ns_per_edge": round(taken / args.edges * 1e9, 1),
            "gb_per_s": round(read / taken / 1e9, 1),
            "times_torch": round(seconds["torch csr"] / taken, 2),
        }
        print(json.dumps(line))
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
