from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError, StarlingError
from starling.kernels.csr import Csr
from starling.plan.partitioning import PartitionRequest, partition_graph
from starling.plan.registry import make_strategy
from starling.plan.source import EdgeColumns, NeighbourSource, source_of_graph, source_of_shard
from starling.store.graph import Graph
from starling.store.parts import Parts, open_parts
from tests.plan.sources import draw_graph, in_words_of_positions
from tests.support.graphs import write_graph

DRAWN = draw_graph(60, 400, 9)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    attr = np.zeros((len(DRAWN.pairs), 2), np.float32)
    return write_graph(tmp_path / "graph", DRAWN.pairs, 60, edge_tables={"weight": DRAWN.weight, "attr": attr})


def cut(graph: Graph, hops: int, **request: object) -> Parts:
    asked = PartitionRequest.model_validate({"parts": 3, "method": "random", "halo_hops": hops, **request})
    partition_graph(graph, graph.path.parent / "parts", asked)
    return open_parts(graph.path.parent / "parts")


@pytest.mark.parametrize(
    "given",
    [{}, {"fanouts": "3,2"}, {"fanouts": "3,2", "sampling": "weighted"}, {"fanouts": "5,5", "sampling": "layerwise"}],
    ids=str,
)
def test_a_part_samples_what_the_whole_graph_does(graph: Graph, given: dict[str, object]) -> None:
    """For the same targets: the same neighbours, in the same order, by the same edges."""
    whole, parts = source_of_graph(graph, weight="weight"), cut(graph, hops=2)
    for part in range(len(parts)):
        shard = parts.shard(part)
        piece = source_of_shard(shard, EdgeColumns("weight"))
        mine = np.arange(0, shard.owned, 2)
        here = make_strategy("mini", {**given, "batch_size": 5}, piece, mine, 2, 1)
        there = make_strategy("mini", {**given, "batch_size": 5}, whole, np.asarray(shard.position)[mine], 2, 1)
        for one, other in zip(here.plans(0), there.plans(0), strict=True):
            assert in_words_of_positions(one, piece) == in_words_of_positions(other, whole)


def test_a_row_without_its_list_is_no_row_without_neighbours(graph: Graph) -> None:
    shard = cut(graph, hops=1).shard(0)
    strategy = make_strategy("mini", {}, source_of_shard(shard), np.arange(shard.owned), 2)
    with pytest.raises(StarlingError, match="Partition with more --halo-hops"):
        strategy.plan(0, 0)


def test_a_vertex_cut_is_refused(graph: Graph) -> None:
    shard = cut(graph, hops=1, method="hdrf", keep_vertex_cut=True).shard(0)
    with pytest.raises(InputError, match="got a vertex-cut"):
        source_of_shard(shard)


def test_weights_follow_their_edges(graph: Graph) -> None:
    source = source_of_graph(graph, weight="weight")
    assert source.edge_weight is not None
    np.testing.assert_array_equal(source.edge_weight, DRAWN.weight[source.incoming.edge])
    np.testing.assert_array_equal(source.in_degree, np.bincount(DRAWN.pairs[:, 1], minlength=60))
    with pytest.raises(InputError, match="Expected one number an edge in the table 'attr'"):
        source_of_graph(graph, weight="attr")
    with pytest.raises(InputError, match="has no edge table 'wieght'"):
        source_of_graph(graph, weight="wieght")


def test_lists_that_point_outside_are_refused() -> None:
    lists = Csr(np.array([0, 1]), np.array([5], np.int32), np.zeros(1, np.int32))
    with pytest.raises(InputError, match=r"Expected node numbers in \[0, 2\), got 5"):
        NeighbourSource(lists, 2)
    fine = Csr(np.array([0, 1]), np.array([1], np.int32), np.zeros(1, np.int32))
    with pytest.raises(InputError, match="Expected one weight for each of 1 edges"):
        NeighbourSource(fine, 2, edge_weight=np.ones(2))
