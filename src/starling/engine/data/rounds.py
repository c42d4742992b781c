"""A round: every worker asks the others for something about rows they own, and answers what it is asked.

There is no server. Workers take the same rounds in the same order, one who needs nothing asks with empty lists; each sends all it
has to say before it waits, so a round ends as soon as everybody has come to it (docs/engine.md). Rounds of different stages have
tags of their own and may be under way at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team


def ask(team: Team, peers: Sequence[int], tag: int, lists: dict[int, NDArray[Any]]) -> dict[int, NDArray[np.int64]]:
    """Give `lists[peer]` to each of `peers`, and get theirs."""
    for peer in peers:
        values = np.ascontiguousarray(lists[peer], np.int64)
        team.links.send_list(peer, tag, values)
        team.ledger.sent(peer, values.nbytes)
    return team.links.receive_lists(peers, tag) if peers else {}


def send_array(team: Team, peer: int, tag: int, values: NDArray[Any]) -> None:
    """Send numbers whose shape and type the receiver knows."""
    team.links.send_copy(peer, tag, torch.from_numpy(np.ascontiguousarray(values)))
    team.ledger.sent(peer, values.nbytes)


def receive_array(team: Team, peer: int, tag: int, shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """Numbers that `send_array` sent, in memory of their own."""
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    with team.links.receive(peer, tag, shape, kind) as rows:
        return np.array(rows.numpy())
