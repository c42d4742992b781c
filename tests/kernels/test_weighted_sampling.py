from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_unit, stream_key
from starling.kernels.csr import Csr
from starling.kernels.weighted_sampling import take_weighted
from tests.plan.sources import Drawn, graphs, star

KEY = stream_key(7, "sample")


def slow_race(weight: list[float], position: int, fanout: int, key: np.uint64) -> dict[int, float]:
    """The slow twin: sort all arrivals; slot and scale of those taken."""
    times = {slot: -math.log(draw_unit(key, position, slot) + 2.0**-54) / rate for slot, rate in enumerate(weight) if rate > 0}
    if len(times) <= fanout:
        return dict.fromkeys(times, 1.0)
    order = sorted(times, key=lambda slot: times[slot])
    end = times[order[fanout]]
    return {slot: 1 / (1 - math.exp(-weight[slot] * end)) for slot in sorted(order[:fanout])}


@given(graphs, st.integers(1, 40), st.integers(0, 2**20))
def test_race_as_the_slow_twin(graph: Drawn, fanout: int, seed: int) -> None:
    source, key = graph.source, stream_key(seed, "sample")
    lists, weight = source.incoming, source.edge_weight
    assert weight is not None
    rows = np.random.default_rng(seed).permutation(graph.nodes).astype(np.int32)
    taken = take_weighted(lists, weight, rows, rows, fanout, key)
    assert taken.edge_scale is not None
    for i, row in enumerate(rows.tolist()):
        first, last = lists.offsets[row], lists.offsets[row + 1]
        mine = slice(taken.offsets[i], taken.offsets[i + 1])
        expected = slow_race(weight[first:last].tolist(), row, fanout, key)
        assert (taken.entry[mine] - first).tolist() == list(expected)
        np.testing.assert_allclose(taken.edge_scale[mine], list(expected.values()), rtol=1e-5)
    np.testing.assert_array_equal(taken.neighbours, lists.neighbours[taken.entry])


@given(graphs, st.integers(1, 40), st.integers(0, 2**20))
def test_with_replacement_as_the_slow_twin(graph: Drawn, fanout: int, seed: int) -> None:
    source, key = graph.source, stream_key(seed, "sample")
    lists, weight = source.incoming, source.edge_weight
    assert weight is not None
    rows = np.arange(graph.nodes, dtype=np.int32)
    taken = take_weighted(lists, weight, rows, rows, fanout, key, replace=True)
    assert taken.edge_scale is not None
    for row in rows.tolist():
        mine = slice(taken.offsets[row], taken.offsets[row + 1])
        own = weight[lists.offsets[row] : lists.offsets[row + 1]]
        running = np.cumsum(own)
        if not own.any():
            assert mine.stop == mine.start
            continue
        slots = [int((running <= draw_unit(key, row, slot) * running[-1]).sum()) for slot in range(fanout)]
        assert (taken.entry[mine] - lists.offsets[row]).tolist() == slots
        np.testing.assert_allclose(taken.edge_scale[mine], running[-1] / (fanout * own[slots]), rtol=1e-5)


@pytest.mark.parametrize("replace", [False, True])
def test_threads_change_nothing(replace: bool) -> None:
    generator = np.random.default_rng(1)
    offsets = np.concatenate([[0], np.cumsum(generator.integers(0, 100, 2000))])
    lists = Csr(offsets, generator.integers(0, 2000, offsets[-1], dtype=np.int32), np.arange(offsets[-1], dtype=np.int32))
    weight, rows = generator.random(offsets[-1], np.float32), generator.permutation(2000).astype(np.int32)
    one, four = (take_weighted(lists, weight, rows, rows, 20, KEY, replace=replace, threads=threads) for threads in (1, 4))
    for name in ("offsets", "neighbours", "entry", "edge_scale"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))


@pytest.mark.parametrize("replace", [False, True])
def test_first_draws_follow_the_weights(replace: bool) -> None:
    """With a fan-out of one both ways take an edge with chance w / W."""
    nodes, own = 50_000, np.array([1.0, 2.0, 0.0, 4.0, 0.5])
    lists = Csr(np.arange(nodes + 1) * 5, np.zeros(nodes * 5, np.int32), np.arange(nodes * 5, dtype=np.int32))
    rows = np.arange(nodes, dtype=np.int32)
    taken = take_weighted(lists, np.tile(own, nodes), rows, rows, 1, KEY, replace=replace)
    seen = np.bincount(taken.entry % 5, minlength=5)
    assert seen[2] == 0
    expected = nodes * own / own.sum()
    assert ((seen - expected)[own > 0] ** 2 / expected[own > 0]).sum() < 25


@pytest.mark.parametrize("replace", [False, True])
def test_scaled_sums_are_unbiased(replace: bool) -> None:
    weight = np.linspace(0.2, 3, 12)
    graph, value = star(12, weight), np.random.default_rng(3).random(13)
    hub, sums = np.zeros(1, np.int32), []
    for seed in range(4000):
        taken = take_weighted(graph.incoming, weight, hub, hub, 4, stream_key(seed, "sample"), replace=replace)
        assert taken.edge_scale is not None
        sums.append((value[taken.neighbours] * taken.edge_scale).sum())
    assert abs(np.mean(sums) - value[1:].sum()) < 4 * np.std(sums) / np.sqrt(len(sums))
