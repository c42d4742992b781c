"""What there is to gain by releasing the next layer row by row: rows that need no message, and the time their update takes.

    python bench/early_rows.py 200k=PARTS products=PARTS    # parts directories with names for the table

A row is early if it has no neighbours in other parts: its update (SAGE's two products, 128 columns in and out) could be computed
before the last message. The price of it is that sums of early and of late rows become two autograd nodes: their outputs are joined
into one layer input, and in the backward pass their gradients of all own rows are added up. Both are timed with one thread for a
worker of average size. A minute; results/early_rows.json and a table in docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from doc_tables import write_table
from starling.store.parts import Shard, open_parts

RESULTS = Path(__file__).resolve().parent / "results" / "early_rows.json"
WIDTH, REPEATS = 128, 9


def early_rows(shard: Shard) -> int:
    """Own nodes whose in-neighbours are all own."""
    offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
    elsewhere = np.asarray(shard.incoming.neighbours[: offsets[-1]]) >= shard.owned
    ones_before = np.concatenate([[0], np.cumsum(elsewhere)])
    return int((ones_before[offsets[1:]] == ones_before[offsets[:-1]]).sum())


def seconds(work: Callable[[], object]) -> float:
    """The shortest of some repetitions, after one that is not counted."""
    taken = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def gain_and_price(rows: int, early: int) -> tuple[float, float]:
    own, summed = torch.randn(rows, WIDTH), torch.randn(rows, WIDTH)
    weights, bias = torch.randn(2, WIDTH, WIDTH), torch.randn(WIDTH)
    gain = seconds(lambda: torch.addmm(bias, own[:early], weights[0]).addmm_(summed[:early], weights[1]))
    joining = seconds(lambda: torch.cat([own[:early], summed[early:]]))
    adding = seconds(lambda: own.add_(summed))
    return gain, joining + adding


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="NAME=PARTS")
    torch.set_num_threads(1)
    found = []
    for place in parser.parse_args().places:
        name, _, path = place.partition("=")
        parts = open_parts(path)
        nodes, count = parts.manifest.nodes, len(parts)
        early = sum(early_rows(parts.shard(part)) for part in range(count))
        gain, price = gain_and_price(nodes // count, early // count)
        line = {"graph": name, "nodes": nodes, "parts": count, "early_rows": early}
        found.append({**line, "gain_seconds": gain, "price_seconds": price})
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    rows = [
        f"| {row['graph']} | {row['parts']} | {row['early_rows'] / row['nodes']:.1%} "
        f"| {row['gain_seconds'] * 1e3:.1f} ms | {row['price_seconds'] * 1e3:.1f} ms |"
        for row in found
    ]
    head = [
        "| graph | parts | rows without neighbours elsewhere | their update | joining and adding |",
        "|---|---:|---:|---:|---:|",
    ]
    write_table("engine.md", "early_rows", "\n".join([*head, *rows]))


if __name__ == "__main__":
    main()
