"""Take in-edges of chosen rows out of neighbour lists: all of them, or a keyed uniform sample of each list.

What a row takes is a pure function of the key, of the row's position in the imported graph and of the length of its list: the
number of threads, the other rows and the numbering of rows change nothing. Entries come in the order of the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw_below
from starling.kernels.csr import Csr, index_type
from starling.kernels.machine import prefetch
from starling.kernels.parallel import parallel_for, worthwhile_threads

_ONE, _LOW_BITS = np.uint64(1), np.uint64(63)
_PAIRS, _QUADS, _BYTES = (np.uint64(bits) for bits in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_SUM_BYTES = np.uint64(0x0101010101010101)
_U1, _U2, _U4, _U6, _U56 = (np.uint64(bits) for bits in (1, 2, 4, 6, 56))
_AHEAD, _LINES = 8, 4  # rows, and cache lines of each, to ask for in advance


@dataclass(frozen=True)
class Taken:
    """The edges taken for D rows: those of the i-th row are offsets[i] … offsets[i + 1] − 1.

    `neighbours` are rows of the graph, `entry` the place of each edge in its neighbour lists. `row_scale` [D] or `edge_scale`
    [E] makes the sum over what was taken an unbiased estimate of the sum over the whole list; None where all was taken.
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[Any]
    entry: NDArray[Any]
    row_scale: NDArray[np.float32] | None = None
    edge_scale: NDArray[np.float32] | None = None


def take_all(lists: Csr, rows: NDArray[Any], threads: int | None = None) -> Taken:
    """Every in-edge of `rows`."""
    offsets = np.empty(len(rows) + 1, np.int64)
    _count_up_to(lists.offsets, rows, len(lists.neighbours), False, offsets)
    neighbours, entry = empty_edges(lists, int(offsets[-1]))
    parallel_for(
        len(rows),
        lambda start, stop: _copy_lists(lists.offsets, lists.neighbours, rows, offsets, neighbours, entry, start, stop),
        worthwhile_threads(len(entry), threads),
        offsets=offsets,
    )
    return Taken(offsets, neighbours, entry)


def take_uniform(
    lists: Csr,
    rows: NDArray[Any],
    position: NDArray[Any],
    fanout: int,
    key: np.uint64,
    *,
    replace: bool = False,
    threads: int | None = None,
) -> Taken:
    """`fanout` in-edges of each row, all equally likely; `position` [D] are the rows' positions in the imported graph.

    Without replacement a list no longer than the fan-out is taken whole, and a longer one by Floyd's algorithm: `fanout` draws and
    a scan of one bit an entry. With replacement every row with in-edges takes exactly `fanout`, in the order of the draws.
    """
    offsets = np.empty(len(rows) + 1, np.int64)
    _count_up_to(lists.offsets, rows, fanout, replace, offsets)
    neighbours, entry = empty_edges(lists, int(offsets[-1]))
    scale = np.empty(len(rows), np.float32)
    kernel = _draw_with_replacement if replace else _draw_without_replacement
    parallel_for(
        len(rows),
        lambda start, stop: kernel(
            lists.offsets, lists.neighbours, rows, position, key, fanout, offsets, neighbours, entry, scale, start, stop
        ),
        worthwhile_threads(len(entry), threads),
        offsets=offsets,
    )
    return Taken(offsets, neighbours, entry, row_scale=scale)


