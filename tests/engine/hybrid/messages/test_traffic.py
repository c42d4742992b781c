"""Which rows move, worked out by hand."""

from __future__ import annotations

import numpy as np

from starling.engine.hybrid.messages.traffic import make_traffic


def test_rows_of_a_worker_among_three() -> None:
    """Worker 1 owns four rows, mirrors two of worker 0's and one of worker 2's, and is mirrored by both."""
    traffic = make_traffic(4, [np.array([0, 3]), np.empty(0), np.array([3], np.int32)], [2, 0, 1])
    assert (traffic.owned, traffic.mirrors, traffic.rows) == (4, 3, 7)
    assert [traffic.mirrors_of(worker) for worker in range(3)] == [slice(4, 6), slice(6, 6), slice(6, 7)]
    assert [traffic.mirror_count(worker) for worker in range(3)] == [2, 0, 1]
    assert traffic.boundary.tolist() == [0, 3]
    assert [rows.dtype for rows in traffic.send] == [np.int64] * 3


def test_a_worker_alone() -> None:
    traffic = make_traffic(2, [np.empty(0)], [0])
    assert (traffic.rows, traffic.mirrors, traffic.boundary.tolist()) == (2, 0, [])
