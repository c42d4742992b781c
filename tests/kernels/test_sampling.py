from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_below, stream_key
from starling.kernels.csr import Csr
from starling.kernels.sampling import Taken, take_all, take_uniform
from tests.plan.sources import Drawn, graphs, star

KEY = stream_key(7, "sample")


def lists_of(taken: Taken) -> list[list[int]]:
    return [taken.entry[taken.offsets[i] : taken.offsets[i + 1]].tolist() for i in range(len(taken.offsets) - 1)]


def slow_uniform(lists: Csr, rows: np.ndarray, fanout: int, key: np.uint64, replace: bool) -> list[list[int]]:
    """The slow twin: sets, and one row at a time."""
    found = []
    for row in rows.tolist():
        first, degree = int(lists.offsets[row]), int(lists.offsets[row + 1] - lists.offsets[row])
        if replace:
            slots = [draw_below(key, row, slot, degree) for slot in range(fanout)] if degree else []
        elif degree <= fanout:
            slots = list(range(degree))
        else:
            chosen: set[int] = set()
            for slot in range(fanout):
                last = degree - fanout + slot
                pick = draw_below(key, row, slot, last + 1)
                chosen.add(last if pick in chosen else pick)
            slots = sorted(chosen)
        found.append([first + slot for slot in slots])
    return found


def test_all_by_hand() -> None:
    lists = Csr(np.array([0, 2, 2, 5]), np.array([1, 2, 0, 1, 2], np.int32), np.arange(5, dtype=np.int32))
    taken = take_all(lists, np.array([2, 1, 0], np.int32))
    assert taken.offsets.tolist() == [0, 3, 3, 5]
    assert taken.neighbours.tolist() == [0, 1, 2, 1, 2]
    assert taken.entry.tolist() == [2, 3, 4, 0, 1]
    assert taken.row_scale is None
    assert taken.edge_scale is None


@given(graphs, st.integers(1, 80), st.booleans(), st.integers(0, 2**20))
def test_uniform_as_the_slow_twin(graph: Drawn, fanout: int, replace: bool, seed: int) -> None:
    lists, key = graph.source.incoming, stream_key(seed, "sample")
    rows = np.random.default_rng(seed).permutation(graph.nodes).astype(np.int32)
    taken = take_uniform(lists, rows, rows, fanout, key, replace=replace)
    assert lists_of(taken) == slow_uniform(lists, rows, fanout, key, replace)
    np.testing.assert_array_equal(taken.neighbours, lists.neighbours[taken.entry])
    degree, count = np.diff(lists.offsets)[rows], np.diff(taken.offsets)
    expected = np.where(count > 0, degree / np.maximum(count, 1), 1)
    assert taken.row_scale is not None
    np.testing.assert_allclose(taken.row_scale, expected, rtol=1e-6)


@pytest.mark.parametrize("replace", [False, True])
def test_threads_change_nothing(replace: bool) -> None:
    generator = np.random.default_rng(1)
    degree = generator.integers(0, 200, 2000)
    degree[7] = 100_000  # a hub, whose bits outgrow the first scratch
    offsets = np.concatenate([[0], np.cumsum(degree)])
    lists = Csr(offsets, generator.integers(0, 2000, offsets[-1], dtype=np.int32), np.arange(offsets[-1], dtype=np.int32))
    rows = generator.permutation(2000).astype(np.int32)
    one, four = (take_uniform(lists, rows, rows, 50, KEY, replace=replace, threads=threads) for threads in (1, 4))
    for name in ("offsets", "neighbours", "entry", "row_scale"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))


def chi_square(seen: np.ndarray, expected: np.ndarray) -> float:
    return float(((seen - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(("degree", "fanout"), [(10, 3), (64, 20), (65, 60), (150, 10)])
@pytest.mark.parametrize("replace", [False, True])
def test_every_edge_is_equally_likely(degree: int, fanout: int, replace: bool) -> None:
    """Many nodes with one list each: counts of slots against a uniform chance, far in the tail of chi-square."""
    nodes = 20_000
    lists = Csr(np.arange(nodes + 1) * degree, np.zeros(nodes * degree, np.int32), np.arange(nodes * degree, dtype=np.int32))
    rows = np.arange(nodes, dtype=np.int32)
    taken = take_uniform(lists, rows, rows, fanout, KEY, replace=replace)
    seen = np.bincount(taken.entry % degree, minlength=degree)
    expected = np.full(degree, nodes * fanout / degree)
    spread = 1.0 if replace else 1 - fanout / degree  # counts vary less when nothing is put back
    limit = degree + 6 * np.sqrt(2 * degree)
    assert chi_square(seen, expected) / spread < limit
    if not replace:
        pairs = (np.diff(taken.entry.reshape(nodes, fanout)) > 0).all()
        assert pairs, "slots come in the order of the list, none twice"


def test_every_pair_is_equally_likely() -> None:
    nodes = 60_000
    lists = Csr(np.arange(nodes + 1) * 5, np.zeros(nodes * 5, np.int32), np.arange(nodes * 5, dtype=np.int32))
    rows = np.arange(nodes, dtype=np.int32)
    picked = take_uniform(lists, rows, rows, 2, KEY).entry.reshape(nodes, 2) % 5
    seen = np.bincount(picked[:, 0] * 5 + picked[:, 1], minlength=25)
    seen = seen[[a * 5 + b for a in range(5) for b in range(a + 1, 5)]]
    assert seen.sum() == nodes
    assert chi_square(seen, np.full(10, nodes / 10)) < 35


@pytest.mark.parametrize("replace", [False, True])
def test_scaled_sums_are_unbiased(replace: bool) -> None:
    graph = star(12)
    value = np.random.default_rng(3).random(13)
    hub = np.zeros(1, np.int32)
    sums = []
    for seed in range(4000):
        taken = take_uniform(graph.incoming, hub, hub, 4, stream_key(seed, "sample"), replace=replace)
        assert taken.row_scale is not None
        sums.append(value[taken.neighbours].sum() * taken.row_scale[0])
    assert abs(np.mean(sums) - value[1:].sum()) < 4 * np.std(sums) / np.sqrt(len(sums))
