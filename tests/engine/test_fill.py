"""Filled plans: the right rows in the right places, and what repeats is filled once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from starling.engine.fill import Filler
from starling.engine.source import SourceRequest, open_source
from starling.plan.registry import make_strategy
from starling.plan.source import NeighbourSource
from tests.support.trainable import trainable_graph


def test_global_is_filled_once(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    source = open_source(tmp_path / "g", SourceRequest())
    strategy = make_strategy("global", {}, NeighbourSource(source.incoming, source.nodes), source.splits["train"], 2)
    filler = Filler(source, seed=5)
    first, second = (filler.fill(plan) for epoch in (1, 2) for plan in strategy.plans(epoch))
    assert first.x is second.x is source.x
    assert first.views[0].graph is first.views[1].graph is second.views[0].graph is source.whole
    assert first.views[0].constants is second.views[1].constants is source.constants(keep=True)
    assert (first.views[0].moment.seed, first.views[0].moment.epoch, second.views[0].moment.epoch) == (5, 1, 2)
    not_kept = Filler(source, reuse=False).fill(strategy.plan(1, 0)).views[0]
    assert not_kept.is_constant(source.x)
    assert not_kept.constants is not None
    assert not not_kept.constants.keep


def test_blocks_carry_whole_degrees_positions_and_edge_tables(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g", edge_tables={"weight": np.arange(300, dtype=np.float32)})
    source = open_source(tmp_path / "g", SourceRequest(edge_tables=("weight",)))
    neighbours = NeighbourSource(source.incoming, source.nodes)
    settings = {"fanouts": "3,2", "batch_size": 5}
    strategy = make_strategy("mini", settings, neighbours, source.splits["train"], 2, 1)
    degree = np.bincount(graph.edges[:, 1], minlength=60)
    by_weight = {float(number): tuple(pair) for number, pair in enumerate(graph.edges.tolist())}
    for plan in strategy.plans(3):
        batch = Filler(source).fill(plan)
        np.testing.assert_array_equal(batch.x, source.x[torch.from_numpy(plan.inputs).long()])
        assert source.y is not None
        np.testing.assert_array_equal(batch.y, source.y[plan.targets])
        for view, block in zip(batch.views, plan.blocks, strict=True):
            local = view.graph
            assert local.degree is not None
            assert local.edge_weight is not None
            assert local.position is not None
            np.testing.assert_array_equal(local.degree, degree[plan.inputs[: block.sources]])
            np.testing.assert_array_equal(local.position, plan.inputs[: block.sources])
            for edge in range(local.edges):
                ends = (local.neighbours[edge], local.edge_destination[edge])
                assert by_weight[float(local.edge_weight[edge])] == tuple(int(local.position[end]) for end in ends)
        assert batch.views[0].graph.row_scale is not None
