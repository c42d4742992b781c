"""Networks as people write them."""

from __future__ import annotations

import pytest

from starling.core.errors import InputError
from starling.plan.forecast.network import DEFAULT_LATENCY, parse_network


@pytest.mark.parametrize(
    ("text", "bandwidth"),
    [
        ("1Gbit", 125e6),
        ("10Gbps", 1.25e9),
        ("100 Mbit/s", 12.5e6),
        ("1GB/s", 1e9),
        ("25Gb", 3.125e9),
        ("1.5MB", 1.5e6),
        ("2tbit", 2.5e11),
    ],
)
def test_speeds(text: str, bandwidth: float) -> None:
    assert parse_network(text).bandwidth == pytest.approx(bandwidth)
    assert parse_network(text).latency == DEFAULT_LATENCY


def test_a_latency_after_a_comma() -> None:
    assert parse_network("25Gbit,20us").latency == pytest.approx(2e-5)
    assert parse_network("1Gbit, 0.2ms").latency == pytest.approx(2e-4)


@pytest.mark.parametrize(
    "text", ["fast", "1", "1Gfoo", "Gbit", "-1Gbit", "0Gbit", "", "1Gbit,", "1Gbit,20", "1Gbit,20h", "9" * 400 + "Gbit"]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="such as"):
        parse_network(text)
