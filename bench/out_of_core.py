"""A graph whose features are at least four times the memory trains within it, by model averaging, beside the same without a limit.

    python bench/out_of_core.py [--nodes 12000000] [--parts 48] [--limit 1.4GiB] [--memory 1.1GiB] [--work DIR]
    python bench/out_of_core.py --render        # only write the table anew

The limit is the kernel's: both runs are commands in a memory cgroup of their own (memory_cgroup.py), page cache included, and the
files are dropped from the page cache before each. Needs the right to make a cgroup and about 25 GB of disk. The graph and its
parts stay in --work, so that a second call finds them; the first takes longest over making them. Raw numbers go to
results/out_of_core.json, the table to docs/model-averaging.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from command import STARLING, ProgramFailed, starling
from doc_tables import write_table
from kept_lines import read_lines
from memory_cgroup import forget, memory_group, run_in
from starling.core.memory import format_bytes, parse_bytes

RESULTS = Path(__file__).parent / "results" / "out_of_core.json"
TRAINING = [
    *("--workers", "1", "--parallel", "data", "--sync", "average", "--strategy", "mini", "--fanouts", "10,5"),
    *("--batch-size", "1024", "--model", "sage", "--hidden", "64", "--seed", "0", "--json"),
]


def prepare(asked: argparse.Namespace) -> Path:
    """The parts, made when they are first asked for."""
    graph, parts = asked.work / f"graph-{asked.nodes}", asked.work / f"parts-{asked.nodes}-{asked.parts}"
    if not graph.is_dir() and not parts.is_dir():
        size = ("--nodes", asked.nodes, "--edges", asked.nodes * asked.degree, "--features", asked.features)
        kind = ("--classes", max(32, asked.nodes // 24_000), "--mix", 0.1, "--signal", 1, "--split", "10/2/2")
        starling("generate", "dcsbm", *size, *kind, "--memory", "4GiB", "-o", graph)
    if not parts.is_dir():
        starling("partition", graph, "-p", asked.parts, "--memory", "6GiB", "-o", parts)
    return parts


def train(asked: argparse.Namespace, parts: Path, *, limited: bool) -> dict[str, Any]:
    """One run in its cgroup; its summary and what the kernel counted."""
    run = asked.work / ("run-limited" if limited else "run-unlimited")
    shutil.rmtree(run, ignore_errors=True)
    forget(parts)
    epochs = ("--epochs", str(asked.epochs), "--evaluate-every", str(asked.epochs), "--run", str(run))
    budget = ("--memory", asked.memory) if limited else ()
    with memory_group(parse_bytes(asked.limit) if limited else None) as group:
        command = [*STARLING, "train", str(parts), *TRAINING, *epochs, *budget]
        done = run_in(group, command)
        counted = {"cgroup_peak_bytes": group.read(group.peak), "cgroup_refused": group.read(group.refused)}
    if done.returncode:
        raise ProgramFailed(command, done.returncode, done.stderr)
    lines = read_lines(run / "metrics.jsonl")
    seconds = [line["seconds"] for line in lines]
    evaluating = lines[-1]["evaluate_seconds"]
    told = json.loads(done.stdout)
    del told["run"]  # where it was says nothing
    return told | counted | {"epoch_seconds": seconds, "evaluate_seconds": evaluating, "limited": limited}


def render(found: dict[str, Any]) -> str:
    size = found["features_bytes"]
    out = [
        f"{found['nodes']:,} nodes × {found['features']} float32 features ({format_bytes(size)}, "
        f"{size / found['limit_bytes']:.1f} times the limit), {found['edges']:,} edges, {found['parts']} parts, one worker, "
        "GraphSAGE with fan-outs 10,5 and batches of 1,024; a tenth of the nodes train.",
        "",
        "| memory | an epoch | evaluation | largest RSS | largest cgroup use, page cache included | test accuracy |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for run in found["runs"]:
        name = f"at most {format_bytes(found['limit_bytes'])} (`--memory {found['memory']}`)" if run["limited"] else "no limit"
        peak = "–" if run["cgroup_peak_bytes"] is None else format_bytes(run["cgroup_peak_bytes"])
        out.append(
            f"| {name} | {statistics.median(run['epoch_seconds']):.1f} s | {run['evaluate_seconds']:.1f} s | "
            f"{format_bytes(run['peak_rss_bytes'])} | {peak} | {100 * run['test']:.2f} |"
        )
    free, limited = (statistics.median(run["epoch_seconds"]) for run in found["runs"])
    return "\n".join([*out, "", f"Within the limit training runs at {100 * free / limited:.0f} % of the unlimited speed."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=12_000_000)
    parser.add_argument("--degree", type=int, default=8, help="edges a node, both directions counted")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--parts", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", default="1.4GiB", help="of the cgroup")
    parser.add_argument("--memory", default="1.1GiB", help="budget of the run; the rest of the limit is for the page cache")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "starling-out-of-core")
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    asked = parser.parse_args()
    if not asked.render:
        asked.work.mkdir(parents=True, exist_ok=True)
        parts = prepare(asked)
        facts = starling("inspect", parts)
        found = {
            **{"nodes": asked.nodes, "edges": facts["edges"], "features": asked.features, "parts": asked.parts},
            **{"features_bytes": 4 * asked.nodes * asked.features, "limit_bytes": parse_bytes(asked.limit)},
            **{"memory": asked.memory, "runs": [train(asked, parts, limited=limited) for limited in (False, True)]},
        }
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    table = render(json.loads(RESULTS.read_text()))
    write_table("model-averaging.md", "out_of_core", table)
    print(table)


if __name__ == "__main__":
    main()
