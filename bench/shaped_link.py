"""Workers over a slow link: throughput by share of boundary nodes kept, with and without overlap, in float32 and bfloat16.

    python bench/shaped_link.py [--rates 1gbit,100mbit] [--epochs 6] [--rounds 2]     # ten minutes, 24 runs
    python bench/shaped_link.py --workers 2 --model gcn --layers 3 --rates 1gbit,300mbit --cases \\
        "boundary 1;boundary 1, overlap off"
    python bench/shaped_link.py --render        # only write the table anew

Each worker lives on a host of its own (network.py; needs root, ``ip`` and ``tc``). The graph is the *200k* one of hybrid.py, made
in --place if it is not there yet. A cell is the median of all epochs but a run's first. Raw lines go to
``results/shaped_link.jsonl``, where they take the place of older ones of the same team and model, the table into docs/engine.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

import hybrid
from doc_tables import write_table
from kept_lines import append_line, drop_lines, read_lines
from network import hosts, trained_over

RESULTS = Path(__file__).parent / "results" / "shaped_link.jsonl"


def trained(parts: Path, names: list[str], options: argparse.Namespace, team: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a run's epochs after the first, and bytes sent in one."""
    model = {"name": options.model, "hidden": options.hidden, "layers": options.layers}
    length = {"epochs": options.epochs, "evaluate_every": options.epochs}
    _, epochs = trained_over(names, {"data": {"path": str(parts)}, "model": model, "run": length, "team": team})
    sent = sum(sum(worker["bytes_to"]) for worker in epochs[-1]["workers"])
    return {"seconds": [line["seconds"] for line in epochs[1:]], "bytes_sent_per_epoch": sent, "workers": epochs[-1]["workers"]}


CASES: dict[str, dict[str, Any]] = {f"boundary {p:g}": {"boundary": p} for p in (1.0, 0.1, 0.01, 0.0)}
PAPER = {"boundary 1": "+190 %", "boundary 0.01": "+500 %"}
"""Throughput that BDS-GCN adds to ROC's, at most, on ten graphics cards of one machine (its Figure 3)."""
CASES |= {"boundary 1, overlap off": {"overlap": False}, "boundary 1, bfloat16": {"wire": "bfloat16"}}


def setting_of(line: dict[str, Any]) -> str:
    """What a line's rows in the table have in common."""
    return f"{line['model']}, {line['layers']} layers, {line['workers_count']} workers"


def measure(parts: Path, options: argparse.Namespace) -> None:
    setting = {"graph": "200k", "model": options.model, "layers": options.layers, "workers_count": options.workers}
    drop_lines(RESULTS, lambda line: setting_of(line) == setting_of(setting))
    for rate in options.rates.split(","):
        with hosts(options.workers, rate) as names:
            for number in range(options.rounds):
                for label in options.cases.split(";"):
                    line = trained(parts.resolve(), names, options, CASES[label])
                    known = {**setting, "rate": rate, "case": label, "round": number, "load": os.getloadavg()[0]}
                    append_line(RESULTS, {**known, **line})
                    print(f"{rate}, {label}: {statistics.median(line['seconds']):.3f} s", file=sys.stderr, flush=True)


def table(lines: list[dict[str, Any]]) -> str:
    out = [
        "| | link | case | epoch, s | times boundary 1 | sent an epoch, MiB | BDS-GCN beside ROC, at most |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for setting, rate in dict.fromkeys((setting_of(line), line["rate"]) for line in lines):
        mine = [line for line in lines if (setting_of(line), line["rate"]) == (setting, rate)]
        found = {label: group for label in CASES if (group := [line for line in mine if line["case"] == label])}
        medians = {label: statistics.median(s for line in group for s in line["seconds"]) for label, group in found.items()}
        for label, group in found.items():
            sent, gain = group[-1]["bytes_sent_per_epoch"] / 2**20, medians["boundary 1"] / medians[label]
            claimed = PAPER.get(label, "") if group[-1]["workers_count"] == 4 else ""
            known = f"{medians[label]:.2f} | {gain:.2f} | {sent:.1f} | {claimed}"
            out.append(f"| {setting} | {rate} | {label} | {known} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", type=Path, default=hybrid.PLACE)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cases", default=";".join(CASES))
    parser.add_argument("--rates", default="1gbit,100mbit")
    parser.add_argument("--model", default="sage")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go whoever ends this
    if not options.render:
        measure(hybrid.parts_of_200k(options.place, options.workers), options)
    write_table("engine.md", "shaped_link", table(read_lines(RESULTS)))


if __name__ == "__main__":
    main()