def empty_edges(lists: Csr, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Room for `count` edges taken out of these lists: neighbours and entries."""
    return np.empty(count, lists.neighbours.dtype), np.empty(count, index_type(len(lists.neighbours)))


@compiled
def _count_up_to(offsets: NDArray[np.int64], rows: NDArray[Any], fanout: int, replace: bool, taken: NDArray[np.int64]) -> None:
    """Where each row's edges begin: a row takes `fanout`, or its whole list where that is shorter and nothing is put back."""
    total = 0
    taken[0] = 0
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        degree = offsets[row + _ONE] - offsets[row]
        if degree > fanout or (replace and degree > 0):
            degree = fanout
        total += degree
        taken[i + 1] = total


@compiled
def _copy_lists(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        first = offsets[np.uint64(rows[i])]
        for k in range(taken[i + 1] - taken[i]):
            out[np.uint64(taken[i] + k)] = neighbours[np.uint64(first + k)]
            entry[np.uint64(taken[i] + k)] = first + k


@compiled
def _draw_without_replacement(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    position: NDArray[Any],
    key: np.uint64,
    fanout: int,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    chosen = np.zeros(64, np.uint64)  # one bit an entry of the list at hand; all clear between rows
    for i in range(start, stop):
        if i + _AHEAD < stop:
            _ask_for(offsets, neighbours, rows[i + _AHEAD])
        row = np.uint64(rows[i])
        first, at = offsets[row], taken[i]
        degree = offsets[row + _ONE] - first
        scale[i] = 1.0
        if degree <= fanout:
            for k in range(degree):
                out[np.uint64(at + k)] = neighbours[np.uint64(first + k)]
                entry[np.uint64(at + k)] = first + k
            continue
        scale[i] = degree / fanout
        words = (degree + 63) >> 6
        if words == 1:
            chosen[0] = _floyd_in_a_word(key, position[i], degree, fanout)
        else:
            if words > len(chosen):
                chosen = np.zeros(2 * words, np.uint64)
            _floyd(key, position[i], degree, fanout, chosen)
        for w in range(words):
            word = chosen[w]
            chosen[w] = 0
            while word != 0:
                lowest = word & (~word + _ONE)
                place = first + (w << 6) + np.int64(_ones(lowest - _ONE))
                out[np.uint64(at)] = neighbours[np.uint64(place)]
                entry[np.uint64(at)] = place
                at += 1
                word ^= lowest


@compiled
def _floyd(key: np.uint64, position: int, degree: int, fanout: int, chosen: NDArray[np.uint64]) -> None:
    """Mark `fanout` of 0 … degree − 1, every subset equally likely (Bentley and Floyd 1987)."""
    for slot in range(fanout):
        last = degree - fanout + slot
        pick = np.uint64(draw_below(key, position, slot, last + 1))
        if (chosen[pick >> _U6] >> (pick & _LOW_BITS)) & _ONE:
            pick = np.uint64(last)
        chosen[pick >> _U6] |= _ONE << (pick & _LOW_BITS)


@compiled
def _floyd_in_a_word(key: np.uint64, position: int, degree: int, fanout: int) -> np.uint64:
    """The same marks where 64 bits are enough: they stay in a register."""
    chosen = np.uint64(0)
    for slot in range(fanout):
        last = degree - fanout + slot
        bit = _ONE << np.uint64(draw_below(key, position, slot, last + 1))
        chosen |= bit if chosen & bit == 0 else _ONE << np.uint64(last)
    return chosen


@compiled
def _draw_with_replacement(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    position: NDArray[Any],
    key: np.uint64,
    fanout: int,
    taken: NDArray[np.int64],
    out: NDArray[Any],
    entry: NDArray[Any],
    scale: NDArray[np.float32],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        if i + _AHEAD < stop:
            _ask_for(offsets, neighbours, rows[i + _AHEAD])
        row = np.uint64(rows[i])
        first = offsets[row]
        degree = offsets[row + _ONE] - first
        scale[i] = degree / fanout if degree > 0 else 1.0
        for slot in range(taken[i + 1] - taken[i]):
            place = first + draw_below(key, position[i], slot, degree)
            out[np.uint64(taken[i] + slot)] = neighbours[np.uint64(place)]
            entry[np.uint64(taken[i] + slot)] = place


@compiled
def _ask_for(offsets: NDArray[np.int64], neighbours: NDArray[Any], row: int) -> None:
    """Let the beginning of a list be on its way from memory when its turn comes."""
    first = offsets[np.uint64(row)]
    for line in range(_LINES):
        prefetch(neighbours, first + 16 * line)


@compiled
def _ones(word: np.uint64) -> np.uint64:
    """How many bits of a word are set; LLVM makes one instruction of it."""
    word = word - ((word >> _U1) & _PAIRS)
    word = (word & _QUADS) + ((word >> _U2) & _QUADS)
    word = (word + (word >> _U4)) & _BYTES
    return (word * _SUM_BYTES) >> _U56
