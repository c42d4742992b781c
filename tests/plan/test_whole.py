from __future__ import annotations

import numpy as np
from hypothesis import given

from starling.plan.registry import make_strategy
from tests.plan.sources import Drawn, check_blocks, graphs


@given(graphs)
def test_one_block_of_all_edges_stands_for_every_layer(graph: Drawn) -> None:
    source = graph.source
    strategy = make_strategy("global", {}, source, np.array([graph.nodes - 1]), 3)
    assert strategy.steps_per_epoch == 1
    (plan,) = strategy.plans(4)
    check_blocks(plan, source)
    assert plan.epoch == 4
    assert plan.inputs.tolist() == list(range(graph.nodes))
    assert plan.targets.tolist() == plan.outputs.tolist() == [graph.nodes - 1]
    assert len(plan.blocks) == 3
    assert plan.blocks[0] is plan.blocks[1] is plan.blocks[2]
    assert plan.blocks[0].offsets is source.incoming.offsets
    assert plan.blocks[0].edge.tolist() == list(range(len(graph.pairs)))
