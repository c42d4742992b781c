"""GCN with all neighbours, 2, 3 and 4 layers deep, by two workers: Starling's hybrid engine beside DistDGL 1.1.3, in turns.

    python bench/distdgl.py --peers DIR [--graph DIR] [--layers 2,3,4] [--rounds 2]     # some ten minutes on two cores
    python bench/distdgl.py --render            # only write the table anew

What --peers and --graph hold is said in peers.py; without --graph the 200,000-node block model is made. Both sides: 2 workers of
one thread on this machine, 128 hidden columns, Adam, steps of 2,048 targets in all with all their neighbours. DistDGL's workers
each compute 1,024 targets with whatever neighbours these need, so rows that both need are computed twice; Starling's compute one
step together, each row once. DistDGL times some steps after a first one. Starling is given as many training nodes as make four
steps; of its epochs the first (which compiles) and the last (which need not prepare a next one) are left out. Raw lines go to
results/distdgl.json, the table into docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from command import starling, trained
from doc_tables import write_table
from peers import block_model, distdgl_lines, imported

RESULTS = Path(__file__).parent / "results" / "distdgl.json"
WORKERS, STEPS, EPOCHS = 2, 4, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--layers", default="2,3,4")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    if not asked.render:
        if asked.peers is None:
            parser.error("pass --peers, the directory of distdgl_run")
        with tempfile.TemporaryDirectory(prefix="starling-distdgl-") as scratch:
            asked.output.write_text(json.dumps({"lines": measure(asked, Path(scratch))}, indent=1) + "\n")
    write_table("engine.md", "distdgl", table(json.loads(asked.output.read_text())["lines"]))


def measure(asked: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    """All rounds; in each, first one side and then the other goes through all depths."""
    size = {"nodes": 200_000, "edges": 5_000_000, "classes": 40, "features": 128, "seed": 0}
    graph = asked.graph or block_model(asked.peers, scratch / "graph", **size)
    parts, lines = our_parts(graph, asked.batch, scratch), []
    for number in range(asked.rounds):
        for layers in map(int, asked.layers.split(",")):
            for side, run in (("distdgl", distdgl), ("starling", starling_run)):
                known = {"side": side, "round": number, "layers": layers, "load": os.getloadavg()[0]}
                lines.append(known | run(asked, graph if side == "distdgl" else parts, layers))
                print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    return lines


def our_parts(graph: Path, batch: int, scratch: Path) -> Path:
    """The same graph in two parts, with as many of its training nodes as make `STEPS` steps."""
    ours = imported(graph, scratch / "imported", STEPS * batch)
    starling("partition", ours, "-p", WORKERS, "-o", scratch / "parts")
    return scratch / "parts"


def starling_run(asked: argparse.Namespace, parts: Path, layers: int) -> dict[str, Any]:
    model = ("--model", "gcn", "--layers", layers, "--hidden", asked.hidden, "--lr", 0.01)
    team = ("--workers", WORKERS, "--threads", 1, "--strategy", "mini", "--batch-size", asked.batch)
    told, epochs = trained(parts, *model, *team, "--epochs", EPOCHS, "--evaluate-every", EPOCHS)
    return {
        "seconds_per_step": statistics.median(line["seconds"] for line in epochs[1:-1]) / STEPS,
        "epoch_seconds": [line["seconds"] for line in epochs],
        "losses": [line["loss"] for line in epochs],
        "peak_rss_bytes": told["peak_rss_bytes"],
        "bytes_sent_per_epoch": told["bytes_sent_per_epoch"],
        "workers": epochs[-2]["workers"],
    }


def distdgl(asked: argparse.Namespace, graph: Path, layers: int) -> dict[str, Any]:
    steps = ("--fanouts", "", "--full-layers", layers, "--full-batch", asked.batch, "--full-steps", STEPS)
    lines = distdgl_lines(asked.peers, graph, WORKERS, *steps, "--hidden", asked.hidden)
    (found,) = [line for line in lines if line["measure"] == "full_neighbour_training"]
    return {**found, "partition": [line for line in lines if line["measure"] == "partition"]}


def table(lines: list[dict[str, Any]]) -> str:
    """Medians over rounds, and the ratio."""
    out = ["| layers | DistDGL, s a step | Starling, s a step | times as fast | largest process, MiB | Starling's, MiB |"]
    out.append("|---:|---:|---:|---:|---:|---:|")
    for layers in sorted({line["layers"] for line in lines}):
        theirs, ours = (
            [line for line in lines if (line["side"], line["layers"]) == (s, layers)] for s in ("distdgl", "starling")
        )
        slow, fast = (statistics.median(line["seconds_per_step"] for line in side) for side in (theirs, ours))
        memory = max(max(line["peak_rss_bytes"].values()) for line in theirs) / 2**20
        own = max(line["peak_rss_bytes"] for line in ours) / 2**20
        out.append(f"| {layers} | {slow:.3f} | {fast:.3f} | {slow / fast:.2f} | {memory:.0f} | {own:.0f} |")
    return "\n".join(out)


if __name__ == "__main__":
    main()
