from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.keyed import draw, stream_key
from starling.stream.tables import splits
from starling.stream.tables.splits import MASKS, Shares, draw_split, first_overlap


def drawn(directory: Path, rows: int, labels: np.ndarray | None, shares: Shares, seed: int = 0) -> dict[str, np.ndarray]:
    path = None
    if labels is not None:
        path = directory / "y.npy"
        np.save(path, labels)
    targets = {mask: directory / f"{mask}.npy" for mask in MASKS}
    sizes = draw_split(rows, path, shares, seed, targets)
    masks = {mask: np.load(target) for mask, target in targets.items()}
    assert sizes == {mask: int(values.sum()) for mask, values in masks.items()}
    return masks


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1_000])
@pytest.mark.parametrize("shares", [Shares(60, 20, 20), Shares(100, 0, 0), Shares(0, 0, 10), Shares(33.3, 33.3, 33.4)])
def test_the_smallest_draws_are_train_then_val_then_test(
    tmp_path: Path, rows: int, shares: Shares, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_BLOCK", 300)
    masks = drawn(tmp_path, rows, None, shares, seed=5)
    key = stream_key(5, "split")
    order = sorted(range(rows), key=lambda row: int(draw(key, row, 0)))
    start = 0
    for mask, end in zip(MASKS, shares.ends(rows), strict=True):
        assert np.flatnonzero(masks[mask]).tolist() == sorted(order[start:end])
        start = end


def test_shares_by_hand() -> None:
    assert Shares(60, 20, 20).ends(10) == [6, 8, 10]
    assert Shares(50, 25, 0).ends(4) == [2, 3, 3]


@pytest.mark.parametrize(
    ("labels", "who"),
    [
        (np.array([0, -1, 2, -1, 1] * 20), [0, 2, 4]),
        (np.array([0.5, np.nan, 1, np.nan, 0] * 20), [0, 2, 4]),
        (np.ones((100, 3), np.uint8), [0, 1, 2, 3, 4]),
    ],
)
def test_only_labelled_rows_are_drawn(tmp_path: Path, labels: np.ndarray, who: list[int]) -> None:
    masks = drawn(tmp_path, 100, labels, Shares(50, 30, 20))
    total = sum(masks.values())
    assert set((np.flatnonzero(total) % 5).tolist()) == set(who)
    assert total.max() == 1
    assert total.sum() == 20 * len(who)


def test_another_seed_draws_others(tmp_path: Path) -> None:
    one, two, again = (drawn(tmp_path, 500, None, Shares(50, 0, 0), seed)["train"] for seed in (1, 2, 1))
    assert (one != two).any()
    assert np.array_equal(one, again)


def test_first_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_BLOCK", 2)
    for name, mask in (("a", [1, 0, 0, 1, 0]), ("b", [0, 1, 0, 1, 1]), ("c", [0, 1, 1, 0, 0])):
        np.save(tmp_path / f"{name}.npy", np.array(mask, np.bool_))
    assert first_overlap(tmp_path / "a.npy", tmp_path / "b.npy") == 3
    assert first_overlap(tmp_path / "a.npy", tmp_path / "c.npy") is None
