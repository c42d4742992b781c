"""Real graphs for tests, where they are there: ../shared/data beside the project."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_graph(name: str) -> Path:
    """The .npz file of a real graph; skips the test where the data are not at hand."""
    path = DATA / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"the real graph '{name}' is not at hand")
    return path
