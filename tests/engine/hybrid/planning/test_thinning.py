"""A thinned layer's sums are over the edges that its neighbour lists have, and lists are made only for those that read them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.layers.split_edges import PeerEdges, split_within_parts
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.engine.hybrid.planning.all_nodes import TeamGlobal
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.chances import weighted_chances
from starling.engine.hybrid.planning.steps import TeamTask
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph
from starling.kernels.adjacency import Adjacency
from starling.kernels.sampling import Taken
from starling.nn.later_graph import LaterGraph
from starling.store.parts import open_parts
from starling.train.setup import set_up
from starling.train.work import TeamWork
from tests.engine.hybrid.runs import config_of, cut, learn_together, small_graph

NODES, PARTS = 40, 4
Edges = Counter[tuple[int, int, float]]
"""(source, destination, scale), by position in the imported graph."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = small_graph(tmp_path_factory.mktemp("graph") / "g", nodes=NODES)
    return cut(graph, tmp_path_factory.mktemp("cut"), PARTS, np.random.default_rng(6).integers(0, PARTS, NODES))


def pairs(lists: Adjacency, rows: np.ndarray, first: int, position: np.ndarray, scale: Any) -> Edges:
    destination = np.repeat(rows, np.diff(lists.offsets))
    scales = np.broadcast_to(scale, len(destination)).tolist()
    return Counter(zip(position[first + lists.neighbours].tolist(), position[destination].tolist(), scales, strict=True))


def summed(layer: WorkerLayer, graph: WorkerGraph) -> Edges:
    """Edges of the split, forward; backward must be the same ones."""
    split, position = layer.edges.split(numbered=False), graph.position[layer.rows]
    found = pairs(split.inner, np.arange(layer.outputs), 0, position, 1.0)
    blocks: list[tuple[PeerEdges, int]] = [(edges, layer.traffic.mirrors_of(peer).start) for peer, edges in split.peers.items()]
    for edges, first in [*blocks, *([(split.between, 0)] if split.between else [])]:
        found += (mine := pairs(edges.forward, edges.rows, first, position, edges.scale))
        sources = np.repeat(np.arange(edges.backward.rows), np.diff(edges.backward.offsets))
        turned = zip(position[first + sources].tolist(), position[edges.backward.neighbours].tolist(), strict=True)
        assert Counter(turned) == Counter((source, destination) for source, destination, _ in mine.elements())
    return found


def listed(layer: WorkerLayer, graph: WorkerGraph) -> Edges:
    block, position = layer.edges.block, graph.position[layer.rows]
    destination = np.repeat(np.arange(block.destinations), np.diff(block.offsets))
    assert block.edge_scale is not None
    return Counter(
        zip(position[block.neighbours].tolist(), position[destination].tolist(), block.edge_scale.tolist(), strict=True)
    )


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(("chance", "weighted"), [(0.0, False), (0.25, False), (0.5, False), (0.5, True)])
def test_sums_are_over_the_listed_edges(parts: Path, workers: int, chance: float, weighted: bool) -> None:
    def layers(team: Team) -> list[tuple[WorkerLayer, WorkerGraph]]:
        graph = open_worker_graph(open_parts(parts), team.rank, team.size)
        chances = weighted_chances(graph, team, chance, Calls(0, Channel.SETUP).next_tag()) if weighted else None
        task = TeamTask(graph, team, np.arange(graph.owned), 1, 3, Boundary(graph, chance, 3, chances), Calls(0, Channel.SETUP))
        strategy = TeamGlobal(task)
        return [(strategy.plan(epoch, 0).layers[0], graph) for epoch in (1, 2)]

    whole: list[Edges] = [Counter(), Counter()]
    for worker in run_threads(workers, layers):
        for epoch, (layer, graph) in enumerate(worker):
            edges = summed(layer, graph)
            assert edges == listed(layer, graph)
            assert layer.edges.count == edges.total() == len(layer.edges.block.neighbours)
            assert layer.traffic.rows == len(layer.rows)
            whole[epoch] += edges
    scales = {scale for _, _, scale in whole[0]}
    if weighted:
        assert min(scales) == 1 < max(scales)
        assert len(scales) > 10
    else:
        assert scales == ({1.0} if chance == 0 else {1.0, 1 / chance})
    assert (whole[0] != whole[1]) == (chance > 0)


def test_edges_between_own_parts_lie_apart() -> None:
    """Own rows 0, 1 in part 0 and 2 in part 1; row 3 is worker 1's. Row 0 hears 1, 2, 3; row 2 hears 0, 2."""
    traffic = make_traffic(3, [np.empty(0, np.int64)] * 2, [0, 1])
    lists = np.array([0, 3, 3, 5]), np.array([1, 2, 3, 0, 2], np.int32)
    split = split_within_parts(*lists, traffic, np.array([0, 0, 1], np.int32))
    assert (split.inner.offsets.tolist(), split.inner.neighbours.tolist()) == ([0, 1, 1, 2], [1, 2])
    assert split.between is not None
    assert (split.between.rows.tolist(), split.between.forward.neighbours.tolist()) == ([0, 2], [2, 0])
    assert split.between.forward.offsets.tolist() == [0, 1, 2]
    assert list(split.peers) == [1]


def test_lists_of_what_is_left_are_made_once(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are read by edge number, in the forward pass out of a split and elsewhere out of the graph: both from one list."""
    made, real = list[int](), Boundary.thin

    def counted(self: Boundary, taken: Taken, rows: NDArray[Any], epoch: int) -> Taken:
        made.append(epoch)
        return real(self, taken, rows, epoch)

    monkeypatch.setattr(Boundary, "thin", counted)
    model = {"name": "gcn", "hidden": 4, "edge_weights": True}
    learn_together(config_of(parts, 2, model, boundary=0.5, reuse=False, epochs=2), tmp_path / "run")
    assert sorted(made) == [1, 1, 2, 2]  # by each of two workers, in each epoch


@pytest.mark.parametrize(("model", "lists"), [({"name": "gcn", "hidden": 4}, False), ({"name": "gat", "hidden": 4}, True)])
def test_only_what_reads_neighbour_lists_makes_them(parts: Path, model: dict[str, Any], lists: bool) -> None:
    def made(team: Team) -> list[bool]:
        setup = set_up(config_of(parts, team.size, model, boundary=0.5, reuse=False), team)
        assert isinstance(setup.work, TeamWork)
        batch = next(iter(setup.work.batches(1)))
        setup.model(batch.views, batch.x).sum().backward()
        graphs = [view.graph for view in batch.views]
        assert all(isinstance(graph, LaterGraph) for graph in graphs)
        return ["listed" in graph.__dict__ for graph in graphs]

    assert run_threads(2, made) == [[lists, lists]] * 2
