"""Counts stay exact through every move, table and slots agree, greedy sweeps never add a copy, and caps hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.kernels.partition.moves import Sweep, choose_part
from starling.partition.contract import PartitionTask
from starling.partition.flock.anneal import COLD_PULL, _stride
from starling.partition.flock.counts import Sparse, Table, slots_that_fit
from starling.partition.flock.flocks import ONES
from starling.partition.flock.repair import fill_empty_parts
from starling.partition.flock.windows import Window, Windows
from starling.partition.passes import count_connections
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY, streams


def whole(edges: EdgesInMemory) -> tuple[Window, NDArray[np.int32]]:
    degree = count_connections(edges)
    return next(iter(Windows(PartitionTask(edges, 2), degree, None, 1 << 20))), degree


def brute_counts(window: Window, part: NDArray[np.uint16], parts: int) -> NDArray[np.int64]:
    counts = np.zeros((window.rows, parts), np.int64)
    for v in range(window.rows):
        for u in [v, *window.neighbour[window.start[v] : window.start[v + 1]].tolist()]:
            counts[v, part[u]] += 1
    return counts


def dense(counts: Table | Sparse, parts: int) -> NDArray[np.int64]:
    if isinstance(counts, Table):
        return counts._cells.astype(np.int64)
    rows = np.zeros((len(counts.part), parts), np.int64)
    slots = counts._slots
    for v in range(len(rows)):
        for s in range(slots.slot[v], slots.slot[v] + slots.used[v]):
            rows[v, slots.name[s]] += slots.number[s]
    return rows


def how(step: int, heat: float, cap: int, rows: int, shed: float = 2.0, chunk: int = 2) -> Sweep:
    key = stream_key(7, "test", step)
    return Sweep(cap, heat, heat / 3 or COLD_PULL, shed, key, chunk, _stride(key, max(1, -(-rows // chunk))))


@settings(deadline=None, max_examples=60)
@given(edges=streams(), parts=st.integers(2, 6), seed=st.integers(0, 99), heats=st.lists(st.floats(0, 5), max_size=5))
def test_counts_follow_every_move_and_slots_move_as_the_table_does(
    edges: EdgesInMemory, parts: int, seed: int, heats: list[float]
) -> None:
    window, degree = whole(edges)
    start = np.random.default_rng(seed).integers(0, parts, edges.nodes).astype(np.uint16)
    kept = []
    for kind in ("table", "slots"):
        part = start.copy()
        load = np.bincount(part, minlength=parts).astype(np.int64)
        counts = Table(part, load) if kind == "table" else Sparse(part, load, degree, parts)
        counts.recount(window, 1)
        for step, heat in enumerate(heats):
            counts.sweep(window, ONES, how(step, heat, -(-edges.nodes // parts) + 1, window.rows))
        exact = brute_counts(window, part, parts)
        assert dense(counts, parts).tolist() == exact.tolist()
        assert counts.copies() == np.count_nonzero(exact)
        assert load.tolist() == np.bincount(part, minlength=parts).tolist()
        kept.append(part.tolist())
    assert kept[0] == kept[1]


@settings(deadline=None, max_examples=60)
@given(edges=streams(), parts=st.integers(2, 5), seed=st.integers(0, 99))
def test_greedy_sweeps_never_add_a_copy(edges: EdgesInMemory, parts: int, seed: int) -> None:
    window, _ = whole(edges)
    part = np.random.default_rng(seed).integers(0, parts, edges.nodes).astype(np.uint16)
    counts = Table(part, np.bincount(part, minlength=parts).astype(np.int64))
    counts.recount(window, 1)
    for step in range(4):
        before = counts.copies()
        counts.sweep(window, ONES, how(step, 0.0, edges.nodes, window.rows))
        assert counts.copies() <= before


@settings(deadline=None, max_examples=40)
@given(edges=streams(), parts=st.integers(2, 5))
def test_overfull_parts_shed_at_any_price(edges: EdgesInMemory, parts: int) -> None:
    window, _ = whole(edges)
    part = np.zeros(edges.nodes, np.uint16)
    counts = Table(part, np.bincount(part, minlength=parts).astype(np.int64))
    counts.recount(window, 1)
    cap = -(-edges.nodes // parts)
    counts.sweep(window, ONES, how(0, 0.0, cap, window.rows, shed=np.inf))
    assert counts.load.max() <= cap


def test_a_gain_by_hand() -> None:
    """On the path 0-1-2-3 cut as aabb, moving 1 to b frees 2's copy in a, which rests on 1 alone, and costs 0 one in b."""
    load, chance, both = np.array([2, 2]), np.zeros(2), np.arange(2)
    # N[1] = {0, 1, 2}; copies of 1 and 2 stand in b already
    count, present, alone = np.array([2, 1], np.int32), np.array([3, 2], np.int32), 1
    leave = alone - 3 + 0.0
    assert leave + present[1] == 0
    assert choose_part(0, 1, both, count, present, leave, load, how(0, 0.0, 4, 4)._replace(pull=0.0), chance, 0.5) == -1
    uneven = np.array([4, 1])  # now it evens the load
    assert choose_part(0, 1, both, count, present, leave, uneven, how(0, 0.0, 4, 4)._replace(pull=0.0), chance, 0.5) == 1
    full = np.array([4, 4])
    assert choose_part(0, 1, both, count, present, leave + 9, full, how(0, 0.0, 4, 4), chance, 0.5) == -1


