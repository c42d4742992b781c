"""One run at the scale of ogbn-papers100M: generate 111 M nodes and 1.6 B edges, cut them into 8 parts with shards.

    python bench/partition/papers_scale.py FOLDER [--nodes 111e6] [--edges 1.6e9] [--parts 8] [--memory 5GiB] [--method flock]

Needs about 60 GB of disk in FOLDER at full size and removes what it made. Writes bench/results/partition_papers_scale.json.
Edges are counted as stored, both directions. Each command is a process of its own: wall and processor seconds, peak resident
memory (its own, from the kernel), most disk in use. Time in which this process group was stopped (SIGSTOP) is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parents[1] / "results" / "partition_papers_scale.json"
LEAST_FREE = 8 << 30
"""Free disk below which the run gives up rather than disturb others."""


class Watch:
    """Looks every second, while a command runs, at the disk it fills and at whether anybody stopped it."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = folder, process
        self.disk = 0
        self.stopped = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        seen = time.monotonic()
        while not self._done.wait(1.0):
            now = time.monotonic()
            if now - seen > 4.0:  # a second asleep took longer: so did everything else
                self.stopped += now - seen - 1.0
            seen = now
            self.disk = max(self.disk, used(self.folder))
            if shutil.disk_usage(self.folder).free < LEAST_FREE:
                self.process.terminate()

    def end(self) -> None:
        """Stop looking."""
        self._done.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=float, default=111e6)
    parser.add_argument("--edges", type=float, default=1.6e9)
    parser.add_argument("--classes", type=int, default=172, help="communities; papers100M has 172 classes")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--method", default="flock")
    parser.add_argument("--memory", default="5GiB")
    parser.add_argument("--keep-graph", action="store_true", help="use FOLDER/graph if it is there, and leave it")
    parser.add_argument("--results", type=Path, default=RESULT)
    args = parser.parse_args()
    graph, parts = args.folder / "graph", args.folder / "parts"
    record: dict[str, Any] = {"cores": os.cpu_count(), "method": args.method, "memory": args.memory}
    try:
        if not (args.keep_graph and graph.is_dir()):
            size = ["--nodes", str(int(args.nodes)), "--edges", str(int(args.edges)), "--classes", str(args.classes)]
            record["generate"] = run(
                args.folder, "generate", "dcsbm", *size, "--features", "0", "--memory", "4GiB", "-o", graph
            )
        cut = ["--parts", str(args.parts), "--method", args.method, "--memory", args.memory]
        record["partition"] = run(args.folder, "partition", graph, *cut, "-o", parts)
        record["graph_bytes"], record["parts_bytes"] = used(graph), used(parts)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
        if not args.keep_graph:
            shutil.rmtree(graph, ignore_errors=True)
    known = json.loads(args.results.read_text()) if args.results.is_file() else []
    args.results.write_text(json.dumps([*known, record], indent=1) + "\n")


def run(folder: Path, verb: str, *arguments: object) -> dict[str, Any]:
    """One command of starling with ``--json``; what it says and what it took."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [verb, *map(str, arguments), "--json"]
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "starling", *command], stdout=subprocess.PIPE, text=True)
    watch = Watch(folder, process)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    watch.end()
    if status:
        raise SystemExit(f"starling {verb} ended with status {os.waitstatus_to_exitcode(status)}")
    measured = {
        "command": "starling " + " ".join(Path(word).name if "/" in word else word for word in command),
        "wall_seconds": round(time.monotonic() - began, 1),
        "stopped_seconds": round(watch.stopped, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_rss_bytes": usage.ru_maxrss << 10,
        "most_disk_bytes": watch.disk,
        "reported": {name: value for name, value in json.loads(said).items() if name not in ("output", "path")},
    }
    print(json.dumps(measured), flush=True)
    return measured


def used(folder: Path) -> int:
    """Bytes of the files below a folder, whatever comes and goes meanwhile."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


if __name__ == "__main__":
    main()
