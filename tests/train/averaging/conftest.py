"""The graph of the tests of averaging, and its parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.engine.hybrid.runs import cut, small_graph
from tests.train.averaging.cases import PARTS


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with all tables, cut into one part and into five, of which one has no node and one no training node."""
    folder = tmp_path_factory.mktemp("average")
    graph = small_graph(folder / "g")
    draw = np.random.default_rng(7)
    owner = draw.choice([0, 1, 3, 4], 61, p=[0.2, 0.5, 0.2, 0.1])
    train = np.asarray(graph.node_table("train"))
    owner[train & (owner == 4)] = 3
    cut(graph, folder / "five", PARTS, owner)
    cut(graph, folder / "two-hops", PARTS, owner, halo_hops=2)
    cut(graph, folder / "one", 1, np.zeros(61, np.int64))
    return folder
