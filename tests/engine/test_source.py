"""A graph directory and its parts are the same source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.engine.source import SourceRequest, open_source
from starling.plan.partitioning import PartitionRequest, partition_graph
from tests.support.trainable import trainable_graph


@pytest.mark.parametrize(
    ("method", "keep_vertex_cut", "hops"), [("random", False, 1), ("random", False, 2), ("hdrf", False, 1), ("hdrf", True, 1)]
)
def test_parts_give_what_the_graph_gives(method: str, keep_vertex_cut: bool, hops: int, tmp_path: Path) -> None:
    weight, attr = np.random.default_rng(0).random(300), np.random.default_rng(1).random((300, 2))
    graph = trainable_graph(tmp_path / "g", edge_tables={"weight": weight.astype(np.float32), "attr": attr.astype(np.float32)})
    request = PartitionRequest(parts=3, method=method, halo_hops=hops, keep_vertex_cut=keep_vertex_cut)
    partition_graph(graph, tmp_path / "p", request)
    wanted = SourceRequest(edge_tables=("weight", "attr"))
    whole, parts = open_source(tmp_path / "g", wanted), open_source(tmp_path / "p", wanted)
    for name in ("offsets", "neighbours", "edge"):
        np.testing.assert_array_equal(getattr(whole.incoming, name), getattr(parts.incoming, name))
    np.testing.assert_array_equal(whole.x, parts.x)
    np.testing.assert_array_equal(whole.y, parts.y)  # type: ignore[arg-type]
    assert whole.splits.keys() == parts.splits.keys()
    for name, rows in whole.splits.items():
        np.testing.assert_array_equal(rows, parts.splits[name])
    for name in ("weight", "attr"):
        np.testing.assert_array_equal(whole.edge_tables[name], parts.edge_tables[name])
    np.testing.assert_array_equal(whole.weighted_degree, parts.weighted_degree)  # type: ignore[arg-type]


def test_degrees_by_hand(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g", edge_tables={"weight": np.arange(300, dtype=np.float32)})
    source = open_source(tmp_path / "g", SourceRequest(edge_tables=("weight",)))
    into = graph.edges[:, 1] == 7
    assert source.degree[7] == into.sum()
    assert source.weighted_degree is not None
    assert source.weighted_degree[7] == np.arange(300)[into].sum()


def test_the_edges_come_back_in_imported_order(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g")
    (block,) = open_source(tmp_path / "g", SourceRequest()).edge_stream().blocks()
    np.testing.assert_array_equal(block.pairs, graph.edges)


def test_features_beyond_the_budget_stay_on_disk(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    small, large = (open_source(tmp_path / "g", SourceRequest(feature_bytes=size)) for size in (60 * 8 * 4 - 1, 60 * 8 * 4))
    assert small.features._file is not None  # type: ignore[attr-defined]
    assert large.features._file is None  # type: ignore[attr-defined]
    np.testing.assert_array_equal(small.x, large.x)


def test_refused(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g")
    partition_graph(graph, tmp_path / "p", PartitionRequest(parts=2, method="random", halo_hops=0))
    with pytest.raises(InputError, match="zero halo hops"):
        open_source(tmp_path / "p", SourceRequest())
    with pytest.raises(InputError, match="no edge table 'weight'"):
        open_source(tmp_path / "g", SourceRequest(edge_tables=("weight",)))


def test_a_graph_without_features_has_rows_of_no_numbers(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "bare", without=("x",))
    source = open_source(tmp_path / "bare", SourceRequest())
    assert source.x.shape == (60, 0)
    assert source.features.rows(np.array([3, 1])).shape == (2, 0)


def test_earlier_edges_keep_their_numbers(tmp_path: Path) -> None:
    """Edge 7 stays edge 7 although edges before it in the file are left out, and edges stream in imported order."""
    time = np.random.default_rng(3).integers(0, 10, 300)
    graph = trainable_graph(tmp_path / "g", edge_tables={"time": time})
    source = open_source(tmp_path / "g", SourceRequest(before=4))
    kept = np.flatnonzero(time <= 4)
    assert sorted(source.incoming.edge.tolist()) == kept.tolist()
    np.testing.assert_array_equal(source.incoming.neighbours, np.asarray(graph.edges)[source.incoming.edge, 0])
    (block,) = source.edge_stream().blocks()
    np.testing.assert_array_equal(block.pairs, np.asarray(graph.edges)[kept])
