"""Local numbers of a part, by hand and against sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.store.sharding.entries import node_of_row, row_code
from starling.store.sharding.halo import Halo


def test_two_hops_by_hand() -> None:
    """A part owns 4, 5, 6 of 10 nodes; 9 and 1 are one hop away, 0 and 8 two."""
    halo = Halo(10, 4, 7, hops=2)
    halo.see(0, np.array([9, 5, 1, 9], np.int32))
    assert halo.finish(0).tolist() == [1, 9]
    halo.see(1, np.array([8, 1, 4, 0], np.int32))
    assert halo.finish(1).tolist() == [0, 8]
    assert halo.to_local(np.array([4, 6, 1, 9, 0, 8], np.int32)).tolist() == [0, 2, 3, 4, 5, 6]
    assert (halo.owned, halo.count) == (3, 4)


@settings(deadline=None)
@given(st.integers(1, 30), st.data())
def test_row_codes_put_owned_nodes_first_and_come_back(nodes: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, nodes))
    stop = data.draw(st.integers(first, nodes))
    codes = [row_code(node, first, stop) for node in range(nodes)]
    assert sorted(codes) == list(range(nodes))
    assert [node_of_row(code, first, stop) for code in codes] == list(range(nodes))
    others = [node for node in range(nodes) if not first <= node < stop]
    assert [codes[node] for node in [*range(first, stop), *others]] == list(range(nodes))


def test_mirror_rows_are_counted_by_hand() -> None:
    """A part owns 2 and 3 of 6 nodes: row codes are 2 3 0 1 4 5. It has rows 3, 0 and 5."""
    halo = Halo(6, 2, 4)
    codes = np.array([1, 2, 2, 5], np.int32)
    halo.see_rows(codes)
    assert halo.finish(0).tolist() == [0, 5]
    counts = np.zeros(4, np.int64)
    halo.count_rows(codes, counts)
    assert counts.tolist() == [0, 1, 2, 1]
