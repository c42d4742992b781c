"""Moments compared exactly, whatever they are written in."""

from __future__ import annotations

import numpy as np
import pytest

from starling.core.times import latest, no_later

LATE = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    ("times", "before", "kept"),
    [
        ([1, 3, 4], 3.5, [True, True, False]),
        ([1, 3, 4], float("inf"), [True, True, True]),
        ([1, 3, 4], 1e30, [True, True, True]),
        ([1, 3, 4], -1e30, [False, False, False]),
        ([1.0, 3.2, 3.6], 3.5, [True, True, False]),
        ([LATE - 1, LATE, LATE + 1], float(LATE), [True, True, False]),  # as float64 all three are the same
    ],
)
def test_which_are_no_later(times: list[float], before: float, kept: list[bool]) -> None:
    assert no_later(np.array(times), before).tolist() == kept


def test_the_latest_moment_of_small_types() -> None:
    assert latest(1000.0, np.dtype(np.int8)) == 127
    assert latest(-5.0, np.dtype(np.uint8)) == 0
    assert latest(2.7, np.dtype(np.float32)) == 2.7
