"""Rows of parts that train in turn: what a part reads and moves, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.engine.embeddings.features import EmbeddedFeatures
from starling.engine.embeddings.in_turn import PartRows, ShownRows
from starling.engine.embeddings.table import EmbeddingTable, TableSpec
from starling.engine.features import NoFeatures


def two_parts(folder: Path, *, keep: bool) -> tuple[EmbeddingTable, ShownRows, PartRows, PartRows]:
    """Nodes 0, 1, 2 and nodes 3, 4 by one worker, row i being (i, i); each part has one node of the other in its halo."""
    table, shown = EmbeddingTable(np.arange(5), TableSpec(2, "sgd")).begin(), ShownRows(5, 2)
    table.put(0, np.repeat(np.arange(5, dtype=np.float32)[:, None], 2, axis=1))
    table.rate = 1.0
    shown.begin(folder)
    shown.show(table, range(5))
    first = PartRows(table, shown, range(3), np.array([4]), keep=keep)
    return table, shown, first, PartRows(table, shown, range(3, 5), np.array([1]), keep=keep)


@pytest.mark.parametrize("keep", [True, False])
def test_own_rows_move_at_once_and_a_halo_when_it_is_shown(tmp_path: Path, keep: bool) -> None:
    table, shown, first, second = two_parts(tmp_path, keep=keep)
    assert (first.count, second.count) == (4, 3)
    np.testing.assert_array_equal(first.all()[:, 0], [0, 1, 2, 4])
    x, learnt = EmbeddedFeatures(NoFeatures(4), first).step_rows(np.array([3, 1]))
    assert x.shape == (2, 0)
    assert learnt is not None
    rows = learnt.read()
    (rows * 10).sum().backward()  # type: ignore[no-untyped-call]
    table.step(1.0)
    np.testing.assert_array_equal(first.all()[:, 0], [0, 1 - 10, 2, 4], "its own, and not the halo's")
    np.testing.assert_array_equal(second.all()[:, 0], [3, 4, 1], "as it was shown")
    np.testing.assert_array_equal(table.all()[:, 0], [0, -9, 2, 3, 4])
    shown.show(table, range(5))
    np.testing.assert_array_equal(second.all()[:, 0], [3, 4, -9])
    np.testing.assert_array_equal(second.rows(np.array([2, 0, 2]))[:, 1], [-9, 3, -9])


def test_two_workers_show_in_one_file(tmp_path: Path) -> None:
    """Each its own rows, of nodes that need not follow one another; nodes without a row are zero."""
    shown = [ShownRows(5, 2), ShownRows(5, 2)]
    for worker, nodes in enumerate([np.array([0, 3]), np.array([4])]):
        table = EmbeddingTable(nodes, TableSpec(2, "sgd")).begin()
        table.put(0, np.full((len(nodes), 2), worker + 1, np.float32))
        shown[worker].begin(tmp_path)
        shown[worker].show(table, nodes)
    for seen in shown:
        np.testing.assert_array_equal(seen.all()[:, 0], [1, 0, 0, 1, 2])
