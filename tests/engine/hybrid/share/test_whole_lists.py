"""Whole lists out of a vertex-cut: by hand, against the edge-cut of the same owners, and trained on as one process trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.times import no_later
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.share import whole_lists
from starling.engine.hybrid.share.source import recounted, whole_exchange
from starling.engine.hybrid.share.whole_lists import gather_lists
from starling.engine.hybrid.share.worker_graph import WorkerGraph, open_worker_graph
from starling.store.graph import Graph
from starling.store.parts import Parts
from starling.train.setup import set_up
from starling.train.work import TeamWork
from tests.engine.hybrid.runs import Learnt, assert_same, config_of, cut, learn_together, small_graph
from tests.support.parts import Case, build

PAIRS = np.array([[0, 1], [2, 1], [4, 1], [5, 4], [1, 4], [3, 0]])
OWNER = np.array([0, 0, 1, 2, 2, 3], np.int32)
EDGE_PART = np.array([0, 1, 2, 3, 1, 0], np.uint16)


def gathered(parts: Parts, workers: int, column: str = "weight") -> list[tuple[WorkerGraph, np.ndarray]]:
    """What each worker has after all have sent their edges, and an edge table beside it."""

    def work(team: Team) -> tuple[WorkerGraph, np.ndarray]:
        graph, _ = gather_lists(open_worker_graph(parts, team.rank, team.size), team, Calls(0, Channel.SETUP))
        return graph, graph.edge_column(column)

    return run_threads(workers, work)


def test_two_workers_by_hand(tmp_path: Path) -> None:
    """The owner of nodes 0, 1, 2 had edges 0, 1, 4 and 5 and now has 0, 1, 2 and 5, so that it hears of 4, too, and not of 1's."""
    (first, weight), (second, its_weight) = gathered(build(Case(6, PAIRS, 4, OWNER, EDGE_PART), tmp_path), 2)
    assert (first.spread, first.owned, first.incoming.rows) == (False, 3, 3)
    assert heard(first) == {0: [3], 1: [0, 2, 4], 2: []}
    assert heard(second) == {3: [], 4: [5, 1], 5: []}
    assert by_node(first) == {0: [5], 1: [0, 1, 2], 2: []}
    assert by_node(second) == {3: [], 4: [3, 4], 5: []}
    assert weight.tolist() == [first_weight(edge) for edge in first.incoming.edge]
    assert its_weight.tolist() == [first_weight(edge) for edge in second.incoming.edge]
    assert first.position[first.owned :].tolist() == [3, 4]
    assert second.position[second.owned :].tolist() == [1]
    assert second.in_degree[second.owned :].tolist() == [3]
    assert second.position[second.traffic.send[0]].tolist() == [3, 4]
    rows, hearing = second.heard_by[0]  # both are part 2's, and the part of nodes 0 and 1 hears of them
    assert (second.position[rows].tolist(), hearing.tolist()) == ([3, 4], [0, 0])


def first_weight(edge: int) -> float:
    """A quarter of an edge's number, as cases have it."""
    return edge / 4


def heard(graph: WorkerGraph) -> dict[int, list[int]]:
    lists, position = graph.incoming, graph.position
    return {
        int(position[row]): position[lists.neighbours[lists.offsets[row] : lists.offsets[row + 1]]].tolist()
        for row in range(lists.rows)
    }


