"""NetworkX graphs as raw graphs."""

from __future__ import annotations

import networkx as nx
import pytest

from starling.core.errors import InputError
from starling.stream.bridges.networkx import raw_from_networkx
from starling.stream.raw import RawGraph
from tests.support.raw import all_edges, all_rows


def pairs(raw: RawGraph) -> list[tuple[object, object]]:
    edges = all_edges(raw.edges)
    ends = [end.tolist() for end in (edges.source, edges.destination)]
    return list(zip(*ends, strict=True))


def test_undirected_edges_stand_in_both_directions() -> None:
    raw = raw_from_networkx(nx.Graph([(0, 1), (1, 2), (2, 2)]))
    assert sorted(pairs(raw)) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)]
    assert raw.tables == ()


def test_directed_and_repeated_edges_stand_as_they_are() -> None:
    assert pairs(raw_from_networkx(nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)]))) == [(0, 1), (0, 1), (1, 0)]


def test_weights_and_what_is_left_out() -> None:
    graph = nx.DiGraph()
    graph.add_edge(0, 1, weight=2.5, type="likes")
    graph.add_edge(1, 0, type="hates", note="why?")
    raw = raw_from_networkx(graph)
    edges = all_edges(raw.edges)
    assert edges.columns["weight"].tolist() == [2.5, 1.0]
    assert edges.columns["type"].to_pylist() == ["likes", "hates"]
    assert raw.origin == {"library": "networkx", "left_out": "note"}


def test_names_of_any_kind_become_ids() -> None:
    numbers = raw_from_networkx(nx.DiGraph([(30, 10), (10, 20)]))
    assert pairs(numbers) == [(30, 10), (10, 20)]
    assert all_rows(numbers.tables[0]).ids.tolist() == [30, 10, 20]
    mixed = raw_from_networkx(nx.DiGraph([("ann", (1, 2)), ((1, 2), -3)]))
    assert all_edges(mixed.edges).destination.to_pylist() == ["(1, 2)", "-3"]
    assert mixed.tables[0].defines_nodes
    with pytest.raises(InputError, match="both called '1'"):
        raw_from_networkx(nx.Graph([(1, "1")]))


def test_node_attributes() -> None:
    graph = nx.Graph([(0, 1), (1, 2)])
    attributes = [
        {"x": [1.0, 2.0], "label": "cat", "train": True, "ragged": [1], "rare": 1, "size": 3},
        {"x": [3.0, 4.0], "train": False, "ragged": [1, 2], "size": 4},
        {"x": [5.0, 6.0], "label": "dog", "ragged": [1], "size": 5},
    ]
    for node, row in enumerate(attributes):
        graph.nodes[node].update(row)
    raw = raw_from_networkx(graph)
    columns = all_rows(raw.tables[0]).columns
    assert columns["x"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert columns["y"].to_pylist() == ["cat", None, "dog"]
    assert columns["train"].tolist() == [True, False, False]
    assert columns["size"].tolist() == [3, 4, 5]
    assert raw.origin["left_out"] == "ragged, rare"


@pytest.mark.parametrize(("y", "none"), [(4, "-1"), (0.5, "nan")])
def test_missing_labels(y: float, none: str) -> None:
    graph = nx.Graph([(0, 1)])
    graph.nodes[1]["y"] = y
    assert [str(value) for value in all_rows(raw_from_networkx(graph).tables[0]).columns["y"].tolist()] == [none, str(y)]


def test_other_things_are_refused() -> None:
    with pytest.raises(InputError, match="Expected a NetworkX graph, got list"):
        raw_from_networkx([(0, 1)])
