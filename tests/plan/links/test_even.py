"""Target edges split evenly: equal counts, as few moves as can, nothing lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.plan.links.even import even_moves, even_pairs
from starling.plan.links.pairs import Contrast, SharedContrast, StepPairs, TargetEdges


def test_moves_by_hand() -> None:
    """7, 0, 3 and 1 edges: 11 are three for each, but for the one with fewest, who gets two."""
    moves = even_moves(np.array([7, 0, 3, 1]))
    assert moves.tolist() == [[0, 2, 0, 2], [0] * 4, [0] * 4, [0] * 4]
    assert even_moves(np.array([2, 3, 2])).tolist() == [[0] * 3] * 3
    assert even_moves(np.array([0, 0])).tolist() == [[0, 0], [0, 0]]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_counts_become_equal_by_as_few_moves_as_can(counts: list[int]) -> None:
    have = np.array(counts)
    moves = even_moves(have)
    after = have - moves.sum(1) + moves.sum(0)
    assert after.max() - after.min() <= 1
    assert after.sum() == have.sum()
    low, high = have.sum() // len(have), -(-have.sum() // len(have))
    fewest = max(np.maximum(have - high, 0).sum(), np.maximum(low - have, 0).sum())  # what any even split has to move
    assert moves.sum() == fewest


def step(count: int, kind: str, first: int) -> StepPairs:
    """Edges numbered from `first`, everything about them told by their numbers."""
    number = first + np.arange(count)
    relation = number % 3 if kind != "pairs" else None
    edges = TargetEdges(number, number + 1000, number + 2000, np.arange(count), relation)
    if kind == "shared":
        none = np.empty((count, 0), np.int64)
        return StepPairs(edges, Contrast(none, none.astype(bool), shared=SharedContrast(np.array([5, 6]), number % 2 == 0)))
    node = number[:, None] * 10 + np.arange(2)
    return StepPairs(edges, Contrast(node, node % 3 == 0, node + 7 if kind == "pairs" else None))


def words(drawn: StepPairs) -> list[tuple[Any, ...]]:
    edges, contrast = drawn.edges, drawn.contrast
    columns: list[NDArray[Any] | None] = [edges.source, edges.destination, edges.relation, contrast.node, contrast.at_source]
    columns += [contrast.other, None if contrast.shared is None else contrast.shared.at_source]
    return [tuple(np.asarray(c[i]).tolist() if c is not None else None for c in columns) for i in range(len(edges))]


@pytest.mark.parametrize("kind", ["uniform", "pairs", "shared"])
@pytest.mark.parametrize("counts", [[9, 0, 2], [4, 4, 4], [0, 0, 5], [0, 0, 0]])
def test_edges_move_with_what_stands_against_them(kind: str, counts: Sequence[int]) -> None:
    """Also from and to workers that have none: three workers hold, in turn, edges 0 …, 100 …, 200 …"""
    drawn = [step(count, kind, 100 * rank) for rank, count in enumerate(counts)]

    def work(team: Team) -> StepPairs:
        return even_pairs(drawn[team.rank], np.array(counts), team.rank, lambda lists: team.swap_lists(1, lists))

    found = run_threads(3, work)
    sizes = [len(one.edges) for one in found]
    assert max(sizes) - min(sizes) <= 1
    for rank, one in enumerate(found):
        stays = min(sizes[rank], counts[rank])
        assert words(one)[:stays] == words(drawn[rank])[:stays]
    assert sorted(word for one in found for word in words(one)) == sorted(word for one in drawn for word in words(one))