def by_node(graph: WorkerGraph) -> dict[int, list[int]]:
    lists = graph.incoming
    return {
        int(graph.position[row]): lists.edge[lists.offsets[row] : lists.offsets[row + 1]].tolist() for row in range(lists.rows)
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_edge_cut_of_the_same_owners(tmp_path: Path, seed: int) -> None:
    """With empty parts, self-loops and parallel edges; every worker's rows may stand in another order."""
    draw = np.random.default_rng(seed)
    nodes, count = 25, 70
    pairs, owner = draw.integers(0, nodes, (count, 2)), draw.choice([0, 1, 3, 4, 6], nodes).astype(np.int32)
    pieces = Case(nodes, pairs, 7, owner, draw.integers(0, 7, count).astype(np.uint16))
    in_pieces, whole = build(pieces, tmp_path / "pieces"), build(replace(pieces, edge_part=None), tmp_path / "whole")
    for workers in (1, 2, 4, 7):
        found = [graph for graph, _ in gathered(in_pieces, workers)]
        expected = [open_worker_graph(whole, worker, workers) for worker in range(workers)]
        for one, other in zip(found, expected, strict=True):
            _check_same(one, other)
        _check_traffic(found)


def _check_same(found: WorkerGraph, expected: WorkerGraph) -> None:
    assert by_node(found) == by_node(expected)
    assert heard(found) == heard(expected)
    there, here = (np.argsort(graph.position) for graph in (expected, found))
    for name in ("position", "in_degree", "part"):
        assert np.array_equal(getattr(found, name)[here], getattr(expected, name)[there]), name
    assert (found.looped is None) == (expected.looped is None)
    if found.looped is not None and expected.looped is not None:
        assert np.array_equal(found.looped[here], expected.looped[there])
    for mine, theirs in zip(found.heard_by, expected.heard_by, strict=True):
        assert _by_position(found, *mine) == _by_position(expected, *theirs)


def _by_position(graph: WorkerGraph, rows: np.ndarray, hearing: np.ndarray) -> list[tuple[int, int]]:
    return sorted(zip(graph.position[rows].tolist(), hearing.tolist(), strict=True))


def _check_traffic(graphs: Sequence[WorkerGraph]) -> None:
    """What one sends the other mirrors, in the same order; who hears is told by part of the row, part that hears, and row."""
    for worker, graph in enumerate(graphs):
        for other, peer in enumerate(graphs):
            assert np.array_equal(graph.position[graph.traffic.send[other]], peer.position[peer.traffic.mirrors_of(worker)])
            rows, hearing = graph.heard_by[other]
            assert np.array_equal(np.lexsort((rows, hearing, graph.part[rows])), np.arange(len(rows)))


def test_edges_that_are_not_there_yet_do_not_come(tmp_path: Path) -> None:
    """What is left out beforehand stays out, and columns are still read for those that are left."""
    case = Case(6, PAIRS, 4, OWNER, EDGE_PART)
    parts = build(case, tmp_path)

    def work(team: Team) -> tuple[dict[int, list[int]], list[float], list[int]]:
        graph, calls = open_worker_graph(parts, team.rank, team.size), Calls(0, Channel.SETUP)
        until = graph.only(no_later(graph.edge_column("weight"), 0.8))
        until = recounted(until, whole_exchange(team, graph, calls))
        later, _ = gather_lists(until, team, calls)
        assert later.kept is not None
        return by_node(later), later.edge_column("weight").tolist(), later.in_degree[: later.owned].tolist()

    (edges, weights, degrees), (others, their_weights, _) = run_threads(2, work)
    assert edges == {0: [], 1: [0, 1, 2], 2: []}
    assert weights == [0.0, 0.25, 0.5]
    assert sorted(degrees) == [0, 0, 3]
    assert others == {3: [], 4: [3], 5: []}
    assert their_weights == [0.75]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, dict[str, Path]]:
    """A graph and its parts by the same owners: the edge-cut, and a vertex-cut with edges anywhere."""
    folder = tmp_path_factory.mktemp("made")
    graph, draw = small_graph(folder / "g", nodes=40, times=True), np.random.default_rng(6)
    owner, edge_part = draw.integers(0, 4, 40), draw.integers(0, 4, graph.manifest.edges)
    return graph, {
        "whole": cut(graph, folder / "whole", 4, owner),
        "pieces": cut(graph, folder / "pieces", 4, owner, edge_part),
    }


