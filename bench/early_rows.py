"""How many rows a worker could finish before any message has come: those without neighbours in other parts.

    python bench/early_rows.py 200k=PARTS products=PARTS    # parts directories with names for the table

Says what there is to gain by releasing the next layer row by row. Seconds; results/early_rows.json and a table in docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from doc_tables import write_table
from starling.store.parts import Shard, open_parts

RESULTS = Path(__file__).resolve().parent / "results" / "early_rows.json"


def early_rows(shard: Shard) -> int:
    """Own nodes whose in-neighbours are all own."""
    offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
    elsewhere = np.asarray(shard.incoming.neighbours[: offsets[-1]]) >= shard.owned
    ones_before = np.concatenate([[0], np.cumsum(elsewhere)])
    return int((ones_before[offsets[1:]] == ones_before[offsets[:-1]]).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="NAME=PARTS")
    found = []
    for place in parser.parse_args().places:
        name, _, path = place.partition("=")
        parts = open_parts(path)
        early = sum(early_rows(parts.shard(part)) for part in range(len(parts)))
        found.append({"graph": name, "nodes": parts.manifest.nodes, "parts": len(parts), "early_rows": early})
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    rows = [f"| {row['graph']} | {row['parts']} | {row['early_rows'] / row['nodes']:.1%} |" for row in found]
    write_table(
        "engine.md",
        "early_rows",
        "\n".join(["| graph | parts | rows without neighbours elsewhere |", "|---|---:|---:|", *rows]),
    )


if __name__ == "__main__":
    main()
