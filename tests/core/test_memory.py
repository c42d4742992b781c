from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core import memory
from starling.core.errors import InputError
from starling.core.memory import format_bytes, parse_budget, parse_bytes, peak_rss_bytes, rss_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4096", 4096),
        ("7B", 7),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1k", 1024),
        ("500 MB", 500_000_000),
        ("1GiB", 1 << 30),
        ("2g", 2 << 30),
        (" 1.5gib ", 3 << 29),
        (".5M", 1 << 19),
        ("1TB", 10**12),
        ("3TiB", 3 << 40),
    ],
)
def test_sizes_as_people_write_them(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "big", "1 potato", "-1GiB", "1e9", "1,5GiB", "GiB", "1..5", "0x10", "1GiB2"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(InputError, match="Expected a size such as 512MiB or 2GiB, got"):
        parse_bytes(text)


def test_a_size_beyond_all_machines_is_not_one() -> None:
    assert parse_bytes("8000000TiB") == 8_000_000 << 40
    with pytest.raises(InputError, match="got 99999999999999999999…, more than any machine has"):
        parse_bytes("9" * 400)


def test_a_budget_is_more_than_nothing() -> None:
    assert parse_budget("1") == 1
    for text in ("0", "0GiB", "0.4"):
        with pytest.raises(InputError, match="more than 0 bytes"):
            parse_budget(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (5 << 40, "5.0 TiB"), (5000 << 40, "5000.0 TiB")],
)
def test_sizes_as_people_read_them(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 1 << 50))
def test_written_and_read_again_is_near(count: int) -> None:
    # One decimal of a unit, and 1024 units make the next: at most 0.05 in 1.0 is lost.
    assert abs(parse_bytes(format_bytes(count)) - count) <= 0.051 * count


def test_the_peak_counts_what_was_held_and_let_go() -> None:
    script = (
        "import numpy as np\nfrom starling.core.memory import peak_rss_bytes, rss_bytes\n"
        "before = peak_rss_bytes()\nheld = np.ones(100 << 20, np.uint8)\nwhile_held = rss_bytes()\ndel held\n"
        "print(before, while_held, rss_bytes(), peak_rss_bytes())\n"
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    before, while_held, after, peak = map(int, output.split())
    slack = 10 << 20  # Linux counts pages in batches
    assert while_held >= after + (100 << 20) - slack
    assert peak >= before + (100 << 20) - slack
    assert peak >= while_held - slack


def test_without_proc_the_peak_comes_from_the_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = peak_rss_bytes()
    monkeypatch.setattr(memory, "_STATUS", Path("/proc/self/there is no such file"))
    # Not equal: it may count what the process was before it became Python. But a wrong unit is a thousandfold.
    assert measured / 2 < peak_rss_bytes() < 100 * measured
    assert rss_bytes() == peak_rss_bytes()
