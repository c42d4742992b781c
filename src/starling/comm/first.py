"""The first worker and everybody else: what it has on all of them, and what each has at the first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from starling.comm.team import Team


def from_first(team: Team, tag: int, values: Tensor) -> Tensor:
    """What the first worker has, on everybody; `values` have the same shape and type everywhere."""
    if team.rank == 0:
        for peer in team.peers:
            team.links.send_copy(peer, tag, values)
            team.ledger.sent(peer, values.nbytes)
        return values
    with team.links.receive(0, tag, values.shape, values.dtype) as came:
        return came.clone()


def bytes_from_first(team: Team, tag: int, given: bytes) -> bytes:
    """The first worker's bytes, on everybody; what others give does not count."""
    if team.size == 1:
        return given
    length = int(team.all_lists(tag, np.array([len(given)]))[0][0])
    mine = _as_tensor(given) if team.rank == 0 else torch.empty(length, dtype=torch.uint8)
    return from_first(team, tag, mine).numpy().tobytes()


def bytes_at_first(team: Team, tag: int, given: bytes) -> list[bytes]:
    """Everybody's bytes by rank, at the first worker; nothing elsewhere."""
    lengths = [int(length[0]) for length in team.all_lists(tag, np.array([len(given)]))]
    if team.rank != 0:
        team.links.send_copy(0, tag, _as_tensor(given))
        return []
    found = [given]
    for peer in range(1, team.size):
        with team.links.receive(peer, tag, (lengths[peer],), torch.uint8) as came:
            found.append(came.numpy().tobytes())
    return found


def _as_tensor(given: bytes) -> Tensor:
    return torch.frombuffer(bytearray(given), dtype=torch.uint8) if given else torch.empty(0, dtype=torch.uint8)
