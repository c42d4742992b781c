"""A round: every worker asks the others for something about rows they own, and answers what it is asked.

There is no server. Workers take the same rounds in the same order, one who needs nothing asks with empty lists; each sends all it
has to say before it waits, so a round ends as soon as everybody has come to it (docs/engine.md). Rounds of different stages have
tags of their own and may be under way at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team


def send_array(team: Team, peer: int, tag: int, values: NDArray[Any]) -> None:
    """Send numbers whose shape and type the receiver knows."""
    team.links.send_copy(peer, tag, torch.from_numpy(np.ascontiguousarray(values)))
    team.ledger.sent(peer, values.nbytes)


def receive_arrays(team: Team, tag: int, counts: Mapping[int, int], dtype: Any) -> dict[int, NDArray[Any]]:
    """As many numbers of each peer, which it sent by `send_array`, in memory of their own."""
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    shapes = {peer: (count,) for peer, count in counts.items()}
    return {peer: np.array(numbers.numpy()) for peer, numbers in team.receive_each(tag, shapes, kind)}
