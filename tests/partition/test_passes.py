"""Passes give every edge once, in order, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given

from starling.core.errors import InputError
from starling.core.progress import Task
from starling.partition.passes import count_connections, edge_blocks, pair_blocks
from starling.stream.edges import EdgeBlock, EdgesInMemory
from tests.support.tiny import connections, degrees, directed, stored, streams, undirected


class InThrees(EdgesInMemory):
    """A stream that comes three edges at a time."""

    def blocks(self, size: int = 3) -> Iterator[EdgeBlock]:
        return super().blocks(3)


@given(streams())
def test_blocks_are_the_stream(edges: EdgesInMemory) -> None:
    cut = InThrees(edges._pairs, edges.nodes, directed=edges.directed)
    assert [tuple(row) for block in edge_blocks(cut, "reading") for row in block.tolist()] == stored(edges)
    assert [tuple(row) for block in pair_blocks(cut, "reading") for row in block.tolist()] == connections(edges)
    assert count_connections(cut).tolist() == degrees(edges)


def test_connections_and_degrees_by_hand() -> None:
    there_and_back = undirected([(1, 0), (0, 2), (2, 2)], 4)
    assert connections(there_and_back) == [(0, 1), (0, 2)]
    assert count_connections(there_and_back).tolist() == [2, 1, 2, 0]
    one_way = directed([(1, 0), (0, 1), (2, 2)], 3)
    assert connections(one_way) == [(1, 0), (0, 1)]
    assert count_connections(one_way).tolist() == [2, 2, 2]


@pytest.mark.parametrize("pair", [(0, 3), (3, 0), (-1, 0), (0, 1 << 33)])
def test_a_number_that_is_no_node_is_refused(pair: tuple[int, int]) -> None:
    edges = directed([(0, 1), (1, 2), pair], 3)
    with pytest.raises(InputError, match=r"in \[0, 3\), got .* as edge 2"):
        list(edge_blocks(edges, "reading"))


def test_blocks_are_contiguous_int32() -> None:
    edges = EdgesInMemory(np.asfortranarray(np.array([[0, 1], [1, 0]], np.int64)), 2, directed=True)
    (block,) = edge_blocks(edges, "reading")
    assert block.dtype == np.int32
    assert block.flags.c_contiguous


def test_progress_counts_stored_edges() -> None:
    seen: list[tuple[str, int | None, int]] = []

    class Watched:
        @contextmanager
        def task(self, name: str, total: int | None = None, unit: str = "edges") -> Iterator[Task]:
            class Counting:
                done = 0

                def advance(self, amount: int) -> None:
                    self.done += amount

            task = Counting()
            yield task
            seen.append((name, total, task.done))

    edges = undirected([(0, 1), (1, 2), (2, 2)], 3)
    list(pair_blocks(edges, "clustering", Watched()))
    assert seen == [("clustering", 5, 5)]


def test_an_interrupted_pass_ends_its_reader() -> None:
    blocks = edge_blocks(InThrees(np.zeros((30, 2), np.int32), 1, directed=True), "reading")
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(blocks)
