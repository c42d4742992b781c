"""Measure this machine: rates of one process with one thread and with all, and the links between two processes.

Each measurement runs in processes of its own, started like workers of a run (`local.py`), so that numbers of threads are what a
worker would have, and messages travel as they do in training.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, Literal

import psutil

from starling.core.environment import core_count
from starling.core.progress import SILENT, Progress
from starling.launch.local import run_workers
from starling.launch.other_work import ProcessorTime, others_share
from starling.plan.calibration import Calibration, Link, Machine, Rates

if TYPE_CHECKING:
    from starling.comm.team import Team

_TRIPS = {False: 400, True: 100}
_LARGE_TRIPS = {False: 12, True: 4}
_LARGE = 1 << 24
"""Bytes of a large message."""
_TRANSPORTS: dict[Literal["shared-memory", "gloo"], str] = {"shared-memory": "auto", "gloo": "gloo"}


def calibrate(*, quick: bool = False, progress: Progress = SILENT) -> Calibration:
    """Measure everything; about half a minute, or a third of it when `quick`."""
    counts, before = sorted({1, core_count()}), ProcessorTime.now()
    with progress.task("measuring", len(counts) + len(_TRANSPORTS), "parts") as task:
        rates = []
        for threads in counts:
            measured = run_workers(f"{__name__}:rates_of_worker", {"quick": quick}, workers=1, threads=threads)
            rates.append(Rates.model_validate(measured))
            task.advance(1)
        links = []
        for name, transport in _TRANSPORTS.items():
            measured = run_workers(f"{__name__}:link_of_workers", {"quick": quick}, workers=2, threads=1, transport=transport)
            links.append(Link(transport=name, **measured))
            task.advance(1)
    others = others_share(before, ProcessorTime.now(), psutil.cpu_count() or 1)
    return Calibration(machine=Machine.here(), quick=quick, others=round(others, 3), rates=tuple(rates), links=tuple(links))


def rates_of_worker(team: Team, spec: dict[str, Any]) -> dict[str, Any]:
    """The rates of one worker."""
    from starling.launch.measure_rates import measure_rates

    return measure_rates(spec["quick"]).model_dump()


def link_of_workers(team: Team, spec: dict[str, Any]) -> dict[str, float]:
    """Latency and bandwidth between two workers, one way: half of a trip there and back."""
    small = _trip(team, 16, _TRIPS[spec["quick"]], first=0)
    large = _trip(team, _LARGE, _LARGE_TRIPS[spec["quick"]], first=_TRIPS[spec["quick"]] + 1)
    return {"latency": small / 2, "bandwidth": _LARGE / max(large / 2 - small / 2, 1e-9)}


def _trip(team: Team, size: int, trips: int, first: int) -> float:
    """Seconds of a message of `size` bytes there and back, the median."""
    import torch

    from starling.comm.tags import Channel, make_tag

    peer, shape = 1 - team.rank, (size // 4,)
    kept, seconds = torch.ones(shape), []
    for number in range(trips + 1):
        there = make_tag(Channel.SETUP, first + number, 1)
        back = make_tag(Channel.SETUP, first + number, 2)
        began = time.perf_counter()
        for sender, tag in ((0, there), (1, back)):
            if team.rank == sender:
                team.links.send_copy(peer, tag, kept)
            else:
                with team.links.receive(peer, tag, shape, torch.float32) as rows:
                    kept.copy_(rows)
        if number:  # the first one makes buffers
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
