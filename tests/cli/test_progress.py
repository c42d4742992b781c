"""Progress bars: on a terminal, after a second, with rate and time left; silent elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from starling.cli import progress as module
from starling.core.progress import SILENT


class Clock:
    """A clock that moves when told to."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module, "Console", lambda stderr: Console(file=written, force_terminal=True, width=100))
    return written


def test_rate_and_time_left(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    with module.progress(quiet=False).task("reading", total=40_000_000) as task:
        clock.now += 4
        task.advance(10_000_000)  # 2.5 M a second for four seconds; 30 M are left: twelve seconds
    assert "reading" in screen.getvalue()
    assert "10.0M edges, 2.5M/s, 0:12 left" in screen.getvalue()


def test_bytes_without_an_end(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    with module.progress(quiet=False).task("copying", unit="bytes") as task:
        clock.now += 2
        task.advance(4 << 20)
    assert "4.0 MiB, 2.0 MiB/s" in screen.getvalue()
    assert "left" not in screen.getvalue()


def test_what_ends_within_a_second_is_not_shown(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    with module.progress(quiet=False).task("reading", total=10) as task:
        clock.now += 0.5
        task.advance(10)
    assert screen.getvalue() == ""


def test_silent_when_quiet_or_not_a_terminal(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.progress(quiet=True) is SILENT
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: False, raising=False)
    assert module.progress(quiet=False) is SILENT