GCN: dict[str, Any] = {"name": "gcn", "hidden": 6, "dropout": 0.3}
MINI: dict[str, Any] = {"name": "mini", "batch_size": 10}
RUNS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (GCN, {"name": "global"}, {"boundary": 0.5}),
    (GCN, {"name": "global"}, {"boundary": 0.4, "boundary_choice": "weighted"}),
    ({"name": "gat", "hidden": 6, "heads": 2}, {"name": "global"}, {"boundary": 0.0}),
    ({"name": "sage", "hidden": 6, "edge_weights": True}, MINI | {"fanouts": [3, 2]}, {"boundary": 0.5}),
    ({"name": "rgcn", "hidden": 6}, MINI | {"fanouts": "*:2,1"}, {}),
    ({"name": "gate", "hidden": 6, "heads": 2}, MINI | {"fanouts": [3, 2], "sampling": "weighted"}, {}),
    (GCN, {"name": "cohesive", "clusters_per_batch": 2}, {"balance_workers": True}),
]


@pytest.mark.parametrize(
    ("model", "strategy", "team", "workers"),
    [(*run, workers) for run in RUNS for workers in (1, 2, 4) if workers > 1 or "boundary" in run[2]],
)
def test_runs_are_those_of_the_edge_cut(
    made: tuple[Graph, dict[str, Path]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    model: dict[str, Any],
    strategy: dict[str, Any],
    team: dict[str, Any],
    workers: int,
) -> None:
    """What boundaries and fan-outs leave out is keyed by nodes and parts, so that it is the same on both cuts."""
    _, parts = made
    whole, pieces = (
        learn_together(config_of(parts[name], workers, model, strategy, **team), tmp_path / name)
        for name in ("whole", "pieces")
    )
    for seen in pieces:
        assert_same(seen, whole[0])
    (line,) = (record.getMessage() for record in caplog.records if "is a vertex-cut" in record.getMessage())
    assert str(parts["pieces"]) in line
    assert "whole ones: edges go to the owners of their destinations" in line


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("choice", ["even", "weighted"])
def test_parts_hear_of_what_is_there_at_a_time(
    made: tuple[Graph, dict[str, Path]], tmp_path: Path, choice: str, workers: int
) -> None:
    """Of neighbours whose edges are all later nothing is sent: on the edge-cut as shards tell it, too."""

    def learnt(kind: str, workers: int, run: str) -> Learnt:
        config = config_of(made[1][kind], workers, GCN, {"name": "global"}, boundary=0.5, boundary_choice=choice)
        then = config.model_copy(update={"data": config.data.model_copy(update={"before": 3})})
        return learn_together(then, tmp_path / run)[0]

    alone = learnt("whole", 1, "alone")
    for kind in made[1]:
        assert_same(learnt(kind, workers, kind), alone)


def test_what_a_team_cannot_do_is_said_before_lists_move(
    made: tuple[Graph, dict[str, Path]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strategy = MINI | {"fanouts": [3, 3], "sampling": "layerwise"}
    with pytest.raises(InputError, match="Layer-wise sampling"):
        learn_together(config_of(made[1]["pieces"], 2, GCN, strategy), tmp_path / "run")
    assert not caplog.records


def test_many_messages_are_as_good_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two edges at a time, and workers have unequally many to send."""
    draw = np.random.default_rng(1)
    case = Case(12, draw.integers(0, 12, (40, 2)), 3, draw.integers(0, 3, 12).astype(np.int32), np.zeros(40, np.uint16))
    parts = build(case, tmp_path)
    expected = gathered(parts, 3)
    monkeypatch.setattr(whole_lists, "AT_ONCE", 2)
    for (one, column), (other, its_column) in zip(gathered(parts, 3), expected, strict=True):
        assert by_node(one) == by_node(other)
        assert heard(one) == heard(other)
        assert np.array_equal(column, its_column)


def test_sums_leave_a_vertex_cut_as_it_is(made: tuple[Graph, dict[str, Path]], caplog: pytest.LogCaptureFixture) -> None:
    def is_spread(team: Team) -> bool:
        work = set_up(config_of(made[1]["pieces"], 2, GCN), team).work
        assert isinstance(work, TeamWork)
        return work.whole.source.graph.spread

    assert run_threads(2, is_spread) == [True, True]
    assert not caplog.records
