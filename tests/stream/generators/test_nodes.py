"""Classes, features and splits of generated nodes."""

from __future__ import annotations

import numpy as np
import pytest

from starling.stream.generators.dcsbm import DcsbmSettings, dcsbm
from tests.support.generated import drawn_columns


def columns_of(**settings: object) -> dict[str, np.ndarray]:
    return drawn_columns(dcsbm(DcsbmSettings(edges=2, **settings)))  # type: ignore[arg-type]


def test_splits_have_exactly_the_asked_sizes_and_do_not_overlap() -> None:
    columns = columns_of(nodes=9_999, classes=4, features=0, split="50/30/10")
    masks = np.stack([columns[name] for name in ("train", "val", "test")])
    assert masks.sum(1).tolist() == [4999, 3000, 1000]  # ⌊4999.5⌋, ⌊7999.2⌋ − 4999, ⌊8999.1⌋ − 7999
    assert masks.sum(0).max() == 1


def test_splits_and_classes_are_independent() -> None:
    columns = columns_of(nodes=50_000, classes=4, features=0)
    for c in range(4):
        assert columns["train"][columns["y"] == c].mean() == pytest.approx(0.6, abs=0.02)


def test_classes_are_about_equal() -> None:
    count = np.bincount(columns_of(nodes=50_000, classes=5, features=0)["y"])
    assert abs(count / 10_000 - 1).max() < 0.05


def test_features_are_signal_times_centre_plus_noise() -> None:
    loud, silent, plain = (columns_of(nodes=4000, classes=3, features=7, signal=signal) for signal in (2.0, 0.0, 1.0))
    y, noise = silent["y"], silent["x"]
    centre = np.stack([(plain["x"] - noise)[y == c][0] for c in range(3)])
    assert loud["x"].dtype == np.float32
    np.testing.assert_allclose(loud["x"], 2 * centre[y] + noise, atol=1e-5)
    assert abs(np.corrcoef(noise.T) - np.eye(7)).max() < 0.08
    assert noise.mean() == pytest.approx(0, abs=0.02)
    assert noise.std() == pytest.approx(1, abs=0.02)


def test_no_features_no_column() -> None:
    assert set(columns_of(nodes=100, classes=2, features=0)) == {"y", "train", "val", "test"}
