"""One move of the annealing: what a node gains in each part, and the part it takes.

Of a node v in part a, with closed neighbourhood N[v] (v and its neighbours) and ``count(u, q)`` = nodes of N[u] in part q:
a copy of u stands in q exactly when count(u, q) > 0, so moving v from a to b gains

    #{u in N[v] : count(u, a) = 1}  −  #{u in N[v] : count(u, b) = 0}        copies, and
    count(v, b) − (count(v, a) − 1)                                          edges no longer cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

_HOPELESS = -9.0
"""A move with less than exp(−9) of the best one's chance is not drawn: its exponential would cost more than it brings."""


class Sweep(NamedTuple):
    """How one sweep moves nodes.

    A node takes a part with probability ~ exp(gain / heat), gain = copies + pull × edges; heat 0 is greedy. No part is
    filled beyond `cap`; one that is above it sheds any node whose move costs at most `shed`. Rows are visited in `chunk`s, the
    chunks `stride` apart (coprime to their number), each in its turn.
    """

    cap: int
    heat: float
    pull: float
    shed: float
    key: np.uint64
    chunk: int
    stride: int


@compiled
def rows_of_turn(turn: int, rows: int, sweep: Sweep) -> tuple[int, int]:
    """The first row of the chunk visited in that turn, and the row after its last."""
    chunks = (rows + sweep.chunk - 1) // sweep.chunk
    chunk = (turn + 1) * sweep.stride % chunks
    return chunk * sweep.chunk, min((chunk + 1) * sweep.chunk, rows)


@compiled
def choose_part(
    a: int | np.integer,
    own: int | np.integer,
    options: NDArray[np.integer],
    count: NDArray[np.int32],
    present: NDArray[np.int32],
    leave: float | np.floating,
    load: NDArray[np.int64],
    sweep: Sweep,
    chance: NDArray[np.float64],
    drawn: float,
) -> int:
    """The part among `options` (ascending) that a node of load `own` in part `a` goes to, or −1 to stay.

    ``count[q]`` is its closed neighbourhood in q, ``present[q]`` how many of that have a copy in q, so that moving to q gains
    ``leave + present[q] + pull × count[q]``. At heat 0 a move that gains nothing is made when it evens the load. The last node
    of a part stays. `chance` [p] is scratch.
    """
    over = load[a] > sweep.cap
    if not over and 0 < load[a] <= own:
        return -1
    best, top = -1, -np.inf if over else 0.0
    for q in options:
        if q == a or load[q] + own > sweep.cap or (count[q] == 0 and not over):
            continue
        gain = leave + present[q] + sweep.pull * count[q]
        if gain > top:
            best, top = q, gain
        elif gain == top and (over or sweep.heat == 0) and load[q] < (load[best] if best >= 0 else load[a] - own):
            best = q
    if over:
        return best if top >= -sweep.shed else -1
    if sweep.heat == 0:
        return best
    total = np.exp(-top / sweep.heat)  # the chance of staying, relative to the best move's
    for k, q in enumerate(options):
        chance[k] = 0.0
        if q != a and count[q] != 0 and load[q] + own <= sweep.cap:
            behind = (leave + present[q] + sweep.pull * count[q] - top) / sweep.heat
            if behind > _HOPELESS:
                chance[k] = np.exp(behind)
                total += chance[k]
    rest = drawn * total
    for k in range(len(options)):
        if chance[k] > 0.0:
            rest -= chance[k]
            if rest < 0.0:
                return int(options[k])
    return -1
