from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.bitset import empty_bits
from starling.kernels.edge_records import (
    DROP,
    KEEP,
    KEEP_WITH_REVERSE,
    NARROW,
    WIDE,
    count_edges,
    expand,
    find_edges,
    first_outside,
    judge_edges,
    make_records,
    pack_pairs,
    survey,
)

NO_TYPES = np.empty(0, np.uint8)
edges = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), max_size=40)


def as_pairs(rows: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)


def records_of(pairs: np.ndarray, types: np.ndarray, words: int, buckets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    bucket, records = np.empty(len(pairs), np.uint8), np.empty((len(pairs), words), np.uint64)
    make_records(pairs, types, buckets, bucket, records)
    return bucket, records


def slow_verdicts(rows: list[tuple[int, int, int]], drop_loops: bool, drop_repeats: bool, add: bool) -> list[int]:
    total, passed, verdicts = Counter(rows), Counter[tuple[int, int, int]](), []
    for u, v, kind in rows:
        earlier = passed[u, v, kind]
        passed[u, v, kind] += 1
        if (drop_loops and u == v) or (drop_repeats and earlier):
            verdicts.append(DROP)
        elif add and u != v and earlier >= total[v, u, kind]:
            verdicts.append(KEEP_WITH_REVERSE)
        else:
            verdicts.append(KEEP)
    return verdicts


def test_records_by_hand() -> None:
    pairs = np.array([[2, 5], [5, 2], [3, 3]], np.int32)
    _, narrow = records_of(pairs, NO_TYPES, NARROW)
    assert narrow.reshape(-1).tolist() == [2 << 32 | 5 << 1, 2 << 32 | 5 << 1 | 1, 3 << 32 | 3 << 1]
    _, wide = records_of(pairs, np.array([7, 8, 9], np.uint8), WIDE)
    assert wide.tolist() == [[4, 5, 7], [5, 5, 8], [6, 3, 9]]


def test_verdicts_by_hand() -> None:
    # 0→1 comes three times and 1→0 once, so the second and third copy lack a reverse; 4→4 is its own.
    rows = [(0, 1, 0), (1, 0, 0), (0, 1, 0), (4, 4, 0), (0, 1, 0)]
    assert slow_verdicts(rows, False, False, True) == [KEEP, KEEP, KEEP_WITH_REVERSE, KEEP, KEEP_WITH_REVERSE]
    assert slow_verdicts(rows, True, True, True) == [KEEP, KEEP, DROP, DROP, DROP]


@given(edges, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_counts_and_verdicts_are_those_of_the_slow_twin(
    rows: list[tuple[int, int, int]], typed: bool, drop_loops: bool, drop_repeats: bool, add: bool
) -> None:
    if not typed:
        rows = [(u, v, 0) for u, v, _ in rows]
    types = np.array([kind for *_, kind in rows], np.uint8)
    expected = slow_verdicts(rows, drop_loops, drop_repeats, add)
    for words in (WIDE,) if typed else (NARROW, WIDE):
        _, records = records_of(as_pairs(rows), types if typed else NO_TYPES, words)
        table, slots = np.zeros((2 * len(rows) + 1, words), np.uint64), np.empty(len(rows), np.int64)
        assert find_edges(records, table, slots) == len({(min(u, v), max(u, v), kind) for u, v, kind in rows})
        counts = np.zeros(len(table), np.uint64)
        assert count_edges(records, slots, counts) == len(rows) - len(set(rows))
        verdict = np.empty(len(rows), np.uint8)
        dropped, added = judge_edges(records, slots, counts, np.zeros_like(counts), drop_loops, drop_repeats, add, verdict)
        assert verdict.tolist() == expected
        assert added == expected.count(KEEP_WITH_REVERSE)
        loops = sum(u == v for u, v, _ in rows) if drop_loops else 0
        assert dropped == expected.count(DROP) - loops


@given(edges, st.integers(1, 9))
def test_an_edge_and_its_reverse_share_a_bucket(rows: list[tuple[int, int, int]], buckets: int) -> None:
    pairs = as_pairs(rows)
    there, _ = records_of(pairs, NO_TYPES, NARROW, buckets)
    back, _ = records_of(np.ascontiguousarray(pairs[:, ::-1]), NO_TYPES, NARROW, buckets)
    assert there.tolist() == back.tolist()
    assert there.max(initial=0) < buckets


def test_a_full_half_of_the_table_still_finds_everything() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 2**31 - 1, (5_000, 2)).astype(np.int32)
    _, records = records_of(pairs, NO_TYPES, NARROW)
    table, slots, again = np.zeros((10_000, 1), np.uint64), np.empty(5_000, np.int64), np.empty(5_000, np.int64)
    assert find_edges(records, table, slots) == 5_000
    assert len(set(slots.tolist())) == 5_000
    assert find_edges(records, table, again) == 0
    assert slots.tolist() == again.tolist()


@given(edges)
def test_survey(rows: list[tuple[int, int, int]]) -> None:
    pairs = as_pairs(rows)
    for skip in (False, True):
        touched = empty_bits(7)
        loops, balance = survey(pairs, skip, touched)
        assert loops == sum(u == v for u, v, _ in rows)
        nodes = {node for u, v, _ in rows for node in (u, v) if not (skip and u == v)}
        assert int(touched[0]) == sum(1 << node for node in nodes)
        there, back = Counter((u, v) for u, v, _ in rows), Counter((v, u) for u, v, _ in rows)
        assert (int(balance) == 0) == (there == back)


@given(edges)
def test_expand(rows: list[tuple[int, int, int]]) -> None:
    pairs, verdict = as_pairs(rows), np.array([kind + (u > v) for u, v, kind in rows], np.uint8)
    out, origin = np.empty((2 * len(rows), 2), np.int32), np.empty(2 * len(rows), np.int64)
    count = expand(pairs, verdict, out, origin)
    expected = []
    for i, (u, v, _) in enumerate(rows):
        expected += [(u, v, i), (v, u, i)][: int(verdict[i])]
    assert [(*pair, i) for pair, i in zip(out[:count].tolist(), origin[:count].tolist(), strict=True)] == expected


def test_pack_pairs_and_first_outside() -> None:
    out = np.empty((3, 2), np.int64)
    assert pack_pairs(np.array([4, -2, 0]), np.array([1, 9, 3]), out) == (-2, 9)
    assert out.tolist() == [[4, 1], [-2, 9], [0, 3]]
    numbers = np.array([3, 0, 5, -1])
    assert [first_outside(numbers, below) for below in (3, 5, 6)] == [0, 2, 3]
    assert first_outside(numbers[:2], 4) == -1
