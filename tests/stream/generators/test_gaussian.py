"""The normal quantile against the standard library's."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.stream.generators.gaussian import normal


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_agrees_with_the_standard_library(bits: int) -> None:
    expected = NormalDist().inv_cdf((bits + 0.5) / 2**32)
    assert normal(np.uint64(bits)) == pytest.approx(expected, rel=2e-6, abs=1e-9)


def test_known_quantiles() -> None:
    assert normal(np.uint64(round(0.975 * 2**32))) == pytest.approx(1.959964, abs=1e-6)
    assert normal(np.uint64(round(0.5 * 2**32))) == pytest.approx(0, abs=1e-9)
    assert normal(np.uint64(0)) == -normal(np.uint64(2**32 - 1)) == pytest.approx(-6.338, abs=1e-3)
