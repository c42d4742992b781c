"""The boundary exchange between workers of one host: shared memory against Gloo's loopback sockets, in one run.

    python bench/exchange.py [--rounds 3]       # about a minute; run nothing else

Every worker belongs to two teams, one of each transport, and a round measures both in turn, so that a noisy machine is noisy to
both. Two jobs of a layer: `exchange` is all of it, each worker gathering rows of its table for every peer, sending them, and
copying what comes into its mirrors' rows; `transfer` leaves the gathering out. The tiny message is a round trip between two
workers. One thread a worker. Every measurement goes to results/exchange.json, the table into docs/engine.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Literal

import torch
import torch.distributed as dist

from doc_tables import write_table
from starling.comm.switch import form_team
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.kernels.rows import gather_rows

RESULTS = Path(__file__).parent / "results" / "exchange.json"
WORKERS = (2, 4)
SHAPES = {(20_000, 128): 6, (200_000, 128): 1}
"""Rows for each peer, and how often a round exchanges them."""
TINY, TRIPS = (1, 16), 300


class Worker:
    """What a worker exchanges: a table to gather from, and a place for what comes."""

    def __init__(self, shape: tuple[int, int]) -> None:
        made = torch.Generator().manual_seed(0)
        self.shape = shape
        self.table = torch.randn(2 * shape[0], shape[1], generator=made)
        self.chosen = torch.randperm(2 * shape[0], generator=made)[: shape[0]].sort().values.numpy()
        self.mirrors = torch.empty(shape)

    def exchange(self, team: Team, step: int, *, gather: bool) -> None:
        tag = make_tag(Channel.FORWARD, step, 0)
        coming = team.receive_each(tag, dict.fromkeys(team.peers, self.shape), torch.float32)
        for peer in team.peers:
            parcel = team.links.parcel(peer, self.shape, torch.float32)
            if gather:
                gather_rows(self.table.numpy(), self.chosen, parcel.numpy(), threads=1)
            team.links.send(peer, tag, parcel)
        for _, rows in coming:
            self.mirrors.copy_(rows)


def barrier(team: Team) -> None:
    team.all_sum(make_tag(Channel.SUMS, 0, 0), torch.zeros(1))


def measure_exchange(team: Team, worker: Worker, times: int, *, gather: bool) -> float:
    """Seconds of one exchange, after one to warm up."""
    worker.exchange(team, 0, gather=gather)
    barrier(team)
    began = time.perf_counter()
    for step in range(1, times + 1):
        worker.exchange(team, step, gather=gather)
    barrier(team)
    return (time.perf_counter() - began) / times


def measure_trip(team: Team) -> float:
    """Seconds of a tiny message there and back, the median; only workers 0 and 1 talk."""
    barrier(team)
    seconds = []
    for step in range(TRIPS if team.rank < 2 else 0):
        tag, peer = make_tag(Channel.BACKWARD, step, 0), 1 - team.rank
        began = time.perf_counter()
        for turn in (0, 1):
            if turn == team.rank:
                team.links.send(peer, tag, team.links.parcel(peer, TINY, torch.float32))
            else:
                with team.links.receive(peer, tag, TINY, torch.float32):
                    pass
        seconds.append(time.perf_counter() - began)
    barrier(team)
    return statistics.median(seconds) if seconds else 0.0


def work(rank: int, size: int, port: int, rounds: int, results: multiprocessing.SimpleQueue[list[dict[str, object]]]) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)  # type: ignore[attr-defined]
    transports: dict[str, Literal["auto", "gloo"]] = {"shared memory": "auto", "gloo": "gloo"}
    teams = {
        name: form_team(rank, size, dist.PrefixStore(name, store), transport=transport)  # type: ignore[attr-defined]
        for name, transport in transports.items()
    }
    measured: list[dict[str, object]] = []
    for shape, times in SHAPES.items():
        worker = Worker(shape)
        sent = size * (size - 1) * shape[0] * shape[1] * 4
        for turn in range(rounds):
            for job in ("exchange", "transfer"):
                for name, team in teams.items():
                    seconds = measure_exchange(team, worker, times, gather=job == "exchange")
                    facts = {"workers": size, "rows": shape[0], "columns": shape[1], "job": job, "transport": name}
                    measured.append({**facts, "round": turn, "seconds": seconds, "bytes_per_s": round(sent / seconds)})
    for turn in range(rounds):
        for name, team in teams.items():
            facts = {"workers": size, "rows": TINY[0], "columns": TINY[1], "job": "round trip", "transport": name}
            measured.append({**facts, "round": turn, "seconds": measure_trip(team)})
    for team in teams.values():
        barrier(team)
        team.links.close()
    dist.destroy_process_group()
    if rank == 0:
        results.put(measured)


def measure(size: int, rounds: int) -> list[dict[str, object]]:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[list[dict[str, object]]] = context.SimpleQueue()
    workers = [context.Process(target=work, args=(rank, size, store.port, rounds, results)) for rank in range(size)]
    for worker in workers:
        worker.start()
    measured = results.get()
    for worker in workers:
        worker.join()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    began, load = time.perf_counter(), os.getloadavg()[0]
    measured = [row for size in WORKERS for row in measure(size, args.rounds)]
    machine: dict[str, object] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "load_before": load,
    }
    machine["seconds"] = round(time.perf_counter() - began, 1)
    RESULTS.write_text(json.dumps({**machine, "measurements": measured}, indent=1) + "\n")
    out = ["| workers | message | job | shared memory | Gloo | times |", "|---:|---|---|---:|---:|---:|"]
    keys = dict.fromkeys((row["workers"], row["rows"], row["columns"], row["job"]) for row in measured)
    for key in keys:
        rows = [row for row in measured if (row["workers"], row["rows"], row["columns"], row["job"]) == key]
        near, far = (
            statistics.median(float(str(row["seconds"])) for row in rows if row["transport"] == name)
            for name in ("shared memory", "gloo")
        )
        size, count, columns, job = key
        out.append(f"| {size} | {count:,} x {columns} | {job} | {near * 1e3:.3g} ms | {far * 1e3:.3g} ms | {far / near:.1f} |")
    write_table("engine.md", "exchange", "\n".join(out))


if __name__ == "__main__":
    main()
