"""Workers over a slow link: throughput by share of boundary nodes kept, with and without overlap, in float32 and bfloat16.

    python bench/shaped_link.py [--parts DIR] [--rates 1gbit,100mbit] [--epochs 4] [--rounds 2]     # ten minutes, 24 runs
    python bench/shaped_link.py --workers 2 --model gcn --layers 3 --cases "boundary 1;boundary 1, overlap off"
    python bench/shaped_link.py --render        # only write the table anew

Each worker lives in a network namespace of its own; all are joined by a bridge, and what leaves a namespace is held to the rate
by tc's token bucket. Needs root, ``ip`` and ``tc``. Namespaces and bridge are taken down again whatever happens. Without --parts
a graph of --nodes and --edges is made and cut. A cell is the median of all epochs but a run's first. Raw lines go to
``results/shaped_link.jsonl``, where they take the place of older ones of the same team and model, the table into docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command import printed, starling
from doc_tables import write_table
from kept_lines import append_line, drop_lines, read_lines

RESULTS = Path(__file__).parent / "results" / "shaped_link.jsonl"
BRIDGE, NETWORK = "starling-br", "10.201.7"


@contextmanager
def hosts(count: int, rate: str) -> Iterator[list[str]]:
    """Namespaces on one bridge, each of which sends at most at `rate`."""
    names = [f"starling-{number}" for number in range(count)]
    try:
        printed("ip", "link", "add", BRIDGE, "type", "bridge")
        printed("ip", "link", "set", BRIDGE, "up")
        for number, name in enumerate(names):
            outer = f"sl{number}"
            printed("ip", "netns", "add", name)
            printed("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            printed("ip", "link", "set", outer, "master", BRIDGE, "up")
            inside = ("ip", "netns", "exec", name)
            printed(*inside, "ip", "addr", "add", f"{NETWORK}.{number + 1}/24", "dev", "eth0")
            printed(*inside, "ip", "link", "set", "eth0", "up")
            printed(*inside, "ip", "link", "set", "lo", "up")
            shape = ("root", "tbf", "rate", rate, "burst", "256kbit", "latency", "400ms")
            printed(*inside, "tc", "qdisc", "add", "dev", "eth0", *shape)
        yield names
    finally:
        for number, name in enumerate(names):
            removed("link", f"sl{number}")  # at once; with its namespace it would go a little later
            removed("netns", name)
        removed("link", BRIDGE)


def removed(kind: str, name: str) -> None:
    """Take something down that may not have been made."""
    subprocess.run(["ip", kind, "del", name], check=False, capture_output=True)


def trained(parts: Path, names: list[str], options: argparse.Namespace, team: dict[str, Any]) -> dict[str, Any]:
    """One run with a worker in each namespace: seconds of the epochs after the first, and bytes sent in one."""
    with tempfile.TemporaryDirectory() as folder:
        run, spec = Path(folder) / "run", Path(folder) / "spec.json"
        run.mkdir()
        settings = {"workers": len(names), **team}  # the launcher's way: TOML in the spec, and a run directory that is there
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        config = (
            f"[data]\npath = {json.dumps(str(parts))}\n[model]\nname = {json.dumps(options.model)}\nhidden = {options.hidden}\n"
            f"layers = {options.layers}\n[run]\nepochs = {options.epochs}\nevaluate_every = {options.epochs}\n"
            "[team]\n" + "\n".join(lines) + "\n"
        )
        spec.write_text(json.dumps({"config": config, "run": str(run)}))
        processes = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, "-m", "starling.launch.worker",
                 "starling.launch.train_worker:train", str(spec), "--threads", "1", "--result", str(Path(folder) / "result.json")],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(names)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                     "MASTER_ADDR": f"{NETWORK}.1", "MASTER_PORT": "29555", "GLOO_SOCKET_IFNAME": "eth0"},
            )
            for rank, name in enumerate(names)
        ]  # fmt: skip
        try:
            statuses = [process.wait(timeout=1800) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(statuses):
            raise SystemExit(f"workers ended with {statuses}")
        epochs = read_lines(run / "metrics.jsonl")
    sent = sum(sum(worker["bytes_to"]) for worker in epochs[-1]["workers"])
    return {"seconds": [line["seconds"] for line in epochs[1:]], "bytes_sent_per_epoch": sent, "workers": epochs[-1]["workers"]}


def made_parts(folder: Path, options: argparse.Namespace) -> Path:
    size = ("--nodes", options.nodes, "--edges", options.edges, "--classes", 20, "--features", 100)
    starling("generate", "dcsbm", *size, "-o", folder / "graph")
    starling("partition", folder / "graph", "-p", options.workers, "-o", folder / "parts")
    return folder / "parts"


CASES: dict[str, dict[str, Any]] = {f"boundary {p:g}": {"boundary": p} for p in (1.0, 0.1, 0.01, 0.0)}
CASES |= {"boundary 1, overlap off": {"overlap": False}, "boundary 1, bfloat16": {"wire": "bfloat16"}}


def setting_of(line: dict[str, Any]) -> str:
    """What a line's rows in the table have in common."""
    return f"{line['model']}, {line['layers']} layers, {line['workers_count']} workers"


def measure(parts: Path, options: argparse.Namespace) -> None:
    setting = {"model": options.model, "layers": options.layers, "workers_count": options.workers}
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
    out = ["| | link | case | epoch, s | times boundary 1 | sent an epoch, MiB |", "|---|---|---|---:|---:|---:|"]
    for setting, rate in dict.fromkeys((setting_of(line), line["rate"]) for line in lines):
        mine = [line for line in lines if (setting_of(line), line["rate"]) == (setting, rate)]
        found = {label: group for label in CASES if (group := [line for line in mine if line["case"] == label])}
        medians = {label: statistics.median(s for line in group for s in line["seconds"]) for label, group in found.items()}
        for label, group in found.items():
            sent, gain = group[-1]["bytes_sent_per_epoch"] / 2**20, medians["boundary 1"] / medians[label]
            out.append(f"| {setting} | {rate} | {label} | {medians[label]:.2f} | {gain:.2f} | {sent:.1f} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=Path, help="a parts directory of at least as many parts as workers")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cases", default=";".join(CASES))
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--rates", default="1gbit,100mbit")
    parser.add_argument("--model", default="sage")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="only write the table anew")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces go whoever ends this
    if not options.render:
        with tempfile.TemporaryDirectory(prefix="starling-shaped-link-") as folder:
            measure(options.parts or made_parts(Path(folder), options), options)
    write_table("engine.md", "shaped_link", table(read_lines(RESULTS)))


if __name__ == "__main__":
    main()
