"""Phase 2, the flock graph: small enough for METIS, which gives the parts to start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from starling.kernels.partition.contract import coarse_replicas, contract_rows, merge_rows, transpose_rows
from starling.kernels.partition.packing import pack_in_order
from starling.partition.flock.flocks import ONES, find_flocks
from starling.partition.flock.windows import Window
from starling.partition.metis_call import cut_by_metis

METIS_BYTES = 100
"""Peak of METIS for one entry of the flock graph, measured."""

ALL = 1 << 30
_LEAST_TIES = 16
_FLOCKS_A_PART = 20
_BARELY_SMALLER = 0.95


@dataclass(frozen=True)
class FlockGraph:
    """Symmetric: flock c is tied to ``column[start[c] : start[c + 1]]`` with strengths `value`, and weighs `mass`."""

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.int32]
    mass: NDArray[np.integer]

    @property
    def flocks(self) -> int:
        """How many there are."""
        return len(self.mass)

    @property
    def entries(self) -> int:
        """Ties, each counted in both directions."""
        return len(self.column)


@dataclass(frozen=True)
class Start:
    """A part for each flock, and how many copies of nodes it makes as seen from the flock graph."""

    part: NDArray[np.int32]
    replicas: int


def flock_graph(
    windows: Iterable[Window],
    label: NDArray[np.int32],
    first: NDArray[np.int64],
    mass: NDArray[np.integer],
    keep: int = ALL,
    weight: NDArray[np.int32] = ONES,
    member: NDArray[np.int32] = ONES,
) -> FlockGraph:
    """Contract each flock to a node; a tie stays when it is among the `keep` heaviest of either end. One look a window."""
    columns, values, begin = [], [], np.zeros(len(first), np.int64)
    for window in windows:
        c0, c1 = (int(np.searchsorted(first, place)) for place in (window.low, window.low + window.rows))
        if len(member):
            c0, c1 = 0, len(first) - 1
        start, neighbour = window.start, window.neighbour
        room = min(len(neighbour), keep * (c1 - c0))  # memory is taken as far as it is written, here and below
        column, value = np.empty(room, np.int32), np.empty(room, np.int32)
        lists = (window.low, start, neighbour, weight, label, member, first, c0, c1, keep)
        count = contract_rows(*lists, column, value, begin[c0 + 1 : c1 + 1])
        columns.append(column[:count])
        values.append(value[:count])
        del window, start, neighbour, lists, column, value
    np.cumsum(begin, out=begin)
    graph = FlockGraph(begin, _joined(columns), _joined(values), mass)
    return graph if keep == ALL else _symmetric(graph)


def _joined(pieces: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The pieces end to end; each is let go as soon as it is copied, and a lone one is not copied."""
    if len(pieces) == 1:
        return pieces.pop()
    whole, at = np.empty(sum(map(len, pieces)), np.int32), 0
    while pieces:
        piece = pieces.pop(0)
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return whole


def _symmetric(graph: FlockGraph) -> FlockGraph:
    matrix = (graph.start, graph.column, graph.value)
    reverse = (np.empty_like(graph.start), np.empty_like(graph.column), np.empty_like(graph.value))
    transpose_rows(*matrix, *reverse)
    most = 2 * graph.entries
    merged = (np.empty_like(graph.start), np.empty(most, np.int32), np.empty(most, np.int32))
    entries = merge_rows(*matrix, *reverse, *merged)
    return FlockGraph(merged[0], merged[1][:entries], merged[2][:entries], graph.mass)


def start_parts(graph: FlockGraph, parts: int, *, tries: int, imbalance: float, entries: int, seed: int) -> list[Start]:
    """Starts by METIS with several seeds, fewest replicas first; the graph is coarsened until it has at most `entries`."""
    small, into = _coarsen(graph, parts, entries, seed)
    starts = []
    for attempt in range(tries):
        part = _first_parts(small, parts, imbalance, seed * tries + attempt)[into]
        replicas = coarse_replicas(graph.start, graph.column, graph.mass, part, parts)
        starts.append(Start(part, int(replicas)))
    return sorted(starts, key=lambda start: start.replicas)


def _coarsen(graph: FlockGraph, parts: int, entries: int, seed: int) -> tuple[FlockGraph, NDArray[np.int32]]:
    """Flocks of flocks until METIS may have the graph, and what each flock became."""
    into = np.arange(graph.flocks, dtype=np.int32)
    while graph.entries > entries:
        if 2 * _LEAST_TIES * graph.flocks <= entries:  # few enough rows: cut them rather than merge on
            return _heaviest_ties(graph, entries), into
        window = [Window(0, graph.start, graph.column)]
        total = int(graph.mass.sum())
        wanted = min(4 * -(-total // graph.flocks), total // (_FLOCKS_A_PART * parts))
        found = find_flocks(window, graph.flocks, max(int(graph.mass.max()), wanted), seed, graph.value, graph.mass)
        if found.count > _BARELY_SMALLER * graph.flocks:
            return _heaviest_ties(graph, entries), into
        place, first = found.order()
        member = np.empty_like(place)
        member[place] = np.arange(len(place), dtype=np.int32)
        mass = np.add.reduceat(graph.mass[member], first[:-1])
        graph = flock_graph(window, found.label, first, mass, ALL, graph.value, member)
        into = found.label[into]
    return graph, into


def _heaviest_ties(graph: FlockGraph, entries: int) -> FlockGraph:
    """The same flocks with about so many ties, or one each."""
    themselves, first = np.arange(graph.flocks, dtype=np.int32), np.arange(graph.flocks + 1)
    keep = max(1, entries // (2 * graph.flocks))
    return flock_graph([Window(0, graph.start, graph.column)], themselves, first, graph.mass, keep, graph.value)


def _first_parts(graph: FlockGraph, parts: int, imbalance: float, seed: int) -> NDArray[np.int32]:
    """A part for each flock: by METIS, or by mass alone where no tie says which belong together."""
    if graph.entries == 0:
        part = np.empty(graph.flocks, np.int32)
        pack_in_order(np.argsort(-graph.mass, kind="stable"), graph.mass, parts, part)
        return part
    return cut_by_metis(
        parts,
        graph.start,
        graph.column,
        what="the flock graph",
        instead="lower --memory, by which it gets a smaller graph, or take --method restream",
        seed=seed,
        node_weight=np.maximum(graph.mass, 1),
        edge_weight=graph.value,
        imbalance=imbalance,
    )
