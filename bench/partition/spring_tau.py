"""SPRING's threshold: copies and balance for several values of `tau`, on all real graphs.

    python bench/partition/spring_tau.py [--data FOLDER] [--tau 0.05,0.1,0.25,0.5,1] [--parts 4,8,16]

The paper does not say what τ_vol it used; here τ_vol = tau × 2|E|/p. Writes bench/results/partition_spring_tau.json (every
run) and partition_spring_tau.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from real_graphs import DATA, load, names

from starling.partition.contract import PartitionTask
from starling.partition.quality import measure
from starling.partition.registry import make_method

RESULTS = Path(__file__).resolve().parents[1] / "results"
CHOSEN = 0.25
UNEVEN = 1.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tau", default="0.05,0.1,0.25,0.5,1")
    parser.add_argument("--parts", default="4,8,16")
    args = parser.parse_args()
    rows = []
    for name in names(args.data):
        edges = load(name, args.data)
        for parts in map(int, args.parts.split(",")):
            for tau in map(float, args.tau.split(",")):
                assignment = make_method("spring", {"tau": tau}).assign(PartitionTask(edges, parts))
                quality = measure(edges, assignment)
                row = {"graph": name, "parts": parts, "tau": tau, "replication_factor": round(quality.replication_factor, 4)}
                row |= {"node_balance": round(quality.node_balance, 4), "edge_balance": round(quality.edge_balance, 4)}
                rows.append(row | dict(assignment.notes))
    (RESULTS / "partition_spring_tau.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "partition_spring_tau.md").write_text(report(rows))


def report(rows: list[dict]) -> str:
    """A line for each value: what it saves and what it costs in evenness."""
    chosen = {(row["graph"], row["parts"]): row["replication_factor"] for row in rows if row["tau"] == CHOSEN}
    graphs = len({row["graph"] for row in rows})
    lines = [
        f"# SPRING's τ_vol = tau × 2|E|/p on {graphs} real graphs, p = {', '.join(map(str, sorted({p for _, p in chosen})))}"
    ]
    lines += [
        "",
        f"| tau | copies beside tau = {CHOSEN} | node balance, median | worst | runs above {UNEVEN} | edge balance, median |",
    ]
    lines += ["|---|---|---|---|---|---|"]
    for tau in sorted({row["tau"] for row in rows}):
        of_tau = [row for row in rows if row["tau"] == tau]
        ratio = statistics.geometric_mean(row["replication_factor"] / chosen[row["graph"], row["parts"]] for row in of_tau)
        balance = [row["node_balance"] for row in of_tau]
        uneven = f"{sum(value > UNEVEN for value in balance)} of {len(balance)}"
        edges = statistics.median(row["edge_balance"] for row in of_tau)
        lines.append(
            f"| {tau:g} | {ratio:.3f} | {statistics.median(balance):.3f} | {max(balance):.2f} | {uneven} | {edges:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
