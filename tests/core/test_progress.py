from __future__ import annotations

import pytest

from starling.core.progress import SILENT


def test_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with SILENT.task("reading", total=10, unit="edges") as task:
        task.advance(10)
    with SILENT.task("guessing") as task:
        task.advance(0)
    assert capfd.readouterr() == ("", "")
