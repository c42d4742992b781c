"""Rows that go on block by block: the same numbers as with whole layers, in whatever order messages come."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from starling.comm.in_process import ThreadMailbox, run_threads
from starling.comm.team import Team
from starling.engine.hybrid import released
from starling.engine.hybrid.block_work import BlockWork
from starling.nn.row_work import Node, RowWork
from starling.store.graph import Graph
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, learn, learn_together

MODELS: dict[str, dict[str, Any]] = {
    "gcn of three layers": {"name": "gcn", "layers": 3, "hidden": 8, "dropout": 0.3},
    "gcn that widens": {"name": "gcn", "layers": 3, "hidden": 24, "dropout": 0.0},
    "gcn with layer norm": {"name": "gcn", "layers": 3, "hidden": 8, "norm": "layer", "activation": "elu"},
    "weighted gcn": {"name": "gcn", "layers": 2, "hidden": 8, "edge_weights": True, "input_dropout": 0.2},
    "sage of three layers": {"name": "sage", "layers": 3, "hidden": 8, "dropout": 0.2},
    "sage that widens": {"name": "sage", "layers": 3, "hidden": 24},
    "gin": {"name": "gin", "layers": 3, "hidden": 8, "dropout": 0.1},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "global": {"name": "global"},
    "mini": {"name": "mini", "batch_size": 20},
    "sampled": {"name": "mini", "batch_size": 20, "fanouts": [3, 2, 2]},
    "cluster": {"name": "cluster", "clusters": 5, "clusters_per_step": 2, "boundary_hops": 1},
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Blocks of five rows; gives the numbers of blocks that were released."""
    counts: list[int] = []
    monkeypatch.setattr(released, "BLOCK_ROWS", 5)
    real = BlockWork.begin

    def begin(self: BlockWork, *given: Any, **more: Any) -> None:
        counts.append(self.count)
        real(self, *given, **more)

    monkeypatch.setattr(BlockWork, "begin", begin)
    yield counts


def strategy_of(name: str, model: dict[str, Any]) -> dict[str, Any]:
    how = STRATEGIES[name]
    return {**how, "fanouts": how["fanouts"][: model["layers"]]} if "fanouts" in how else how


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", MODELS)
def test_blocks_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, few_rows: list[int], model: str, strategy: str, workers: int
) -> None:
    settings, how = MODELS[model], strategy_of(strategy, MODELS[model])
    (alone,) = learn_together(config_of(graph.path, 1, settings, how), tmp_path / "alone")
    assert not few_rows
    for seen in learn_together(config_of(parts["edge-cut"], workers, settings, how), tmp_path / "team"):
        assert_same(seen, alone)
    assert max(few_rows) > 1
