"""What the first worker has comes to everybody, and what everybody has to the first, over every transport."""

from __future__ import annotations

import pytest
import torch

from starling.comm.first import bytes_at_first, bytes_from_first, from_first
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from tests.support.ranks import Transport, run_ranks

SIZES = (0, 1, 5, 100_001)


def swapped(team: Team) -> tuple[list[bytes], list[list[bytes]], list[float]]:
    """Every size both ways; others than the first give something else, which does not count."""
    spread, gathered = [], []
    for call, size in enumerate(SIZES):
        mine = bytes([team.rank]) * (size + team.rank if size else 0)
        spread.append(bytes_from_first(team, make_tag(Channel.CHECKPOINT, 1, call), mine))
        gathered.append(bytes_at_first(team, make_tag(Channel.CHECKPOINT, 2, call), mine))
    values = from_first(team, make_tag(Channel.CHECKPOINT, 3, 0), torch.full((3,), 1.5 + team.rank))
    return spread, gathered, values.tolist()


@pytest.mark.parametrize(("workers", "transport"), [(1, "threads"), (2, "auto"), (4, "auto"), (2, "gloo"), (4, "threads")])
def test_both_ways(workers: int, transport: Transport) -> None:
    everybody = run_ranks(workers, swapped, transport=transport)
    for rank, (spread, gathered, values) in enumerate(everybody):
        assert spread == [b"\0" * size for size in SIZES]
        assert values == [1.5, 1.5, 1.5]
        for size, found in zip(SIZES, gathered, strict=True):
            whole = [bytes([worker]) * (size + worker if size else 0) for worker in range(workers)]
            assert found == (whole if rank == 0 else [])
