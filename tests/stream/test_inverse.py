"""Inverse relations on import, features of one node type from files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.store.graph import Graph, create_graph
from starling.stream.bridges.typed import EdgeSet, NodeSet, typed_graph
from starling.stream.ingest import ImportOptions
from starling.stream.inverse import inverse_names
from starling.stream.readers.open import open_inputs


def imported(tmp_path: Path, text: str, **options: Any) -> Graph:
    (tmp_path / "edges.csv").write_text(text)
    raw = open_inputs([str(tmp_path / "edges.csv")], memory=1 << 28)
    return create_graph(raw, tmp_path / "graph", ImportOptions(**options))


def test_every_edge_gets_an_inverse(tmp_path: Path) -> None:
    graph = imported(tmp_path, "src,dst,relation,weight\n0,1,cites,0.5\n2,0,reads,2\n1,1,cites,3\n", inverse=True)
    assert graph.manifest.edge_types == ("cites", "reads", "rev_cites", "rev_reads")
    assert graph.edges.tolist() == [[0, 1], [2, 0], [1, 1], [1, 0], [0, 2], [1, 1]]
    assert np.asarray(graph.edge_table("type")).tolist() == [0, 1, 0, 2, 3, 2]
    assert np.asarray(graph.edge_table("weight")).tolist() == [0.5, 2, 3, 0.5, 2, 3]
    assert not graph.manifest.directed
    assert graph.manifest.counts.reverses_added == 3


def test_numbers_and_triples(tmp_path: Path) -> None:
    graph = imported(tmp_path, "src,dst,type\n0,1,0\n2,0,2\n", inverse=True)
    assert np.asarray(graph.edge_table("type")).tolist() == [0, 2, 3, 5]
    assert graph.manifest.edge_types == ()
    assert inverse_names(["author__writes__paper", "knows"])[2:] == ("paper__rev_writes__author", "rev_knows")


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need a type for every edge"):
        imported(tmp_path, "src,dst\n0,1\n", inverse=True)
    with pytest.raises(InputError, match="go both ways have no inverse"):
        imported(tmp_path, "src,dst,type\n0,1,a\n", inverse=True, direction="undirected")
    with pytest.raises(InputError, match="'rev_a' is there already"):
        imported(tmp_path, "src,dst,type\n0,1,a\n1,0,rev_a\n", inverse=True)


def test_features_of_one_type_from_files(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("src,dst,type\nann,p1,writes\nbob,p2,writes\np1,p2,cites\n")
    (tmp_path / "nodes.csv").write_text("id,type\nann,author\nbob,author\np1,paper\np2,paper\n")
    np.save(tmp_path / "papers.npy", np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    (tmp_path / "authors.csv").write_text("id,age\nbob,40\nann,30\n")
    files = {"author": str(tmp_path / "authors.csv"), "paper": str(tmp_path / "papers.npy")}

    def opened(**types: str) -> Any:
        return open_inputs(
            [str(tmp_path / "edges.csv")], nodes=str(tmp_path / "nodes.csv"), type_features=types, memory=1 << 28
        )

    graph = create_graph(opened(**files), tmp_path / "graph")
    assert graph.manifest.node_types == ("author", "paper")
    assert np.asarray(graph.node_table("x@paper")).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.asarray(graph.node_table("x@author")).tolist() == [[30], [40]]
    with pytest.raises(InputError, match=r"nodes of type 'papers', which is no known type. Did you mean 'paper'"):
        create_graph(opened(papers=files["paper"]), tmp_path / "other")
    np.save(tmp_path / "papers.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"Expected 2 rows in .*one for each node of type 'paper', got 3"):
        create_graph(opened(paper=files["paper"]), tmp_path / "other")


def test_types_that_contradict_one_another() -> None:
    authors, papers = NodeSet("author", 2, {}), NodeSet("paper", 2, {})
    with pytest.raises(InputError, match="names the node type 'venue', which has no nodes"):
        typed_graph([authors, papers], [EdgeSet(("author", "to", "venue"), np.array([0]), np.array([0]), {})], {})
    with pytest.raises(InputError, match=r"ends in \[0, 2\) of type 'paper'.*got 5"):
        typed_graph([authors, papers], [EdgeSet(("author", "to", "paper"), np.array([0]), np.array([5]), {})], {})


@pytest.mark.filterwarnings("ignore")
def test_an_edge_table_of_the_wrong_length(tmp_path: Path) -> None:
    import torch
    from torch_geometric.data import HeteroData

    import starling

    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 2, 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 0]])
    data["a", "to", "b"].edge_attr = torch.zeros(3, 1)
    with pytest.raises(InputError, match="a row of edge_attr for each of 2 edges, got 3"):
        starling.from_pyg(data, tmp_path / "graph")
