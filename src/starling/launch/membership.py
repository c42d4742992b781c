"""A worker's way into its team and out of it again: meet the others, link up, show signs of life, leave together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from starling.comm.heartbeat import Heartbeat
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Lost
from starling.core.environment import Place
from starling.core.errors import InputError, StarlingError
from starling.launch.inquest import Inquest
from starling.launch.reports import RunEnded

if TYPE_CHECKING:
    import torch
    from torch.distributed import Store  # type: ignore[attr-defined]

    from starling.comm.switch import Transport
    from starling.comm.team import Team

_MEETING = 300.0
"""Seconds within which all workers must have come; imports differ by seconds, machines by more."""
_LOOK_EVERY = 0.05
_ASKING = 0.25
"""Share of the silence limit that a worker which ends may take to find out why."""
_LEAVING, _GONE = "starling/leaving", "starling/gone"


@dataclass(frozen=True)
class Links:
    """How workers are to be linked."""

    silence: float
    """Seconds without a sign of life after which a worker is given up."""
    transport: Transport = "auto"
    device: str = "cpu"
    wait_limit: float = 1800.0
    """Seconds to wait for a message of a worker that lives; far longer than any step takes."""


class Membership:
    """What a worker holds while it is in a team."""

    def __init__(self, place: Place, links: Links, phase: Phase, on_lost: Callable[[Lost], None]) -> None:
        """Find the store at which all workers of the run meet, from what torchrun put into the environment, and link up.

        `on_lost` is called, in another thread, when a peer gives no sign of life any more.
        """
        from torch.distributed.rendezvous import rendezvous

        self._place, self._links = place, links
        self._store: Store = next(rendezvous("env://", timeout=timedelta(seconds=_MEETING)))[0]
        self.team = self._join(phase)
        self._heartbeat = None
        if place.size > 1:
            self._heartbeat = Heartbeat(
                self._store,
                place.rank,
                place.size,
                phase,
                deadline=links.silence,
                on_lost=on_lost,
                store_may_vanish=place.local_size < place.size,  # on this machine it would end with its process
            ).start()
        self.inquest = Inquest(self._store, place.rank, self._heartbeat, _ASKING * links.silence)

    def _join(self, phase: Phase) -> Team:
        import torch

        from starling.comm.switch import form_team

        place, links = self._place, self._links
        device = torch.device("cpu") if links.device == "cpu" else _own_card(place, links.device)
        team = form_team(
            place.rank, place.size, self._store, transport=links.transport, device=device, wait_limit=links.wait_limit
        )
        team.phase = phase
        return team

    def leave(self) -> None:
        """Wait until everybody has come so far, and close what was opened: nobody loses a peer that was only quicker.

        Worker 0 goes last, since the store may live in its process.
        """
        import torch.distributed as dist

        self._wait_for(_LEAVING, self._place.size)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.team.close()
        if dist.is_initialized():
            dist.destroy_process_group()
        if self._place.rank == 0:
            self._wait_for(_GONE, self._place.size)
        else:
            self._store.add(_GONE, 1)

    def _wait_for(self, mark: str, count: int) -> None:
        """Set a mark, and wait until so many workers have."""
        arrived = self._store.add(mark, 1)
        end = time.monotonic() + self._links.wait_limit
        while arrived < count:
            if time.monotonic() > end:
                raise StarlingError(f"Only {arrived} of {self._place.size} workers finished in {self._links.wait_limit:g} s.")
            if self.inquest.is_over():
                raise RunEnded("another worker failed while this one waited for it")
            time.sleep(_LOOK_EVERY)
            arrived = self._store.add(mark, 0)


def _own_card(place: Place, name: str) -> torch.device:
    """The graphics card of this worker, by its number on its machine."""
    import torch

    from starling.train.devices import check_device

    check_device(name)
    asked = torch.device(name)
    if asked.index is not None and place.size > 1:
        raise InputError(f"Every worker takes a graphics card of its own, got --device {asked}. Pass --device cuda.")
    number = place.local_rank if asked.index is None else asked.index
    if number >= torch.cuda.device_count():
        raise InputError(
            f"Expected a graphics card for each of {place.local_size} workers of a machine, got {torch.cuda.device_count()}. "
            "Start fewer workers there, or pass --device cpu."
        )
    torch.cuda.set_device(number)  # what NCCL, and streams, go by
    return torch.device("cuda", number)
