"""Edges part by part: the splits, degrees and answers that one process has of them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.data.parts_source import open_parts_source
from starling.engine.source import SourceRequest, open_source
from starling.kernels.csr import Csr
from starling.plan.links.negatives import known_pairs
from starling.train.links.data import HeldEdges
from starling.train.links.edge_split import find_split
from starling.train.links.parts_edges import EdgesOfParts, complete_part, edges_by_part, held_by_part, training_parts
from starling.train.links.settings import LinkSettings
from starling.train.links.sources import all_edges, held_by, training_source
from tests.train.links.averaged import EMPTY, LONELY, PARTS, link_places

SPLITS: dict[str, LinkSettings] = {
    "random": LinkSettings(split="random"),
    "given": LinkSettings(),
    "time": LinkSettings(split="time", split_edges="70/15/15"),
}
REQUEST = SourceRequest(optional_tables=("type", "weight"))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return link_places(tmp_path_factory.mktemp("links"))


@pytest.mark.parametrize("before", [None, 30.0])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", SPLITS)
@pytest.mark.parametrize("name", ["undirected", "typed"])
def test_splits_and_degrees_are_those_of_one_process(
    places: dict[str, Any], name: str, kind: str, workers: int, before: float | None
) -> None:
    """Of halo nodes' lists too: whoever sees an edge knows its split."""
    graph, path, _ = places[name]
    request = SourceRequest(optional_tables=("type", "weight"), before=before)
    source = open_source(graph.path, request)
    held = held_by(source)
    rule = find_split(all_edges(source, held), SPLITS[kind], seed=4)
    expected = dict(zip(source.incoming.edge.tolist(), rule.of(held).tolist(), strict=True))
    alone = training_source(source, held, rule.trains(held))
    assert len(set(expected.values())) == (4 if kind == "time" else 3), "some pairs come again later, and are left out"

    def worker(team: Team) -> tuple[Any, ...]:
        parts = open_parts_source(path, team, request)
        mine = find_split(edges_by_part(parts), SPLITS[kind], seed=4)
        found: dict[int, int] = {}
        for part in parts.mine:
            pieces = [held_by_part(parts, part, halo=halo) for halo in (False, True)]
            for piece in pieces:
                found |= dict(zip(piece.lists.edge.tolist(), mine.of(piece).tolist(), strict=True))
            assert len(pieces[0].lists.edge) <= len(pieces[1].lists.edge)
        return mine.sizes, mine.training, found, training_parts(parts, mine), parts.parts

    told = run_threads(workers, worker)
    union: dict[int, int] = {}
    for sizes, _, found, training, parts in told:
        assert sizes == rule.sizes
        assert all(expected[number] == split for number, split in found.items())
        union |= found
        position = np.asarray(parts.position_of_global)
        np.testing.assert_array_equal(training.kept.degree, alone.degree.numpy()[position])
        if name == "undirected":
            np.testing.assert_allclose(training.weighted_degree, alone.weighted_degree.numpy()[position], rtol=1e-6)
    assert union == expected
    sizes_of_parts = [count for _, counts, *_ in told for count in counts]
    assert len(sizes_of_parts) == PARTS
    assert sum(sizes_of_parts) == rule.sizes["train"]
    assert sizes_of_parts[EMPTY] == 0
    if kind == "given":
        assert sizes_of_parts[LONELY] == 0


@pytest.mark.parametrize("name", ["undirected", "typed"])
def test_pairs_are_looked_up_in_the_parts_of_their_destinations(places: dict[str, Any], name: str) -> None:
    graph, path, _ = places[name]
    held = held_by(open_source(graph.path, REQUEST))
    known = known_pairs(held.lists, held.position)
    one, other = (grid.reshape(-1) for grid in np.meshgrid(np.arange(60), np.arange(60)))
    found = EdgesOfParts(open_parts_source(path, Team(), REQUEST))(one, other)
    np.testing.assert_array_equal(found, known.holds(other, one))
    assert 0 < found.sum() < len(found)


def lists_of(*neighbours: list[int]) -> HeldEdges:
    offsets = np.concatenate([[0], np.cumsum([len(some) for some in neighbours])])
    flat = np.array([node for some in neighbours for node in some], np.int64)
    return HeldEdges(Csr(offsets, flat, np.arange(len(flat))), np.arange(10), None, 10, True, lambda _name: flat)


def test_complete_parts_by_hand() -> None:
    """Numbers from the number of lists on are halo nodes, and do not count."""
    assert complete_part(lists_of([1, 2, 5], [0, 2, 6], [1, 0, 0]))
    assert not complete_part(lists_of([1, 2, 5], [0, 5, 6], [1, 0, 0]))
    assert not complete_part(lists_of([1, 2], [0], [1, 0]))
    assert complete_part(lists_of([7, 8])), "one node has no pair"
    assert complete_part(lists_of([]))


def test_nobody_has_edges_of_an_empty_part(places: dict[str, Any]) -> None:
    held = held_by_part(open_parts_source(places["typed"][1], Team(), REQUEST), EMPTY)
    assert held.lists.rows == len(held.lists.edge) == 0
    assert held.linked_to_all() == 0
