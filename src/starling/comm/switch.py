"""Form a team: find out who is where, and link each pair by the fastest way there is."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from starling.comm.gloo import GlooMailbox
from starling.comm.ledger import Ledger
from starling.comm.team import Team

Transport = Literal["auto", "gloo"]


def form_team(
    rank: int, size: int, store: Store, *, transport: Transport = "auto", device: str = "cpu", wait_limit: float = 600.0
) -> Team:
    """Join the team that meets at `store`; every worker calls this once."""
    ledger = Ledger(size)
    if size == 1:
        return Team(ledger=ledger)
    if not dist.is_initialized():
        dist.init_process_group(
            "gloo", store=PrefixStore("gloo", store), rank=rank, world_size=size, timeout=timedelta(seconds=wait_limit)
        )
    assert dist.group.WORLD is not None
    return Team(rank, size, GlooMailbox(rank, size, dist.group.WORLD, ledger, device=device, wait_limit=wait_limit), ledger)
