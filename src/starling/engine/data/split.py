"""Who computes which training nodes (DistDGLv2 §5.6.1): equal counts, in ranges of ids that lie where they are computed.

Parts are ranges of global ids, so nodes in the order of their ids, cut into equal ranges, lie mostly each in one part. A range goes
to the worker that owns the most of it. Of t nodes dealt to w workers, worker i gets (t + i) // w: counts differ by one at most, and
add up to t for any t, which is why a step's shares do, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share_bounds(count: int, workers: int) -> NDArray[np.int64]:
    """Where the equal ranges of `count` nodes begin and end [workers + 1]."""
    return np.concatenate([[0], np.cumsum((count + np.arange(workers)) // workers)])


def match_ranges(ids: NDArray[np.int64], bounds: NDArray[np.int64], homes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The range of each worker, every range once: pairs with the largest overlap first, of equal ones the lowest.

    `ids` are ascending, range r of them is bounds[r] … bounds[r + 1] − 1, and worker w owns ids homes[w] … homes[w + 1] − 1.
    """
    workers = len(homes) - 1
    within = np.searchsorted(ids, homes)
    overlap = np.minimum(bounds[1:, None], within[None, 1:]) - np.maximum(bounds[:-1, None], within[None, :-1])
    range_of = np.full(workers, -1, np.int64)
    taken = np.zeros(workers, np.bool_)
    for pair in np.argsort(-np.maximum(overlap, 0), axis=None, kind="stable").tolist():
        number, worker = divmod(pair, workers)
        if range_of[worker] < 0 and not taken[number]:
            range_of[worker], taken[number] = number, True
    return range_of


def spread_homes(offsets: NDArray[np.int64], sub_bounds: list[NDArray[np.int64]], workers: int) -> NDArray[np.int64]:
    """The ids each worker is at home with [workers + 1]: whole parts, or, where workers outnumber parts, sub-parts of them.

    `offsets` are the parts' first ids, `sub_bounds` those of each part's second-level sub-parts [s + 1].
    """
    parts = len(offsets) - 1
    if workers <= parts:
        firsts = [parts * worker // workers for worker in range(workers)]
        return np.array([*(offsets[first] for first in firsts), offsets[parts]], np.int64)
    homes = [0]
    for part in range(parts):
        first, last = -(-workers * part // parts), -(-workers * (part + 1) // parts)
        inside, subs = last - first, sub_bounds[part]
        if len(subs) - 1 >= inside:
            homes += [int(subs[(len(subs) - 1) * number // inside]) for number in range(1, inside)]
        else:
            homes += [
                int(offsets[part] + (offsets[part + 1] - offsets[part]) * number // inside) for number in range(1, inside)
            ]
        homes.append(int(offsets[part + 1]))
    return np.array(homes, np.int64)
