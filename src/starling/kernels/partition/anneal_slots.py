"""The sweeps of `anneal.py` over rows of slots, one for each part that a node has a copy in: for many parts.

Node v's slots begin at ``slot[v]`` and ``used[v]`` of them are in use, up to ``slot[v + 1]``: slot s says that ``number[s]``
nodes of the closed neighbourhood are in part ``name[s]``. With room for min(degree + 1, p) slots nothing is lost and every
move is the one the table of counts would make. With less room a row is a sketch: it holds the heaviest parts as of the last
count, and forgets what does not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_unit
from starling.kernels.partition.moves import Sweep, choose_part, rows_of_turn

_MANY = 255


class Slots(NamedTuple):
    """Counts of closed neighbourhoods by part, only of parts that occur."""

    slot: NDArray[np.integer]
    used: NDArray[np.uint16]
    name: NDArray[np.integer]
    number: NDArray[np.uint8]


@compiled
def count_slots(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    part: NDArray[np.uint16],
    slots: Slots,
    parts: int,
    first: int,
    last: int,
) -> None:
    """Count anew rows first … last − 1 of a window; where room is short the heaviest parts stay, of equals the first met."""
    count, met = np.zeros(parts, np.int32), np.empty(parts, np.int64)
    for i in range(first, last):
        v = low + i
        met[0] = part[v]
        count[met[0]] = 1
        found = 1
        for e in range(start[i], start[i + 1]):
            q = np.int64(part[neighbour[e]])
            if count[q] == 0:
                met[found] = q
                found += 1
            count[q] += 1
        room = int(slots.slot[v + 1] - slots.slot[v])
        if found > room:
            own = count[met[0]]
            count[met[0]] = 2147483647  # a node's own part always stays
            met[:found] = met[:found][np.argsort(-count[met[:found]], kind="mergesort")]
            count[met[0]] = own
        used = min(found, room)
        for k in range(used):
            s = np.int64(slots.slot[v]) + k
            slots.name[s] = met[k]
            slots.number[s] = min(count[met[k]], _MANY)
        slots.used[v] = used
        for k in range(found):
            count[met[k]] = 0


@compiled
def sweep_slots(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    part: NDArray[np.uint16],
    slots: Slots,
    weight: NDArray[np.integer],
    load: NDArray[np.int64],
    sweep: Sweep,
    first: int,
    last: int,
) -> int:
    """Visit the chunks whose turn is first … last − 1 and move the nodes that choose to; returns the moves.

    A node looks only at parts it has neighbours in, unless its own is over the cap: the time grows with neighbours, not parts.
    """
    n, parts = len(start) - 1, len(load)
    count, present, chance = np.zeros(parts, np.int32), np.zeros(parts, np.int32), np.zeros(parts)
    everywhere, some = np.arange(parts), np.empty(parts, np.int64)
    moved = 0
    for turn in range(first, last):
        begin, end = rows_of_turn(turn, n, sweep)
        for i in range(begin, end):
            v = low + i
            a = np.int64(part[v])
            over = load[a] > sweep.cap
            if slots.used[v] == 1 and not over:
                continue
            options = everywhere if over else some[: list_parts(v, slots, some)]
            for s in range(slots.slot[v], np.int64(slots.slot[v]) + slots.used[v]):
                count[slots.name[s]] = slots.number[s]
            alone = note_copies(v, a, slots, over, count, present)
            for e in range(start[i], start[i + 1]):
                alone += note_copies(neighbour[e], a, slots, over, count, present)
            leave = alone - (start[i + 1] - start[i] + 1) - sweep.pull * (count[a] - 1)
            own = np.int64(weight[v]) if len(weight) else 1
            b = choose_part(a, own, options, count, present, leave, load, sweep, chance, draw_unit(sweep.key, v, 0))
            for q in options:
                count[q] = 0
                present[q] = 0
            if b < 0:
                continue
            moved += 1
            part[v] = b
            load[a] -= own
            load[b] += own
            shift_slots(v, a, b, slots)
            for e in range(start[i], start[i + 1]):
                shift_slots(neighbour[e], a, b, slots)
    return moved


@compiled
def list_parts(v: int, slots: Slots, parts: NDArray[np.int64]) -> int | np.integer:
    """Fill `parts` with those of v's slots, ascending; returns how many."""
    begin, used = np.int64(slots.slot[v]), np.int64(slots.used[v])
    parts[:used] = slots.name[begin : begin + used]
    parts[:used].sort()
    return used


@compiled
def note_copies(
    u: int, a: int | np.integer, slots: Slots, everywhere: bool, count: NDArray[np.int32], present: NDArray[np.int32]
) -> int:
    """Add u's copies to `present`, where `count` is not 0 or everywhere; 1 where the one in part a rests on a single node."""
    alone = 0
    for s in range(slots.slot[u], np.int64(slots.slot[u]) + slots.used[u]):
        q = slots.name[s]
        if everywhere or count[q] != 0:
            present[q] += 1
        alone += (q == a) & (slots.number[s] == 1)
    return alone


@compiled
def shift_slots(u: int, a: int | np.integer, b: int, slots: Slots) -> None:
    """A node of u's closed neighbourhood goes from part a to part b."""
    begin = np.int64(slots.slot[u])
    end = begin + slots.used[u]
    for s in range(begin, end):
        if slots.name[s] == a:
            if slots.number[s] < _MANY:
                slots.number[s] -= np.uint8(1)
                if slots.number[s] == 0:
                    end -= 1
                    slots.name[s] = slots.name[end]
                    slots.number[s] = slots.number[end]
            break
    for s in range(begin, end):
        if slots.name[s] == b:
            if slots.number[s] < _MANY:
                slots.number[s] += np.uint8(1)
            break
    else:
        if end < np.int64(slots.slot[u + 1]):
            slots.name[end] = b
            slots.number[end] = 1
            end += 1
    slots.used[u] = end - begin
