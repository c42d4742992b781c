"""Sub-parts: the share of a part's inner edges that `--sub-parts` 2 and 4 tear apart, beside random ones, for three methods.

    python bench/partition/sub_parts.py [--data FOLDER] [--graphs …] [--methods flock,metis,spring] [--parts 4] [--seeds 3]
    python bench/partition/sub_parts.py --graphs dcsbm --methods metis,spring --memory 4GiB
    python bench/partition/sub_parts.py --render

Each line of bench/results/partition_sub_parts.jsonl is one partition, cut again inside its parts three ways, each with equal work
in every sub-part: in the order METIS makes for `--sub-parts`, in the order the nodes of a part have without it (by cluster), and
in a random one. Appends and skips what is there. `--render` prints a table: medians over seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import real_graphs
from numpy.typing import NDArray
from quality import make_edges, read, stream

from starling.core.assignment import Assignment
from starling.core.memory import parse_bytes
from starling.partition.contract import PartitionTask
from starling.partition.registry import METHODS, make_method
from starling.plan.sub_parts import order_for_sub_parts
from starling.store.sharding.locality import streamed_locality
from starling.store.sharding.node_order import order_nodes, sub_part_offsets
from starling.store.sharding.survey import Survey, survey_edges
from starling.stream.edges import EdgeStream

RESULTS = Path(__file__).resolve().parents[1] / "results" / "partition_sub_parts.jsonl"
GRAPHS = ("coauthor_cs", "email_enron", "road_ny", "dcsbm")
ORDERS = ("bisected", "cluster", "random")
"""What METIS makes for `--sub-parts`, what the nodes of a part have without it, and none."""
MEMORY = {True: 1 << 30, False: 16 << 30}
"""As in quality.py: a streaming method has what the command line gives it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=real_graphs.DATA)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--methods", default="flock,metis,spring")
    parser.add_argument("--sub-parts", default="2,4")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--memory", default="1GiB", help="of numbering sub-parts; what does not fit is cut in groups")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="print the table of what is there and stop")
    args = parser.parse_args()
    if args.render:
        print(table(read(args.results)), end="")
        return
    for graph in args.graphs.split(","):
        make_edges(graph, args.data)
        survey = survey_edges(stream(graph))
        for method in args.methods.split(","):
            for seed in range(args.seeds):
                measure_missing(args, graph, survey, method, seed)


def measure_missing(args: argparse.Namespace, graph: str, survey: Survey, method: str, seed: int) -> None:
    """One partition, for the numbers of sub-parts that are not there yet."""
    key = {"graph": graph, "method": method, "parts": args.parts, "seed": seed, "memory": args.memory}
    known = {row["sub_parts"] for row in read(args.results) if key.items() <= row.items()}
    wanted = [count for count in map(int, args.sub_parts.split(",")) if count not in known]
    if not wanted:
        return
    edges, memory = stream(graph), MEMORY[METHODS[method].streaming]
    assignment = make_method(method).assign(PartitionTask(edges, args.parts, seed, memory))
    for count in wanted:
        row = key | {"sub_parts": count, "nodes": edges.nodes, "edges": edges.edges}
        for name in ORDERS:
            locality = ordered(name, edges, assignment, count, survey, seed, parse_bytes(args.memory))
            row |= {f"{name}_{what}": value for what, value in torn(edges, assignment, locality, count, survey).items()}
        with args.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def ordered(
    name: str, edges: EdgeStream, assignment: Assignment, count: int, survey: Survey, seed: int, memory: int
) -> NDArray[Any]:
    """The locality by which the nodes of a part are laid out."""
    if name == "random":
        return np.random.default_rng(seed).permutation(edges.nodes).astype(np.int32)
    if name == "bisected":
        found = order_for_sub_parts(edges, assignment, count, memory=memory, seed=seed).locality
        assert found is not None
        return found
    if assignment.locality is not None:
        return assignment.locality
    return streamed_locality(edges, assignment.owner, survey)


def torn(edges: EdgeStream, assignment: Assignment, locality: NDArray[Any], count: int, survey: Survey) -> dict[str, float]:
    """Of the edges inside parts, the share between sub-parts; of those, the share between neighbours; how uneven the work is."""
    order = order_nodes(assignment.owner, assignment.parts, locality)
    bounds = [sub_part_offsets(order, part, count, survey.in_degree) for part in range(assignment.parts)]
    sub_part = np.empty(edges.nodes, np.int32)
    for part, cuts in enumerate(bounds):
        of_rank = np.repeat(np.arange(count), np.diff(cuts))
        sub_part[order.positions(part)] = part * count + of_rank
    inner = cut = close = 0
    for block in edges.blocks():
        ends = sub_part[block.pairs]
        apart = (ends[:, 0] // count == ends[:, 1] // count) & (ends[:, 0] != ends[:, 1])
        inner += int((ends[:, 0] // count == ends[:, 1] // count).sum())
        cut += int(apart.sum())
        close += int((apart & (ends[:, 0] // 2 == ends[:, 1] // 2)).sum())
    work = np.bincount(sub_part, survey.in_degree + 1.0, minlength=assignment.parts * count).reshape(-1, count)
    uneven = float((work.max(axis=1) / work.mean(axis=1)).max())
    return {"cut": round(cut / inner, 5), "close": round(close / max(cut, 1), 5), "balance": round(uneven, 4)}


def table(rows: list[dict[str, Any]]) -> str:
    """A line a graph and number of sub-parts: what `--sub-parts` cuts, without it (in brackets), and at random."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| graph | memory | sub-parts | " + " | ".join(f"`{method}`" for method in methods) + " | random |"]
    lines.append("|---" * (len(methods) + 4) + "|")
    settings = dict.fromkeys((row["graph"], row["memory"], row["sub_parts"]) for row in rows)
    for graph, memory, count in sorted(settings, key=lambda each: (GRAPHS.index(each[0]), *each[1:])):
        mine = [row for row in rows if (row["graph"], row["memory"], row["sub_parts"]) == (graph, memory, count)]
        cells = [cell([row for row in mine if row["method"] == method]) for method in methods]
        random = statistics.median(row["random_cut"] for row in mine)
        lines.append(f"| {graph} | {memory} | {count} | " + " | ".join(cells) + f" | {random:.1%} |")
    return "\n".join(lines) + "\n"


def cell(rows: list[dict[str, Any]]) -> str:
    """Medians over seeds."""
    if not rows:
        return ""
    cut, without = (statistics.median(row[f"{order}_cut"] for row in rows) for order in ("bisected", "cluster"))
    return f"{cut:.1%} ({without:.1%})"


if __name__ == "__main__":
    main()
