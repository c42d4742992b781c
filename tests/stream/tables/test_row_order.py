from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.stream.room import Room
from starling.stream.tables.row_order import rearrange_ragged, rearrange_rows

LARGE, TINY = Room(1 << 28), Room(2_000)


@given(
    st.permutations(range(40)),
    st.sampled_from(
        [(np.float32, (3,)), (np.int64, ()), (np.bool_, ()), (np.uint8, (5,)), (np.float64, (2, 2)), (np.int16, (3,))]
    ),
    st.sampled_from([LARGE, TINY]),
)
def test_rows_of_any_type_go_where_they_belong(order: list[int], kind: tuple[str, tuple[int, ...]], room: Room) -> None:
    dtype, shape = kind
    rows = np.random.default_rng(0).integers(0, 200, (40, *shape)).astype(dtype)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        np.save(directory / "rows.npy", rows)
        np.save(directory / "positions.npy", np.array(order, np.int32))
        rearrange_rows(directory / "rows.npy", directory / "positions.npy", directory / "out.npy", room, directory / "s")
        came = np.load(directory / "out.npy")
        assert not (directory / "rows.npy").exists()
    expected = np.empty_like(rows)
    expected[order] = rows
    assert came.dtype == rows.dtype
    assert np.array_equal(came, expected)


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=30), st.randoms(), st.sampled_from([LARGE, TINY]))
def test_rows_of_different_lengths_too(rows: list[list[int]], random: object, room: Room) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    flat = np.array([value for row in rows for value in row], np.int32)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        np.save(directory / "lengths.npy", np.array([len(row) for row in rows], np.int32))
        np.save(directory / "a.npy", flat)
        np.save(directory / "b.npy", flat.astype(np.float32) / 2)
        np.save(directory / "positions.npy", np.array(order))
        parts, targets = ((directory / x, directory / y) for x, y in (("a.npy", "b.npy"), ("c.npy", "d.npy")))
        lengths = rearrange_ragged(
            directory / "lengths.npy", parts, directory / "positions.npy", targets, room, directory / "s"
        )
        expected = [rows[order.index(place)] for place in range(len(rows))]
        assert np.load(lengths).tolist() == [len(row) for row in expected]
        elements = [value for row in expected for value in row]
        assert np.load(directory / "c.npy").tolist() == elements
        assert np.load(directory / "d.npy").tolist() == [value / 2 for value in elements]


def test_by_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([10.0, 11.0, 12.0], np.float32))
    np.save(tmp_path / "positions.npy", np.array([2, 0, 1]))
    rearrange_rows(tmp_path / "rows.npy", tmp_path / "positions.npy", tmp_path / "out.npy", TINY, tmp_path / "s")
    assert np.load(tmp_path / "out.npy").tolist() == pytest.approx([11, 12, 10])
