"""Which destinations are computed together, and when: groups by the last message that their rows wait for, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from starling.engine.hybrid.layers import row_groups
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.nn.graph import local_graph


@pytest.fixture(autouse=True)
def groups_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 0)


def test_rows_wait_for_the_last_worker_that_they_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker 0 owns rows 0 to 4, and mirrors rows 5 and 6 of worker 2, which is waited for last, and row 7 of worker 1."""
    graph = local_graph(torch.tensor([0, 2, 3, 5, 5, 7]), torch.tensor([0, 3, 7, 5, 1, 2, 4]), 8)
    traffic = make_traffic(5, [np.empty(0, np.int64)] * 4, [0, 0, 2, 1])

    def groups() -> list[tuple[list[int], tuple[int, ...]]]:
        found = row_groups.row_groups(graph, traffic, [3, 2])
        return [(group.rows.tolist(), group.waits_for) for group in found]

    assert groups() == [([0, 3, 4], ()), ([1], (3,)), ([2], (3, 2))]
    early, middle, late = row_groups.row_groups(graph, traffic, [3, 2])
    assert [group.reads_own_as_they_are for group in (early, middle, late)] == [False, False, False]
    sources: Any = [group.piece.sources.tolist() for group in (early, late)]  # type: ignore[union-attr]
    assert sources == [[0, 3, 4, 2], [2, 1, 5]]
    assert early.piece.graph.neighbours.tolist() == [0, 1, 3, 2]  # rows 0 and 3; rows 2 and 4
    assert [(s.worker, s.here, s.there.tolist()) for s in late.stretches] == [
        (row_groups.OWN, slice(0, 2), [2, 1]),
        (2, slice(2, 3), [0]),
    ]
    assert late.piece.rows == slice(2, 3)
    assert not row_groups.rows_follow_one_another([early, late])
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 8)
    assert groups() == []  # groups read 9 rows, there are 8, and 7 edges
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 7)
    assert len(groups()) == 3
    monkeypatch.setattr(row_groups, "LEAST_SHARE", 0.21)
    assert groups() == [([0, 3, 4], ()), ([1, 2], (3, 2))]  # a row of five is no group between two others
    monkeypatch.setattr(row_groups, "LEAST_SHARE", 0.2)
    assert len(groups()) == 3
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 2)
    assert groups() == [([0, 3, 4], ()), ([1, 2], (3, 2))]  # a row by itself waits with the next
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 0.61)
    assert groups() == []  # three of five rows need not wait
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 0.6)
    assert len(groups()) == 2
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 3)
    assert groups() == []


def test_no_group_is_left_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 3, a mirror of worker 1, was all that waits for worker 1 alone; it is pushed with row 4, a mirror of worker 2."""
    graph = local_graph(torch.arange(6), torch.tensor([1, 0, 4, 0, 0]), 5, outputs=3)
    traffic = make_traffic(3, [np.empty(0, np.int64)] * 3, [0, 1, 1])
    groups = row_groups.row_groups(graph, traffic, [1, 2])
    found = [(group.rows.tolist(), group.waits_for, group.pushed) for group in groups]
    assert found == [([0, 1], (), False), ([3, 4], (1, 2), True), ([2], (1, 2), False)]


def test_mirrors_are_a_group_of_their_own_before_own_rows_that_wait_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vertex-cut: rows 0 to 2 are own, row 3 mirrors one of worker 1, and all have in-edges; row 2 reads the mirror."""
    graph = local_graph(torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 0, 3, 0]), 4, outputs=3)
    traffic = make_traffic(3, [np.empty(0, np.int64)] * 2, [0, 1])

    def groups() -> list[tuple[list[int], tuple[int, ...], bool]]:
        return [(group.rows.tolist(), group.waits_for, group.pushed) for group in row_groups.row_groups(graph, traffic, [1])]

    assert groups() == [([0, 1], (), False), ([3], (1,), True), ([2], (1,), False)]
    assert all(len(group.rows) for group in row_groups.row_groups(graph, traffic, [1]))
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 2.0)  # a push that flies beside row 2 pays in any case
    assert len(groups()) == 3
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 2)  # too few mirrors, and too few rows behind them
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 0.0)
    assert groups() == [([0, 1], (), False), ([2, 3], (1,), False)]


def test_inner_rows_that_come_first_are_read_where_they_lie() -> None:
    graph = local_graph(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3]), 4)
    early, late = row_groups.row_groups(graph, make_traffic(3, [np.empty(0, np.int64)] * 2, [0, 1]), [1])
    assert early.reads_own_as_they_are
    assert early.piece.graph.neighbours.data_ptr() == graph.neighbours.data_ptr()
    assert row_groups.rows_follow_one_another([early, late])
