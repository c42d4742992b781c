"""Graphs of other libraries written to disk and read back as that library's graphs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import starling
from starling.core.errors import InputError
from starling.store.graph import create_graph
from starling.stream.arrays import ArrayEdges
from starling.stream.bridges.columns import quiet
from starling.stream.ingest import ImportOptions
from starling.stream.raw import RawGraph
from tests.support import dgl
from tests.support.pyg import Data, HeteroData

quick = settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "graph"


def same(one: Any, other: Any) -> None:
    """Two PyG stores hold the same tensors under the same names."""
    assert set(one.keys()) == set(other.keys())
    for name in one.keys():  # noqa: SIM118
        a, b = one[name], other[name]
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype, name
            a, b = (value.to_dense() if value.layout != torch.strided else value for value in (a, b))
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        else:
            assert a == b, name


@st.composite
def datas(draw: st.DrawFn) -> Data:
    nodes, edges, seed = draw(st.integers(1, 12)), draw(st.integers(1, 30)), draw(st.integers(0, 2**32))
    generator = torch.Generator().manual_seed(seed)
    data = Data(edge_index=torch.randint(nodes, (2, edges), generator=generator), num_nodes=nodes)
    part = torch.randint(4, (nodes,), generator=generator)
    extras = {
        "x": torch.randn(nodes, 3, generator=generator),
        "y": torch.randint(-1, 3, (nodes,), generator=generator),
        "train_mask": part == 0,
        "val_mask": part == 1,
        "test_mask": part == 2,
        "time": torch.randint(100, (nodes,), generator=generator),
        "age": torch.randint(100, (nodes, 2), generator=generator),
        "node_type": torch.randint(3, (nodes,), generator=generator),
        "edge_weight": torch.rand(edges, generator=generator),
        "edge_attr": torch.randn(edges, 2, generator=generator),
        "edge_type": torch.randint(3, (edges,), generator=generator),
        "edge_time": torch.rand(edges, generator=generator, dtype=torch.float64),
        "edge_split": torch.randint(3, (edges,), generator=generator),
    }
    for name in draw(st.lists(st.sampled_from(sorted(extras)), unique=True)):
        data[name] = extras[name]
    return data


@quick
@given(data=datas())
def test_pyg_data_comes_back(data: Data, place: Path) -> None:
    same(starling.to_pyg(starling.from_pyg(data, place, force=True)), data)


def test_pyg_labels_of_several_classes_and_sparse_features_come_back(place: Path) -> None:
    with quiet():  # torch says once that such matrices are new
        x = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]]).to_sparse_csr()
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    data = Data(x=x, y=y, edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    same(starling.to_pyg(starling.from_pyg(data, place)), data)


def test_pyg_ids_come_back(place: Path) -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    for ids in (torch.tensor([2**40, 7, 100]), ["ann", "bob", "cécile"]):
        data = Data(edge_index=pairs, num_nodes=3, user_id=ids)
        same(starling.to_pyg(starling.from_pyg(data, place, force=True)), data)


@st.composite
def hetero_datas(draw: st.DrawFn) -> HeteroData:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    data = HeteroData()
    counts = {
        kind: draw(st.integers(1, 6)) for kind in draw(st.lists(st.sampled_from(["b", "a", "c"]), min_size=1, unique=True))
    }
    for kind, count in counts.items():
        data[kind].num_nodes = count
        if draw(st.booleans()):
            data[kind].x = torch.randn(count, draw(st.integers(1, 2)), generator=generator)
    labelled = draw(st.sampled_from(sorted(counts)))
    data[labelled].y = torch.randint(0, 3, (counts[labelled],), generator=generator)
    data[labelled].train_mask = torch.ones(counts[labelled], dtype=torch.bool)
    relations = st.tuples(st.sampled_from(sorted(counts)), st.sampled_from(["to", "rev_to"]), st.sampled_from(sorted(counts)))
    for head, relation, tail in draw(st.lists(relations, min_size=1, max_size=4, unique=True)):
        edges = draw(st.integers(1, 5))
        ends = [torch.randint(counts[kind], (edges,), generator=generator) for kind in (head, tail)]
        data[head, relation, tail].edge_index = torch.stack(ends)
    return data


@quick
@given(data=hetero_datas())
def test_pyg_hetero_data_comes_back(data: HeteroData, place: Path) -> None:
    back = starling.to_pyg(starling.from_pyg(data, place, force=True))
    assert (back.node_types, back.edge_types) == (data.node_types, data.edge_types)
    for kind in (*data.node_types, *data.edge_types):
        same(back[kind], data[kind])


def test_an_edge_type_without_edges_comes_back(place: Path) -> None:
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 2, 1
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [0, 0]])
    data["b", "to", "a"].edge_index = torch.zeros(2, 0, dtype=torch.long)
    back = starling.to_pyg(starling.from_pyg(data, place))
    assert back.edge_types == data.edge_types
    assert back["b", "to", "a"].edge_index.shape == (2, 0)


def test_relations_between_several_types_come_apart(place: Path) -> None:
    data = Data(
        edge_index=torch.tensor([[0, 0, 2], [1, 2, 0]]), edge_type=torch.tensor([1, 1, 0]), node_type=torch.tensor([0, 0, 1])
    )
    data.num_nodes = 3
    graph = starling.from_pyg(data, place)
    named = starling.Graph(graph.path, graph.manifest.model_copy(update={"node_types": ("p", "q")}))
    back = starling.to_pyg(named)
    assert back.edge_types == [("q", "0", "p"), ("p", "1", "p"), ("p", "1", "q")]
    assert back["p", "1", "q"].edge_index.tolist() == [[0], [0]]


def test_dgl_graphs_come_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dgl", dgl)
    graph = dgl.graph(([0, 2, 1], [1, 0, 1]), num_nodes=4)
    graph.ndata.update(feat=torch.randn(4, 2), label=torch.tensor([0, -1, 1, 0]), user_id=torch.tensor([5, 6, 7, 8]))
    graph.ndata.update({f"{name}_mask": torch.arange(4) == k for k, name in enumerate(("train", "val", "test"))})
    graph.edata.update(weight=torch.rand(3), feat=torch.rand(3, 2), _TYPE=torch.tensor([0, 1, 0]))
    back = starling.to_dgl(starling.from_dgl(graph, place))
    same(back.ndata, graph.ndata)
    same(back.edata, graph.edata)
    assert [end.tolist() for end in back.all_edges("uv", "eid", ("_N", "_E", "_N"))] == [[0, 2, 1], [1, 0, 1]]

    hetero = dgl.heterograph({("u", "r", "v"): ([0, 1], [0, 0]), ("v", "s", "v"): ([0], [0])}, {"u": 2, "v": 1})
    hetero.nodes["u"].data["feat"] = torch.randn(2, 3)
    hetero.nodes["v"].data["label"] = torch.tensor([1])
    back = starling.to_dgl(starling.from_dgl(hetero, place, force=True))
    for kind in hetero.ntypes:
        same(back.nodes[kind].data, hetero.nodes[kind].data)
    for kind in hetero.canonical_etypes:
        assert [end.tolist() for end in back.all_edges("uv", "eid", kind)] == [
            end.tolist() for end in hetero.all_edges("uv", "eid", kind)
        ]


def test_missing_libraries_are_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = starling.from_scipy(sp.csr_array(np.eye(2)), place)
    for package, function in (
        ("dgl", starling.to_dgl),
        ("networkx", starling.to_networkx),
        ("scipy.sparse", starling.to_scipy),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(InputError, match=f"needs the package '{package.partition('.')[0]}'"):
            function(graph)


names = st.one_of(st.integers(0, 2**40), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5))


@quick
@given(
    ends=st.lists(st.tuples(names, names), min_size=1, max_size=12),
    kind=st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]),
    weighted=st.booleans(),
)
def test_networkx_graphs_come_back(ends: list[Any], kind: Any, weighted: bool, place: Path) -> None:
    if not all(isinstance(name, int) for pair in ends for name in pair):
        ends = [tuple(str(name) for name in pair) for pair in ends]
    graph = kind()
    graph.add_node(ends[0][0])
    for number, (u, v) in enumerate(ends):
        graph.add_edge(u, v, **({"weight": number / 4} if weighted else {}))
    for number, node in enumerate(graph):
        graph.nodes[node].update(y=number % 2, x=np.array([float(number)]), train=number == 0)
    back = starling.to_networkx(starling.from_networkx(graph, place, force=True))
    assert list(back.nodes) == list(graph.nodes)
    for node, attributes in graph.nodes(data=True):
        assert {name: np.asarray(value).tolist() for name, value in back.nodes[node].items()} == {
            name: np.asarray(value).tolist() for name, value in attributes.items()
        }
    if graph.is_directed() == back.is_directed():
        assert edge_list(back) == edge_list(graph)
    else:  # a directed graph in which every edge has its reverse counts as undirected
        assert edge_list(back.to_directed()) == edge_list(graph)


def edge_list(graph: Any) -> list[Any]:
    direction = tuple if graph.is_directed() else frozenset
    return sorted((sorted(map(str, direction((u, v)))), str(sorted(data.items()))) for u, v, data in graph.edges(data=True))


def test_networkx_types_come_back_by_name(place: Path) -> None:
    graph = nx.DiGraph()
    graph.add_node("a", type="person")
    graph.add_node("b", type="dog")
    graph.add_edge("a", "b", type="owns")
    back = starling.to_networkx(starling.from_networkx(graph, place))
    assert dict(back.nodes(data=True)) == {"a": {"type": "person"}, "b": {"type": "dog"}}
    assert list(back.edges(data=True)) == [("a", "b", {"type": "owns"})]


def test_networkx_keeps_inverse_relations_apart(place: Path) -> None:
    raw = RawGraph(edges=ArrayEdges((np.array([1]), np.array([0])), {"type": np.array([0])}, name="edges"), nodes=2)
    back = starling.to_networkx(create_graph(raw, place, ImportOptions(inverse=True)))
    assert sorted((u, v, data["type"]) for u, v, data in back.edges(data=True)) == [(0, 1, 1), (1, 0, 0)]


@quick
@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 20), weighted=st.booleans())
def test_scipy_matrices_come_back(seed: int, nodes: int, weighted: bool, place: Path) -> None:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((nodes, nodes)) < 0.3, rng.random((nodes, nodes)) if weighted else 1, 0).astype(np.float32)
    dense[0, -1] = 1
    back = starling.to_scipy(starling.from_scipy(sp.csr_matrix(dense), place, force=True))
    np.testing.assert_array_equal(back.toarray(), dense)
