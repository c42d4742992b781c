"""Several machines without a shared disk: a worker needs the manifest and its own shards, and no file of anybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.core.errors import InputError
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share import gathered_edges as module
from starling.engine.hybrid.share.gathered_edges import gathered_edges
from starling.engine.hybrid.share.worker_graph import open_worker_graph
from starling.store.graph import Graph
from starling.store.parts import open_parts
from tests.engine.hybrid.runs import assert_identical, config_of, cut, learn, learn_together, own_copy, small_graph

PARTS = 5
GCN: dict[str, Any] = {"name": "gcn", "hidden": 6, "dropout": 0.3}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    draw, folder = np.random.default_rng(3), tmp_path_factory.mktemp("cut")
    owner, edge_part = draw.integers(0, PARTS, graph.manifest.nodes), draw.integers(0, PARTS, graph.manifest.edges)
    return {
        "edge-cut": cut(graph, folder / "edge", PARTS, owner),
        "vertex-cut": cut(graph, folder / "vertex", PARTS, owner, edge_part),
    }


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        ("edge-cut", {"name": "mini", "batch_size": 20, "fanouts": [3, 2]}),
        ("vertex-cut", {"name": "cluster", "clusters": 5, "clusters_per_step": 2}),
    ],
)
def test_own_shards_are_enough(parts: dict[str, Path], tmp_path: Path, kind: str, strategy: dict[str, Any]) -> None:
    together = learn_together(config_of(parts[kind], 2, GCN, strategy), tmp_path / "shared")
    copies = [own_copy(parts[kind], tmp_path / f"machine-{rank}", [rank], 2) for rank in range(2)]
    apart = run_threads(2, lambda team: learn(team, config_of(copies[team.rank], 2, GCN, strategy), tmp_path / "apart"))
    for found, expected in zip(apart, together, strict=True):
        assert_identical(found, expected)


@pytest.mark.parametrize("local_only", [False, True])
def test_own_shards_are_enough_for_batches_of_ones_own(parts: dict[str, Path], tmp_path: Path, local_only: bool) -> None:
    """--parallel data: neighbours and rows of the other machine are asked for."""
    mini, more = {"name": "mini", "batch_size": 20, "fanouts": [3, 2]}, {"parallel": "data", "local_only": local_only}
    together = learn_together(config_of(parts["edge-cut"], 2, GCN, mini, **more), tmp_path / "shared")
    copies = [own_copy(parts["edge-cut"], tmp_path / f"machine-{rank}", [rank], 2) for rank in range(2)]
    apart = run_threads(2, lambda team: learn(team, config_of(copies[team.rank], 2, GCN, mini, **more), tmp_path / "apart"))
    for found, expected in zip(apart, together, strict=True):
        assert_identical(found, expected)


def test_a_missing_own_shard_is_named(parts: dict[str, Path], tmp_path: Path) -> None:
    copy = own_copy(parts["edge-cut"], tmp_path / "machine", [0], 2)
    with pytest.raises(InputError, match="part-00004 is missing"):
        open_parts(copy, [0, 4])
    with pytest.raises(InputError, match="is missing, its manifest says"):
        open_parts(copy)


@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
@pytest.mark.parametrize("workers", [1, 3])
def test_gathered_edges_are_the_graphs(
    graph: Graph, parts: dict[str, Path], kind: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In imported order, from blocks that do not divide them evenly."""
    monkeypatch.setattr(module, "BLOCK", 37)

    def work(team: Any) -> list[Any] | None:
        share = open_worker_graph(open_parts(parts[kind]), team.rank, team.size)
        with gathered_edges(share, team, Calls(0)) as edges:
            return None if edges is None else [block.pairs for block in edges.blocks(50)]

    first, *others = run_threads(workers, work)
    assert first is not None
    np.testing.assert_array_equal(np.concatenate(first), np.load(graph.path / "edges.npy"))
    assert others == [None] * (workers - 1)
