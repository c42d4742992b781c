"""Invariant 1 for whatever made the parts: losses and gradients of every step are those of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.partition.registry import METHODS
from starling.plan.partitioning import PartitionRequest, partition_graph
from starling.store.graph import Graph, open_graph
from starling.store.parts import open_parts
from tests.engine.hybrid.runs import config_of, cut, small_graph, steps
from tests.support.graphs import write_graph

GCN: dict[str, Any] = {"name": "gcn", "hidden": 6, "norm": "batch", "edge_weights": True}
GAT: dict[str, Any] = {"name": "gat", "hidden": 6, "heads": 2}
MAX: dict[str, Any] = {"name": "sage", "hidden": 6, "aggregate": "max"}
MINI: dict[str, Any] = {"name": "mini", "batch_size": 15}
VERTEX_CUTS = ("grid", "dbh", "greedy", "hdrf", "2ps-l")
"""Methods that deal out edges; their parts are tested as they are, not made into edge-cuts."""
PACKAGES = {"metis": "pymetis", "kaminpar": "kaminpar", "mtkahypar": "mtkahypar", "louvain": "igraph", "leiden": "igraph"}


def check(graph: Graph, parts: Path, workers: int, model: dict[str, Any], strategy: dict[str, Any] | None = None) -> None:
    alone = steps(config_of(graph.path, 1, model, strategy))
    assert np.abs(alone[:, 1:]).max() > 1e-3
    np.testing.assert_allclose(steps(config_of(parts, workers, model, strategy)), alone, rtol=2e-4, atol=2e-6)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.mark.parametrize("method", METHODS)
def test_every_partitioner(graph: Graph, tmp_path: Path, method: str) -> None:
    if method in PACKAGES:
        pytest.importorskip(PACKAGES[method])
    keep = method in VERTEX_CUTS
    request = PartitionRequest(parts=6 if method == "grid" else 5, method=method, seed=2, keep_vertex_cut=keep)
    partition_graph(graph, tmp_path / "parts", request)
    assert open_parts(tmp_path / "parts").manifest.kind == ("vertex-cut" if keep else "edge-cut")
    model = GAT if keep else GCN
    check(graph, tmp_path / "parts", 2, model)
    check(graph, tmp_path / "parts", 4, model, MINI)


@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
def test_a_hub_isolated_nodes_loops_and_one_way_edges(tmp_path: Path, kind: str) -> None:
    """Node 0 hears from all and speaks to few; 40 to 44 have no edge; one worker owns nothing that trains."""
    nodes, draw = 45, np.random.default_rng(8)
    star = [(node, 0) for node in range(1, 40)] + [(0, node) for node in range(3)]
    pairs = np.array(star + draw.integers(0, 40, (60, 2)).tolist() + [(5, 5), (6, 7), (6, 7)])
    y = draw.integers(0, 3, nodes)
    tables = {
        "x": draw.normal(size=(nodes, 5)).astype(np.float32),
        "y": y,
        "train": np.arange(nodes) % 2 == 0,
        "test": np.arange(nodes) % 2 == 1,
    }
    tables["train"][30:35] = False
    graph = _labelled(tmp_path / "g", pairs, nodes, tables)
    owner = np.arange(nodes) // 10
    owner[30:35], owner[35:] = 3, 1
    edge_part = draw.choice([0, 1, 3, 4], len(pairs)) if kind == "vertex-cut" else None
    parts = cut(graph, tmp_path / "cut", 5, owner, edge_part)
    model = {"name": "gcn", "hidden": 6, "norm": "batch"}
    check(graph, parts, 5, model)
    check(graph, parts, 3, MAX, MINI)


def _labelled(path: Path, pairs: np.ndarray, nodes: int, tables: dict[str, Any]) -> Graph:
    from starling.core.manifest import Labels

    graph = write_graph(path, pairs, nodes, node_tables=tables)
    graph.manifest.model_copy(update={"labels": Labels(kind="single", classes=3, labelled=nodes)}).seal(path)
    return open_graph(path)


@pytest.mark.parametrize("hops", [2, 3])
def test_farther_hops_of_parts_are_left_alone(graph: Graph, tmp_path: Path, hops: int) -> None:
    owner = np.random.default_rng(1).integers(0, 4, graph.manifest.nodes)
    parts = cut(graph, tmp_path / "cut", 4, owner, halo_hops=hops)
    check(graph, parts, 2, GCN)
    check(graph, parts, 4, GAT, MINI)


def test_edges_without_their_owners_and_owners_without_edges(graph: Graph, tmp_path: Path) -> None:
    """In a vertex-cut part 1 owns all nodes and part 0 has all edges; part 2 has nothing; two workers share four parts."""
    owner, edge_part = np.ones(graph.manifest.nodes, np.int32), np.zeros(graph.manifest.edges, np.int32)
    owner[9], edge_part[:3] = 3, 3
    parts = cut(graph, tmp_path / "cut", 4, owner, edge_part)
    for workers, model in ((2, MAX), (3, GAT), (4, {"name": "rgcn", "hidden": 6})):
        check(graph, parts, workers, model)
