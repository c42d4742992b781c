"""Restreaming: nodes follow their neighbours as the edges stream by, pass after pass.

A node's row of 16-bit numbers is all of its state, in one cache line: its part, how many neighbours it met, and these counted
by part: in order of parts where there are few (`sketch` False), else as pairs (part, count) of the heaviest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.machine import prefetch

PART, MET, COUNTS = 0, 1, 2
"""Columns of a row: its part, the neighbours met, and where the counts begin."""

NOWHERE = 65535
"""The part of a node that no edge has shown yet."""

_MOST = 65535
_AHEAD = 16


class Rule(NamedTuple):
    """No part is filled beyond `cap`; `evenness` is what a part's fill, load / cap, counts beside the share of neighbours."""

    cap: int
    evenness: float
    sketch: bool


@compiled
def restream_edges(
    pairs: NDArray[np.int32], rows: NDArray[np.uint16], weight: NDArray[np.integer], load: NDArray[np.int64], rule: Rule
) -> int:
    """One block: each edge is counted at both ends, and an end that is better off with the other one moves. Returns the moves.

    A node met for the first time goes where its neighbour is, or to the part with the least load.
    """
    width, last, moves = rows.shape[1], len(pairs) - 1, 0
    for i in range(len(pairs)):
        ahead = min(i + _AHEAD, last)
        prefetch(rows, np.int64(pairs[ahead, 0]) * width)
        prefetch(rows, np.int64(pairs[ahead, 1]) * width)
        u, v = pairs[i, 0], pairs[i, 1]
        if u == v:
            continue
        if rows[u, PART] == NOWHERE:
            appear(u, rows[v, PART], rows, weight, load, rule.cap)
        if rows[v, PART] == NOWHERE:
            appear(v, rows[u, PART], rows, weight, load, rule.cap)
        moves += follow(u, np.int64(rows[v, PART]), rows, weight, load, rule)
        moves += follow(v, np.int64(rows[u, PART]), rows, weight, load, rule)
    return moves


@compiled
def appear(
    node: int, wanted: int, rows: NDArray[np.uint16], weight: NDArray[np.integer], load: NDArray[np.int64], cap: int
) -> None:
    """Place a node for the first time: in `wanted` where that is a part with room, else in the least loaded part."""
    own = np.int64(weight[node]) if len(weight) else 1
    if wanted == NOWHERE or load[wanted] + own > cap:
        wanted = int(np.argmin(load))
    rows[node, PART] = wanted
    load[wanted] += own


@compiled
def follow(
    node: int, b: int | np.integer, rows: NDArray[np.uint16], weight: NDArray[np.integer], load: NDArray[np.int64], rule: Rule
) -> int:
    """Count a neighbour in part b, and go there if share of neighbours − evenness × fill is higher there; 1 where it went.

    Only b's count has grown, so b is the only part worth a look.
    """
    there = np.int64(note(node, b, rows, rule.sketch))
    a = np.int64(rows[node, PART])
    own = np.int64(weight[node]) if len(weight) else 1
    if a == b or load[b] + own > rule.cap:
        return 0
    here = np.int64(look_up(node, a, rows, rule.sketch))
    fuller = rule.evenness * (load[b] - load[a]) / rule.cap
    if there - here <= fuller * rows[node, MET]:
        return 0
    rows[node, PART] = b
    load[a] -= own
    load[b] += own
    return 1


@compiled
def note(node: int, part: int | np.integer, rows: NDArray[np.uint16], sketch: bool) -> int:
    """Count one more neighbour in `part`; returns the count. In a full sketch it takes the place of the lightest."""
    if rows[node, MET] >= _MOST:
        fade(rows, node, node + 1, sketch)
    rows[node, MET] += np.uint16(1)
    if not sketch:
        rows[node, COUNTS + part] += np.uint16(1)
        return int(rows[node, COUNTS + part])
    lightest = COUNTS
    for k in range(COUNTS, rows.shape[1], 2):
        if rows[node, k] == part and rows[node, k + 1] > 0:
            rows[node, k + 1] += np.uint16(1)
            return int(rows[node, k + 1])
        if rows[node, k + 1] < rows[node, lightest + 1]:
            lightest = k
    rows[node, lightest] = part
    rows[node, lightest + 1] = 1
    return 1


@compiled
def look_up(node: int, part: int | np.integer, rows: NDArray[np.uint16], sketch: bool) -> int:
    """How many neighbours were counted in `part`, as far as is known."""
    if not sketch:
        return int(rows[node, COUNTS + part])
    for k in range(COUNTS, rows.shape[1], 2):
        if rows[node, k] == part:
            return int(rows[node, k + 1])
    return 0


@compiled
def fade(rows: NDArray[np.uint16], first: int, last: int, sketch: bool) -> None:
    """Halve what nodes first … last − 1 remember, so that where neighbours are now outweighs where they were."""
    one = np.uint16(1)
    for node in range(first, last):
        rows[node, MET] >>= one
        for k in range(COUNTS + 1 if sketch else COUNTS, rows.shape[1], 2 if sketch else 1):
            rows[node, k] >>= one
