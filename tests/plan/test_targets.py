from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.plan.targets import TargetBatches
from tests.plan.sources import draw_graph


@given(st.sets(st.integers(0, 49), min_size=1), st.integers(1, 50), st.integers(0, 5))
def test_an_epoch_deals_every_node_once(train: set[int], size: int, epoch: int) -> None:
    rows = np.array(sorted(train), np.int32)
    batches = TargetBatches(rows, rows, min(size, len(rows)), seed=1)
    dealt = [batches.batch(epoch, step).tolist() for step in range(batches.steps)]
    assert all(len(batch) == batches.size for batch in dealt[:-1])
    assert 1 <= len(dealt[-1]) <= batches.size
    assert sorted(itertools.chain.from_iterable(dealt)) == rows.tolist()


def test_epochs_and_seeds_differ_and_repeat() -> None:
    graph, rows = draw_graph(200, 0, 0).source, np.arange(200, dtype=np.int32)
    batches = TargetBatches(graph.positions_of(rows), rows, 200, seed=1)
    first, second = batches.batch(0, 0).tolist(), batches.batch(1, 0).tolist()
    assert first != second
    assert batches.batch(0, 0).tolist() == first
    assert TargetBatches(graph.positions_of(rows[::-1]), rows[::-1].copy(), 200, seed=1).batch(0, 0).tolist() == first
    assert TargetBatches(graph.positions_of(rows), rows, 200, seed=2).batch(0, 0).tolist() != first


def test_without_shuffling_nodes_come_in_imported_order() -> None:
    graph, row_of = draw_graph(30, 0, 0).renumbered(4)
    batches = TargetBatches(
        graph.positions_of(np.sort(row_of[[3, 8, 20]])), np.sort(row_of[[3, 8, 20]]), 2, seed=1, shuffle=False
    )
    assert [batches.batch(epoch, 0).tolist() for epoch in (0, 1)] == [row_of[[3, 8]].tolist()] * 2
    assert batches.batch(0, 1).tolist() == row_of[[20]].tolist()


def test_every_place_is_equally_likely() -> None:
    """Where node 0 of ten lands, over many epochs."""
    batches = TargetBatches(np.arange(10), np.arange(10, dtype=np.int32), 10, seed=1)
    places = np.bincount([batches.batch(epoch, 0).tolist().index(0) for epoch in range(5000)], minlength=10)
    assert ((places - 500) ** 2 / 500).sum() < 35
