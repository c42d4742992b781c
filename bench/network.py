"""A network of slow links on this machine, and training over it.

Each host is a network namespace; all are joined by a bridge, and what leaves a namespace is held to a rate by tc's token bucket.
Needs root, ``ip`` and ``tc``. Namespaces and bridge are taken down again whatever happens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command import printed
from kept_lines import Line, read_lines
from starling.launch.train_worker import ENTRY
from starling.train.config import RunConfig

BRIDGE, NETWORK = "starling-br", "10.201.7"


@contextmanager
def hosts(count: int, rate: str) -> Iterator[list[str]]:
    """Namespaces on one bridge, each of which sends at most at `rate`, such as 1gbit."""
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
            _removed("link", f"sl{number}")  # at once; with its namespace it would go a little later
            _removed("netns", name)
        _removed("link", BRIDGE)


def _removed(kind: str, name: str) -> None:
    """Take something down that may not have been made."""
    subprocess.run(["ip", kind, "del", name], check=False, capture_output=True)


def trained_over(
    names: list[str], tables: dict[str, dict[str, Any]], *, on_each: int = 1, entry: str = ENTRY, **more: Any
) -> tuple[Line, list[Line]]:
    """A run by workers of one thread, so many `on_each` of the hosts: its summary and its epochs. `more` is told to the entry."""
    size = on_each * len(names)
    tables = {**tables, "team": {**tables.get("team", {}), "workers": size}}
    with tempfile.TemporaryDirectory() as folder:
        run, spec, result = (Path(folder) / name for name in ("run", "spec.json", "result.json"))
        run.mkdir()
        spec.write_text(json.dumps({"config": RunConfig.from_tables(tables).to_toml(), "run": str(run), **more}))
        worker = (sys.executable, "-m", "starling.launch.worker", entry, str(spec))
        processes = [
            subprocess.Popen(
                ["ip", "netns", "exec", names[rank // on_each], *worker, "--threads", "1", "--result", str(result)],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % on_each),
                     "LOCAL_WORLD_SIZE": str(on_each), "MASTER_ADDR": f"{NETWORK}.1", "MASTER_PORT": "29555",
                     "GLOO_SOCKET_IFNAME": "eth0"},
            )
            for rank in range(size)
        ]  # fmt: skip
        try:
            statuses = [process.wait(timeout=1800) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(statuses):
            raise SystemExit(f"workers ended with {statuses}")
        return json.loads((run / "summary.json").read_text()), read_lines(run / "metrics.jsonl")
