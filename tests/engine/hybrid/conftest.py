"""A graph with every table that a model may read, and its parts, for tests that say nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from starling.store.graph import Graph
from tests.engine.hybrid.runs import small_graph, unequal_parts


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return unequal_parts(graph, tmp_path_factory.mktemp("parts"))
