"""SciPy matrices as raw graphs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from starling.core.errors import InputError
from starling.stream.bridges.scipy import raw_from_scipy
from tests.support.raw import all_edges

MATRIX = np.array([[0, 2.5, 0], [0, 0, -1], [4, 0, 0]])


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok"])
@pytest.mark.parametrize("make", [sp.coo_matrix, sp.coo_array])
def test_entries_are_edges(layout: str, make: type) -> None:
    raw = raw_from_scipy(make(MATRIX).asformat(layout))
    edges = all_edges(raw.edges)
    found = set(zip(edges.source.tolist(), edges.destination.tolist(), edges.columns["weight"].tolist(), strict=True))
    assert found == {(0, 1, 2.5), (1, 2, -1.0), (2, 0, 4.0)}
    assert raw.nodes == 3


def test_ones_are_no_weights_and_a_stored_zero_is_an_edge() -> None:
    assert all_edges(raw_from_scipy(sp.csr_array(MATRIX != 0)).edges).columns == {}
    stored = sp.coo_array((np.array([0.0, 1.0]), ([0, 1], [1, 0])), shape=(2, 2))
    assert all_edges(raw_from_scipy(stored).edges).columns["weight"].tolist() == [0.0, 1.0]


def test_what_is_no_adjacency_matrix_is_refused() -> None:
    for wrong, words in (
        (MATRIX, "Expected a SciPy sparse matrix, got ndarray"),
        (sp.csr_array((2, 3)), r"square adjacency matrix, got one of shape \(2, 3\)"),
        (sp.csr_array(MATRIX * 1j), "real numbers, got complex128"),
    ):
        with pytest.raises(InputError, match=words):
            raw_from_scipy(wrong)
