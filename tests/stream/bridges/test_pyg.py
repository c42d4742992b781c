"""PyG objects as raw graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from starling.core.errors import InputError
from starling.stream.bridges.columns import quiet
from starling.stream.bridges.pyg import raw_from_pyg
from starling.stream.raw import CsrRows
from tests.support.pyg import Data, HeteroData
from tests.support.raw import all_edges, all_rows

PAIRS = torch.tensor([[0, 1, 3], [1, 2, 0]])


def test_data() -> None:
    data = Data(
        x=torch.arange(8.0).view(4, 2),
        y=torch.tensor([1, 0, -1, 2]),
        train_mask=torch.tensor([True, False, False, True]),
        edge_index=PAIRS,
        edge_attr=torch.tensor([[0.5], [1.5], [2.5]]),
        edge_weight=torch.tensor([1.0, 2.0, 3.0]),
        edge_type=torch.tensor([0, 1, 0]),
        edge_time=torch.tensor([7, 8, 9]),
        year=torch.tensor([1990, 1991, 1992, 1993]),
        flavour=torch.tensor([1, 2, 3]),
        name="example",
    )
    raw = raw_from_pyg(data)
    edges, rows = all_edges(raw.edges), all_rows(raw.tables[0])
    assert raw.nodes == 4
    assert (edges.source.tolist(), edges.destination.tolist()) == ([0, 1, 3], [1, 2, 0])
    assert edges.columns["attr"].tolist() == [[0.5], [1.5], [2.5]]
    assert {role: edges.columns[role].tolist() for role in ("weight", "type", "time")} == {
        "weight": [1.0, 2.0, 3.0],
        "type": [0, 1, 0],
        "time": [7, 8, 9],
    }
    assert {name: column.tolist() for name, column in rows.columns.items()} == {
        "x": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "y": [1, 0, -1, 2],
        "train": [True, False, False, True],
        "year": [1990, 1991, 1992, 1993],
    }
    assert raw.origin == {"library": "torch_geometric", "left_out": "flavour, name"}


def test_nodes_are_counted_where_nothing_else_tells() -> None:
    raw = raw_from_pyg(Data(edge_index=PAIRS))
    assert raw.nodes == 4
    assert raw.tables == ()
    with pytest.raises(InputError, match="how many nodes"):
        raw_from_pyg(Data())


def test_labels_come_in_three_kinds() -> None:
    labels = {
        "several": torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
        "column": torch.tensor([[3], [4]]),
        "real": torch.tensor([0.5, 2.0], dtype=torch.float64),
    }
    found = {}
    for name, y in labels.items():
        data = Data(x=torch.ones(2, 1), y=y, edge_index=torch.tensor([[0], [1]]))
        found[name] = all_rows(raw_from_pyg(data).tables[0]).columns["y"]
    assert (found["several"].dtype, found["several"].tolist()) == (np.uint8, [[1, 0], [1, 1]])
    assert (found["column"].dtype, found["column"].tolist()) == (np.int64, [3, 4])
    assert (found["real"].dtype, found["real"].tolist()) == (np.float32, [0.5, 2.0])


def test_the_first_of_several_splits_is_taken() -> None:
    masks = torch.tensor([[True, False], [False, True]])
    raw = raw_from_pyg(Data(x=torch.ones(2, 1), train_mask=masks, edge_index=torch.tensor([[0], [1]])))
    assert all_rows(raw.tables[0]).columns["train"].tolist() == [True, False]


def test_sparse_and_half_precision_features() -> None:
    edge_index = torch.tensor([[0], [1]])
    sparse = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    x = all_rows(raw_from_pyg(Data(x=sparse, edge_index=edge_index, num_nodes=2)).tables[0]).columns["x"]
    assert isinstance(x, CsrRows)
    assert (x.offsets.tolist(), x.columns.tolist(), x.values.tolist(), x.width) == ([0, 1, 2], [1, 0], [2.0, 3.0], 2)
    half = raw_from_pyg(Data(x=torch.tensor([[0.5], [1.5]], dtype=torch.bfloat16), edge_index=edge_index))
    assert all_rows(half.tables[0]).columns["x"].tolist() == [[0.5], [1.5]]


def test_a_transposed_adjacency_matrix_is_edges() -> None:
    with quiet():  # torch says once that such matrices are new
        adj_t = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]).to_sparse_csr()
    edges = all_edges(raw_from_pyg(Data(adj_t=adj_t, num_nodes=3)).edges)
    assert (edges.source.tolist(), edges.destination.tolist()) == ([1, 2], [0, 1])  # row = destination
    assert edges.columns["weight"].tolist() == [2.0, 3.0]


def test_user_ids_come_back() -> None:
    raw = raw_from_pyg(Data(x=torch.ones(4, 1), edge_index=PAIRS, user_id=torch.tensor([10, 20, 30, 40])))
    edges, rows = all_edges(raw.edges), all_rows(raw.tables[0])
    assert (edges.source.tolist(), edges.destination.tolist()) == ([10, 20, 40], [20, 30, 10])
    assert rows.ids.tolist() == [10, 20, 30, 40]
    assert raw.tables[0].defines_nodes
    named = raw_from_pyg(Data(edge_index=PAIRS, num_nodes=4, user_id=["a", "b", "c", "d"]))
    assert all_edges(named.edges).source.to_pylist() == ["a", "b", "d"]
    with pytest.raises(InputError, match="each of the 4 nodes, got 2"):
        raw_from_pyg(Data(edge_index=PAIRS, num_nodes=4, user_id=["a", "b"]))


def two_types() -> HeteroData:
    data = HeteroData()
    data["paper"].x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    data["paper"].y = torch.tensor([1, 0])
    data["paper"].train_mask = torch.tensor([True, False])
    data["author"].x = torch.tensor([[5.0], [6.0], [7.0]])
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 2], [1, 0]])
    data["author", "writes", "paper"].edge_weight = torch.tensor([0.5, 0.25])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return data


def test_hetero_data() -> None:
    raw = raw_from_pyg(two_types())
    assert raw.nodes == 5
    assert raw.node_types == ("paper", "author")
    assert raw.edge_types == ("author__writes__paper", "paper__cites__paper")
    edges = all_edges(raw.edges)
    assert edges.source.tolist() == [2, 4, 0]  # authors are nodes 2, 3, 4
    assert edges.destination.tolist() == [1, 0, 1]
    assert edges.columns["type"].tolist() == [0, 0, 1]
    assert edges.columns["weight"].tolist() == [0.5, 0.25, 1.0]
    whole, papers, authors = raw.tables
    rows = all_rows(whole)
    assert rows.columns["type"].tolist() == [0, 0, 1, 1, 1]
    assert rows.columns["y"].tolist() == [1, 0, -1, -1, -1]
    assert rows.columns["train"].tolist() == [True, False, False, False, False]
    assert (papers.of_type, authors.of_type) == ("paper", "author")
    assert all_rows(papers).columns["x"].shape == (2, 2)
    assert all_rows(authors).columns["x"].tolist() == [[5.0], [6.0], [7.0]]
    assert raw.edges.place(2) == "edge 0 of ('paper', 'cites', 'paper')"


def test_features_of_one_width_are_one_table() -> None:
    data = two_types()
    data["author"].x = torch.zeros(3, 2)
    raw = raw_from_pyg(data)
    assert len(raw.tables) == 1
    assert all_rows(raw.tables[0]).columns["x"].tolist() == [[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]


def test_hetero_data_that_makes_no_sense_is_refused() -> None:
    data = two_types()
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 3], [1, 0]])
    with pytest.raises(InputError, match=r"Expected ends in \[0, 3\) of type 'author' in .*, got 3"):
        raw_from_pyg(data)
    data = two_types()
    data["author"].y = torch.tensor([0, 1, 0])
    with pytest.raises(InputError, match="labels on one node type, got them on paper and author"):
        raw_from_pyg(data)
    data = two_types()
    data["editor", "edits", "paper"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(InputError, match="'editor', which has no nodes"):
        raw_from_pyg(data)
    with pytest.raises(InputError, match="Expected a PyG Data or HeteroData, got list"):
        raw_from_pyg([1, 2])


@pytest.mark.parametrize(("name", "what"), [("y", "5 nodes"), ("train_mask", "5 nodes"), ("edge_weight", "3 edges")])
def test_columns_of_another_length_are_refused(name: str, what: str) -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=5)
    data[name] = torch.ones(4)
    with pytest.raises(InputError, match=f"Expected a row of {name} for each of {what}, got 4"):
        raw_from_pyg(data)


@pytest.mark.parametrize("name", ["weight", "time"])
def test_edge_columns_of_a_type_too(name: str) -> None:
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = 3
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data["a", "to", "b"][name] = torch.ones(5)
    with pytest.raises(InputError, match=f"Expected a row of {name} for each of 2 edges, got 5"):
        raw_from_pyg(data)