def test_heat_draws_by_gain() -> None:
    """At heat 1 a gain of ln 3 over staying is taken three times out of four."""
    load, chance, both = np.array([2, 2]), np.zeros(2), np.arange(2)
    count, present = np.array([1, 1], np.int32), np.array([0, 0], np.int32)
    sweep = how(0, 1.0, 9, 4)._replace(pull=0.0)
    took = [
        choose_part(0, 1, both, count, present, np.log(3), load, sweep, chance, drawn) for drawn in np.linspace(0, 0.999, 400)
    ]
    assert took.count(1) == pytest.approx(300, abs=2)


def test_a_sketch_keeps_the_heaviest_parts_and_its_own() -> None:
    window, degree = whole(TINY["star"])  # hub 0, leaves 1 … 8
    part = np.array([5, 0, 0, 0, 1, 1, 2, 3, 4], np.uint16)
    counts = Sparse(part, np.bincount(part, minlength=6).astype(np.int64), degree, 3)
    counts.recount(window, 1)
    assert dense(counts, 6)[0].tolist() == [3, 2, 0, 0, 0, 1]
    assert dense(counts, 6)[1].tolist() == [1, 0, 0, 0, 0, 1]


def test_counts_saturate_without_wrapping() -> None:
    leaves = 600
    pairs = np.array([(0, leaf) for leaf in range(1, leaves + 1)], np.int32)
    window, _ = whole(EdgesInMemory(np.concatenate([pairs, pairs[:, ::-1]]), leaves + 1, directed=False))
    part = np.zeros(leaves + 1, np.uint16)
    counts = Table(part, np.bincount(part, minlength=2).astype(np.int64))
    counts.recount(window, 1)
    counts.sweep(window, ONES, how(0, 0.0, 301, window.rows, shed=np.inf))
    assert counts._cells[0, 0] == 255  # many, until counted anew
    assert counts._cells[0, 1] == 255
    counts.recount(window, 1)
    assert dense(counts, 2)[1:].tolist() == brute_counts(window, part, 2)[1:].tolist()


def test_the_form_of_counts_follows_the_budget() -> None:
    degree = np.full(1000, 9, np.int32)
    assert slots_that_fit(degree, 8, 1 << 20) is None
    assert slots_that_fit(degree, 400, 1 << 20) == 400  # 36 bytes a node instead of 400
    assert slots_that_fit(degree, 400, 25_000) == 6
    with pytest.raises(InputError, match="Raise --memory"):
        slots_that_fit(degree, 400, 10_000)


@given(chunks=st.integers(1, 5000), step=st.integers(0, 50))
def test_strides_visit_every_chunk(chunks: int, step: int) -> None:
    stride = _stride(stream_key(3, "test", step), chunks)
    assert len({k * stride % chunks for k in range(chunks)}) == chunks


def test_empty_parts_take_half_of_the_fullest() -> None:
    part = np.array([1, 1, 1, 1, 0, 0], np.uint16)
    load = np.bincount(part, minlength=4).astype(np.int64)
    fill_empty_parts(part, ONES, load)
    assert part.tolist() == [2, 2, 1, 1, 3, 0]
    assert load.tolist() == [1, 2, 2, 1]
