"""OGB datasets as raw graphs, by stand-ins of the library-agnostic form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.stream.bridges.ogb import raw_from_ogb
from tests.support.raw import all_edges, all_rows


class NodeDataset:
    """As ``ogb.nodeproppred.NodePropPredDataset``: one graph, its labels, index arrays for the split."""

    def __init__(self, graph: Any, labels: Any, split: Any, task_type: str = "multiclass classification") -> None:
        self.name, self.task_type = "ogbn-example", task_type
        self._item, self._split = (graph, labels), split

    def __getitem__(self, index: int) -> Any:
        assert index == 0
        return self._item

    def get_idx_split(self) -> Any:
        return self._split


class LinkDataset:
    """As ``ogb.linkproppred.LinkPropPredDataset``: the graph of training edges, and edges for the split."""

    name = "ogbl-example"

    def __init__(self, graph: Any, split: Any) -> None:
        self._graph, self._split = graph, split

    def __getitem__(self, index: int) -> Any:
        return self._graph

    def get_edge_split(self) -> Any:
        return self._split


SPLIT = {"train": np.array([0, 3]), "valid": np.array([1]), "test": np.array([2])}


def graph(**more: Any) -> dict[str, Any]:
    return {"edge_index": np.array([[0, 1], [1, 0]]), "edge_feat": None, "node_feat": None, "num_nodes": 4, **more}


def test_node_dataset() -> None:
    item = graph(node_feat=np.ones((4, 2), np.float32), edge_feat=np.ones((2, 8)), node_year=np.array([[1], [2], [3], [4]]))
    raw = raw_from_ogb(NodeDataset(item, np.array([[1.0], [0.0], [np.nan], [2.0]]), SPLIT))
    rows = all_rows(raw.tables[0]).columns
    assert rows["x"].shape == (4, 2)
    assert (rows["y"].dtype, rows["y"].tolist()) == (np.int64, [1, 0, -1, 2])
    assert [rows[name].tolist() for name in ("train", "val", "test")] == [
        [True, False, False, True],
        [False, True, False, False],
        [False, False, True, False],
    ]
    assert rows["node_year"].tolist() == [1, 2, 3, 4]
    assert all_edges(raw.edges).columns["attr"].shape == (2, 8)
    assert raw.origin == {"library": "ogb", "dataset": "ogbn-example"}


def test_several_labels_and_regression() -> None:
    several = raw_from_ogb(NodeDataset(graph(), np.array([[1, 0]] * 4), SPLIT, "binary classification"))
    assert all_rows(several.tables[0]).columns["y"].dtype == np.uint8
    real = raw_from_ogb(NodeDataset(graph(), np.array([[1.0], [2.0], [3.0], [4.0]]), SPLIT, "regression"))
    assert all_rows(real.tables[0]).columns["y"].dtype == np.float32


def test_node_dataset_of_several_types() -> None:
    item = {
        "edge_index_dict": {("author", "writes", "paper"): np.array([[0, 1], [1, 0]])},
        "edge_feat_dict": {},
        "node_feat_dict": {"paper": np.ones((2, 3), np.float32)},
        "num_nodes_dict": {"author": 2, "paper": 2},
        "node_year": {"paper": np.array([[2001], [2002]])},
        "edge_reltype": {("author", "writes", "paper"): np.array([[0], [0]])},
    }
    split = {"train": {"paper": np.array([1])}, "valid": {"paper": np.array([0])}, "test": {"paper": np.array([], np.int64)}}
    raw = raw_from_ogb(NodeDataset(item, {"paper": np.array([[5], [6]])}, split))
    assert raw.node_types == ("author", "paper")
    assert raw.edge_types == ("author__writes__paper",)
    assert all_edges(raw.edges).destination.tolist() == [3, 2]
    rows = all_rows(raw.tables[0]).columns
    assert rows["y"].tolist() == [-1, -1, 5, 6]
    assert rows["train"].tolist() == [False, False, False, True]
    own = all_rows(raw.tables[1]).columns
    assert (raw.tables[1].of_type, own["x"].shape, own["node_year"].tolist()) == ("paper", (2, 3), [2001, 2002])


def test_link_dataset() -> None:
    item = graph(edge_weight=np.array([[2], [2]]), node_feat=np.ones((4, 1)))
    split = {
        "train": {"edge": np.array([[0, 1]]), "weight": np.array([2])},
        "valid": {"edge": np.array([[1, 2]]), "edge_neg": np.array([[0, 3]]), "weight": np.array([5])},
        "test": {"edge": np.array([[2, 3]]), "edge_neg": np.array([[0, 2]]), "weight": np.array([6])},
    }
    edges = all_edges(raw_from_ogb(LinkDataset(item, split)).edges)
    assert edges.source.tolist() == [0, 1, 1, 2, 2, 3]  # training edges are there in both directions, so are the others
    assert edges.destination.tolist() == [1, 0, 2, 1, 3, 2]
    assert edges.columns["split"].tolist() == [0, 0, 1, 1, 2, 2]
    assert edges.columns["weight"].tolist() == [2, 2, 5, 5, 6, 6]


def test_link_datasets_written_otherwise() -> None:
    cited = graph(edge_index=np.array([[0, 1], [1, 2]]))
    part = {"source_node": np.array([3]), "target_node": np.array([0]), "target_node_neg": np.array([[1, 2]])}
    edges = all_edges(raw_from_ogb(LinkDataset(cited, {"train": part, "valid": part, "test": part})).edges)
    assert (edges.source.tolist(), edges.destination.tolist()) == ([0, 1, 3, 3], [1, 2, 0, 0])
    known = graph(edge_index=np.array([[0, 1], [1, 2]]), edge_reltype=np.array([[0], [7]]))
    part = {"head": np.array([2]), "relation": np.array([7]), "tail": np.array([3])}
    edges = all_edges(raw_from_ogb(LinkDataset(known, {"train": part, "valid": part, "test": part})).edges)
    assert edges.columns["type"].tolist() == [0, 7, 7, 7]


def test_other_things_are_refused() -> None:
    with pytest.raises(InputError, match="Expected an OGB node or link dataset"):
        raw_from_ogb([1, 2])
