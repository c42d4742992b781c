"""Samplers of some of a shard's edges are those of a graph that never had the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from starling.engine.data.kept_lists import of_kept
from starling.kernels.csr import csr_from_pairs
from starling.plan.hops import AllNeighbours, HopSampler, Moment, UniformNeighbours
from starling.plan.source import NeighbourSource
from tests.plan.sources import draw_graph

NODES = 20


@pytest.mark.parametrize("make", [AllNeighbours, lambda lists: UniformNeighbours(lists, 2)], ids=["all", "sampled"])
def test_as_if_there_were_no_others(make: Callable[[NeighbourSource], HopSampler]) -> None:
    drawn = draw_graph(NODES, 90, 3)
    source, stays = drawn.source, np.random.default_rng(0).random(90) < 0.6
    (sampler,) = of_kept(lambda lists: [make(lists)], lambda lists: stays[lists.incoming.edge])(source)
    smaller = NeighbourSource(csr_from_pairs(drawn.pairs[stays], NODES), NODES)
    rows, moment = np.arange(NODES, dtype=np.int32), Moment(0, 1, 2, 0)
    found, expected = sampler.take(rows, moment), make(smaller).take(rows, moment)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.neighbours, expected.neighbours)
    numbers = np.flatnonzero(stays)[smaller.incoming.edge[expected.entry]]
    np.testing.assert_array_equal(source.incoming.edge[found.entry], numbers)
    assert 0 < len(found.neighbours) < 90
