"""Generated graphs once imported: byte for byte the same, and what the docstring promises of the default one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from starling.core.manifest import GraphManifest
from starling.stream.generators import GENERATORS, DcsbmSettings, dcsbm
from starling.stream.ingest import ImportOptions, ingest

CLEAN = ImportOptions(duplicates="drop", self_loops="drop")


def imported(raw: Any, directory: Path) -> GraphManifest:
    directory.mkdir()
    return ingest(raw, CLEAN, directory).seal(directory)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_same_settings_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    generator = GENERATORS[name]
    manifests = []
    for threads in ("1", "3"):
        monkeypatch.setenv("STARLING_THREADS", threads)
        settings = generator.settings(nodes=4000, edges=50_000, classes=3, features=6, seed=9)
        manifests.append(imported(generator.make(settings), tmp_path / threads))
    assert manifests[0] == manifests[1]
    assert not manifests[0].directed
    assert manifests[0].splits == {"train": 2400, "val": 800, "test": 800}
    assert 0.5 * 50_000 < manifests[0].edges < 50_000


def test_the_default_graph_is_as_described(tmp_path: Path) -> None:
    manifest = imported(dcsbm(DcsbmSettings()), tmp_path / "graph")
    assert (manifest.nodes, manifest.edges) == (50_000, 950_440)
    x, y, train, test = (np.load(tmp_path / "graph" / f"{name}.npy") for name in ("x", "y", "train", "test"))
    source, destination = np.load(tmp_path / "graph" / "edges.npy").T
    adjacency = sp.csr_array((np.ones(len(source), np.float32), (destination, source)), shape=(50_000, 50_000))
    mean = adjacency @ x / np.maximum(adjacency.sum(1), 1)[:, None]
    assert right(x, y, train, test) == pytest.approx(0.29, abs=0.02)
    assert right(mean, y, train, test) == pytest.approx(0.87, abs=0.03)


def right(x: Any, y: Any, train: Any, test: Any) -> float:
    """Share of test nodes nearest to the mean of their own class: the best a linear classifier does on equal Gaussians."""
    centre = np.stack([x[train & (y == c)].mean(0) for c in range(y.max() + 1)])
    score = x[test] @ centre.T - (centre**2).sum(1) / 2
    return float((score.argmax(1) == y[test]).mean())
