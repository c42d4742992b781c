"""DGL graphs as raw graphs, by a stand-in with DGL's interface."""

from __future__ import annotations

import pytest
import torch

from starling.core.errors import InputError
from starling.stream.bridges.dgl import raw_from_dgl
from tests.support import dgl
from tests.support.raw import all_edges, all_rows


def test_graph_of_one_type() -> None:
    graph = dgl.graph(([0, 2, 1], [1, 0, 1]), num_nodes=4)
    graph.ndata["feat"] = torch.arange(4.0).view(4, 1)
    graph.ndata["label"] = torch.tensor([0, 1, 1, 0])
    graph.ndata["val_mask"] = torch.tensor([0, 1, 0, 0], dtype=torch.uint8)
    graph.ndata["year"] = torch.tensor([1, 2, 3, 4])
    graph.edata["w"] = torch.tensor([0.5, 1.5, 2.5])
    graph.edata["feat"] = torch.ones(3, 2)
    graph.edata["mood"] = torch.ones(3)
    raw = raw_from_dgl(graph)
    edges, rows = all_edges(raw.edges), all_rows(raw.tables[0])
    assert raw.nodes == 4
    assert (edges.source.tolist(), edges.destination.tolist()) == ([0, 2, 1], [1, 0, 1])
    assert edges.columns["weight"].tolist() == [0.5, 1.5, 2.5]
    assert edges.columns["attr"].shape == (3, 2)
    assert rows.columns["x"].tolist() == [[0], [1], [2], [3]]
    assert rows.columns["y"].tolist() == [0, 1, 1, 0]
    assert rows.columns["val"].tolist() == [False, True, False, False]
    assert rows.columns["year"].tolist() == [1, 2, 3, 4]
    assert raw.origin == {"library": "dgl", "left_out": "mood"}


def test_heterograph() -> None:
    edges = {("user", "rates", "film"): ([0, 1], [2, 0]), ("film", "follows", "film"): ([1], [0])}
    graph = dgl.heterograph(edges, {"user": 2, "film": 3})
    graph.nodes["film"].data["feat"] = torch.ones(3, 4)
    graph.nodes["user"].data["label"] = torch.tensor([[1], [0]])
    graph.edges["user", "rates", "film"].data["weight"] = torch.tensor([5.0, 4.0])
    raw = raw_from_dgl(graph)
    assert raw.node_types == ("film", "user")
    assert raw.edge_types == ("film__follows__film", "user__rates__film")
    drawn = all_edges(raw.edges)
    assert (drawn.source.tolist(), drawn.destination.tolist()) == ([1, 3, 4], [0, 2, 0])
    assert drawn.columns["type"].tolist() == [0, 1, 1]
    assert drawn.columns["weight"].tolist() == [1.0, 5.0, 4.0]
    assert all_rows(raw.tables[0]).columns["y"].tolist() == [-1, -1, -1, 1, 0]
    assert raw.tables[1].of_type == "film"


def test_user_ids() -> None:
    graph = dgl.graph(([0], [1]), num_nodes=2)
    graph.ndata["user_id"] = torch.tensor([70, 80])
    raw = raw_from_dgl(graph)
    assert all_edges(raw.edges).source.tolist() == [70]
    assert all_rows(raw.tables[0]).ids.tolist() == [70, 80]


def test_other_things_are_refused() -> None:
    with pytest.raises(InputError, match="Expected a DGL graph, got dict"):
        raw_from_dgl({})
