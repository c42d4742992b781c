"""HDRF: high-degree nodes are replicated first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.partition.replicas import add, fetch_ends, holds

_EPSILON = 1.0


@compiled
def place_hdrf(
    pairs: NDArray[np.int32],
    seen: NDArray[np.int32],
    sets: NDArray[np.uint64],
    load: NDArray[np.int64],
    weight: float,
    placed: NDArray[np.uint16],
) -> None:
    """One block of the stream; `seen` is the degree of each node so far, `weight` is λ."""
    for i in range(len(pairs)):
        fetch_ends(pairs, i, sets, sets.shape[1])
        fetch_ends(pairs, i, seen, 1)
        u, v = pairs[i, 0], pairs[i, 1]
        seen[u] += 1
        seen[v] += 1
        part = _choose(u, v, seen[u] / (seen[u] + seen[v]), sets, load, weight)
        placed[i] = part
        load[part] += 1
        add(sets, u, part)
        add(sets, v, part)


@compiled
def _choose(u: int, v: int, share_u: float, sets: NDArray[np.uint64], load: NDArray[np.int64], weight: float) -> int:
    """The part with the highest C_rep + λ·C_bal; `share_u` is θ_u, and θ_v = 1 − θ_u."""
    most, least = load[0], load[0]
    for q in range(1, len(load)):
        most, least = max(most, load[q]), min(least, load[q])
    scale = weight / (_EPSILON + most - least)
    part, best = 0, -1.0
    for q in range(len(load)):
        score = scale * (most - load[q])
        if holds(sets, u, q):
            score += 2.0 - share_u  # 1 + (1 − θ_u)
        if holds(sets, v, q):
            score += 1.0 + share_u  # 1 + (1 − θ_v)
        if score > best:
            part, best = q, score
    return part
