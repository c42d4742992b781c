"""Splits of edges: shares are read, reverses stay together, tables are checked."""

from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.plan.links.splits import EdgeShares, given_split, random_split


def test_shares_are_read_and_checked() -> None:
    assert EdgeShares.parse("85/5/10") == EdgeShares(85, 5, 10)
    assert EdgeShares.parse("90/0/10").ends == (0.9, 0.9)
    for wrong in ("90/5", "90/5/4", "a/b/c", "0/50/50", "90/10/0", "110/-20/10", "", "nan/5/5"):
        with pytest.raises(InputError, match="add up to 100, such as 90/5/5"):
            EdgeShares.parse(wrong)


def test_random_splits_keep_pairs_together_and_meet_their_shares() -> None:
    half = np.random.default_rng(0).integers(0, 500, (20000, 2))
    shares = EdgeShares(80, 5, 15)
    split = random_split(half[:, 0], half[:, 1], shares, seed=1)
    np.testing.assert_array_equal(random_split(half[:, 1], half[:, 0], shares, seed=1), split)
    np.testing.assert_allclose(np.bincount(split) / len(split), [0.8, 0.05, 0.15], atol=0.01)
    assert (random_split(half[:, 0], half[:, 1], shares, seed=2) != split).any()


def test_given_splits_are_checked() -> None:
    np.testing.assert_array_equal(given_split(np.array([0, 2, 1]), "here"), [0, 2, 1])
    with pytest.raises(InputError, match=r"Expected 0 \(train\), 1 \(validation\) or 2 \(test\) in here, got 3"):
        given_split(np.array([0, 3]), "here")
    with pytest.raises(InputError, match="Expected a whole number an edge"):
        given_split(np.array([0.5]), "here")
