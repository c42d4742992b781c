"""Importing Starling costs neither time nor memory that the work at hand does not need."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "igraph",
    "pymetis",
    "scipy.sparse",  # the bare package is imported by Numba itself
    "torch_geometric",
    "networkx",
    "torchmetrics",
    "pandas",
    "dgl",
    "ogb",
    "kaminpar",
)


@pytest.mark.parametrize("name", ["starling", "starling.cli.main"])
def test_importing_brings_in_nothing_heavy(name: str) -> None:
    if name != "starling" and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not there yet")
    script = f"import sys, {name}\nprint(*(module for module in {HEAVY} if module in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


def test_the_public_names_are_there() -> None:
    import starling

    for name in starling.__all__:
        assert getattr(starling, name) is not None
    assert set(dir(starling)) == set(starling.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'sparrow'"):
        _ = starling.sparrow
