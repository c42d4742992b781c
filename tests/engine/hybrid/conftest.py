"""A graph with every table that a model may read, and its parts, for tests that say nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.store.graph import Graph
from tests.engine.hybrid.runs import cut, small_graph, unequal_parts
from tests.support.trainable import trainable_graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return unequal_parts(graph, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def band(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty nodes in a row, each joined to the next five; parts are tens of them, so that blocks of five touch one cut at most."""
    folder = tmp_path_factory.mktemp("band")
    ends = np.concatenate([np.stack([np.arange(30 - step), np.arange(step, 30)], axis=1) for step in range(1, 6)])
    graph = trainable_graph(folder / "graph", nodes=30, edges=np.concatenate([ends, ends[:, ::-1]]), without=("val",))
    return cut(graph, folder, 3, np.arange(30) // 10, locality=np.arange(30, dtype=np.int32))
