"""By what chance a part hears of each neighbour in another part, where that is not the same for all: by what it weighs there.

A node u outside part q adds h_u / degree_v to the mean of every row v of q that it has an edge to. Heard of by a chance p_u, and
then scaled by 1 / p_u, it adds w_u² |h_u|² (1 − p_u) / p_u to the variance of these means, with w_u² = Σ_v 1 / degree_v². For rows
of equal norm, no two edges alike, and as many neighbours heard of on average, the sum over u is least where p_u is proportional to
w_u, capped at 1.

The part that hears knows the weights; owners are told the chances once, when a run begins, so that no epoch sends an index. Chances
are whole multiples of 2⁻²⁴: what is sent are whole numbers, and both sides compare a draw with the same number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.compile import compiled
from starling.engine.hybrid.share.worker_graph import WorkerGraph, parts_of_worker

_STEPS = 1 << 24


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances of pairs (row, part of this worker that it has edges to and does not lie in), by row: own ones, then mirrors.

    Row r's pairs are offsets[r] … offsets[r + 1] − 1, their parts ascending. `told` are those by which others' parts hear of own
    rows, in the order of the worker's `heard_by`.
    """

    offsets: NDArray[np.int64]
    part: NDArray[np.int32]
    chance: NDArray[np.float32]
    told: tuple[NDArray[np.float32], ...]


def chances_by_choice(choice: str, graph: WorkerGraph, team: Team, share: float, tag: int) -> Chances | None:
    """Chances by `boundary_choice`; None where all have the same. `graph` has all edges, held-out ones included."""
    return weighted_chances(graph, team, share, tag) if choice == "weighted" and 0 < share < 1 else None


def weighted_chances(graph: WorkerGraph, team: Team, share: float, tag: int) -> Chances:
    """Chances by weight; each part hears of `share` of its neighbours on average, as if all had that chance."""
    lists = (graph.incoming.offsets, graph.incoming.neighbours, graph.part)
    counts = np.zeros(graph.rows + 1, np.int64)
    _count_pairs(*lists, counts[1:])
    offsets = np.cumsum(counts)
    part, squares = np.empty(offsets[-1], np.int32), np.zeros(offsets[-1])
    _weigh_pairs(*lists, graph.in_degree, offsets, part, squares)
    steps = np.empty(len(part), np.int64)
    for here in parts_of_worker(team.rank, team.size, graph.manifest.parts):
        mine = part == here
        steps[mine] = np.ceil(chances_of(np.sqrt(squares[mine]), share) * _STEPS)
    row = np.repeat(np.arange(graph.rows), np.diff(offsets))
    told = []
    for worker in range(team.size):
        theirs = graph.traffic.mirrors_of(worker)
        pairs = np.arange(offsets[theirs.start], offsets[theirs.stop])
        told.append(steps[pairs[np.lexsort((row[pairs], part[pairs], graph.part[row[pairs]]))]])  # as `heard_by` has them
    got = team.swap_lists(tag, told)
    return Chances(offsets, part, _as_chances(steps), tuple(_as_chances(each) for each in got))


def chances_of(weight: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Chances in proportion to weights, none above 1, whose mean is `share`."""
    heaviest = np.sort(weight)[::-1]
    wanted, rest = share * len(weight), np.cumsum(heaviest[::-1])[::-1]
    sure = np.arange(len(weight))  # so many of the heaviest are heard of in any case, if that is enough
    factor = (wanted - sure) / rest
    enough = factor * heaviest <= 1
    return np.minimum(weight * factor[np.argmax(enough)], 1.0) if enough.any() else np.ones(len(weight))


def _as_chances(steps: NDArray[np.int64]) -> NDArray[np.float32]:
    return (steps / _STEPS).astype(np.float32)


@compiled
def _count_pairs(
    offsets: NDArray[np.int64], neighbours: NDArray[np.int32], part: NDArray[np.int32], counts: NDArray[np.int64]
) -> None:
    """Rows lie part by part, so a row's pairs are found in the order of parts."""
    last = np.full(len(counts), -1, np.int64)
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            source = neighbours[k]
            if part[source] != part[row] and last[source] != part[row]:
                last[source] = part[row]
                counts[source] += 1


@compiled
def _weigh_pairs(
    offsets: NDArray[np.int64],
    neighbours: NDArray[np.int32],
    part: NDArray[np.int32],
    degree: NDArray[np.int64],
    pair_offsets: NDArray[np.int64],
    pair_part: NDArray[np.int32],
    squares: NDArray[np.float64],
) -> None:
    last, found = np.full(len(pair_offsets) - 1, -1, np.int64), pair_offsets[:-1].copy()
    for row in range(len(offsets) - 1):
        for k in range(offsets[row], offsets[row + 1]):
            source = neighbours[k]
            if part[source] == part[row]:
                continue
            if last[source] != part[row]:
                last[source] = part[row]
                pair_part[found[source]] = part[row]
                found[source] += 1
            squares[found[source] - 1] += 1.0 / (float(degree[row]) * float(degree[row]))
