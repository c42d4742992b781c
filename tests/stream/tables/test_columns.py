from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from starling.core.errors import InputError
from starling.stream.raw import CsrRows
from starling.stream.room import Room
from starling.stream.tables.columns import (
    Column,
    FlagColumn,
    FloatColumn,
    OtherColumn,
    Place,
    RowOrder,
    SplitColumn,
    TimeColumn,
)
from starling.stream.tables.sparse_columns import SparseColumn


def name(row: int) -> str:
    return f"node {row} of t.npy"


def settled(column: Column, directory: Path, *blocks: Any, order: list[int] | None = None) -> tuple[np.ndarray, ...]:
    for block in blocks:
        column.append(block, name)
    column.finish()
    rearranged = None
    if order is not None:
        np.save(directory / "order.npy", np.array(order))
        rearranged = RowOrder(directory / "order.npy", Room(500), directory / "scratch")
    table = column.settle(Place(directory, "t"), rearranged)
    assert table is not None
    return tuple(np.load(directory / file) for file in table.files)


def refused(column: Column, *blocks: Any) -> str:
    *fine, wrong = blocks
    for block in fine:
        column.append(block, name)
    with pytest.raises(InputError) as caught:
        column.append(wrong, name)
    column.close()
    return str(caught.value)


def test_features_are_float32_rows(tmp_path: Path) -> None:
    (x,) = settled(FloatColumn(tmp_path / "x.npy", "features"), tmp_path, np.array([[1, 2], [3, 4]]), np.array([[0.5, 1e9]]))
    assert x.dtype == np.float32
    assert x.tolist() == [[1, 2], [3, 4], [0.5, 1e9]]


def test_flat_features_have_one_column_and_weights_none(tmp_path: Path) -> None:
    (x,) = settled(FloatColumn(tmp_path / "x.npy", "features"), tmp_path, pa.array([1.5, 2.5]))
    assert x.tolist() == [[1.5], [2.5]]
    (weight,) = settled(FloatColumn(tmp_path / "w.npy", "weights", flat=True), tmp_path, np.array([[1], [2]]))
    assert weight.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (np.array([[0, 1], [2, np.nan]]), "Expected finite features, got nan in column 1 at node 1 of t.npy."),
        (np.array([[np.inf, 1]]), "got inf in column 0 at node 0 of t.npy."),
        (np.array([[1, 1e300]]), "got 1e+300 in column 1 at node 0 of t.npy."),
        (pa.array([1.0, None]), "got nan in column 0 at node 1"),
        (np.array(["a", "b"]), "Expected features, got text such as 'a' at node 0 of t.npy."),
        (np.ones((2, 0)), "rows of shape (0,)"),
        (np.ones((1, 2, 2)), "rows of shape (2, 2)"),
    ],
)
def test_features_that_are_refused(tmp_path: Path, block: Any, message: str) -> None:
    assert message in refused(FloatColumn(tmp_path / "x.npy", "features"), block)


def test_rows_of_different_width_are_refused(tmp_path: Path) -> None:
    message = refused(FloatColumn(tmp_path / "x.npy", "features"), np.ones((1, 2)), np.ones((1, 3)))
    assert message == "Expected every row like the first ones, 2 of float32, got 3 of float32 at node 0 of t.npy."


def test_an_infinite_weight_names_its_edge(tmp_path: Path) -> None:
    message = refused(FloatColumn(tmp_path / "w.npy", "weights", flat=True), np.array([1, -np.inf]))
    assert message.startswith("Expected finite weights, got -inf at node 1 of t.npy.")
    assert "one number a row" in refused(FloatColumn(tmp_path / "v.npy", "weights", flat=True), np.ones((2, 2)))


def test_times_keep_whole_numbers_whole(tmp_path: Path) -> None:
    (whole,) = settled(TimeColumn(tmp_path / "a.npy"), tmp_path, np.array([2**60 + 1], np.int64), np.array([1], np.int8))
    assert whole.dtype == np.int64
    assert whole.tolist() == [2**60 + 1, 1]
    (broken,) = settled(TimeColumn(tmp_path / "b.npy"), tmp_path, np.array([0.5], np.float32), np.array([2]))
    assert broken.dtype == np.float64
    assert broken.tolist() == [0.5, 2.0]
    assert "got none at node 1" in refused(TimeColumn(tmp_path / "c.npy"), np.array([1.0, np.nan]))
    assert "got 1 of float64" in refused(TimeColumn(tmp_path / "d.npy"), np.array([1]), np.array([1.5]))


def test_masks(tmp_path: Path) -> None:
    column = FlagColumn(tmp_path / "m.npy")
    (mask,) = settled(column, tmp_path, np.array([True, False]), np.array([1, 0, 1]), np.array([1.0]))
    assert mask.dtype == np.bool_
    assert mask.tolist() == [True, False, True, False, True, True]
    assert column.true == 4
    assert "got 2 at node 1" in refused(FlagColumn(tmp_path / "n.npy"), np.array([0, 2]))
    assert "got 0.5 at node 0" in refused(FlagColumn(tmp_path / "o.npy"), np.array([0.5]))


def test_splits_of_edges(tmp_path: Path) -> None:
    (split,) = settled(SplitColumn(tmp_path / "s.npy"), tmp_path, np.array([0, 2, 1]))
    assert split.dtype == np.uint8
    assert split.tolist() == [0, 2, 1]
    assert "got -1 at node 0" in refused(SplitColumn(tmp_path / "t.npy"), np.array([-1]))
    assert "1 (validation) or 2 (test), got 3 at node 1" in refused(SplitColumn(tmp_path / "u.npy"), np.array([2, 3]))


def test_other_columns_stay_as_they_are(tmp_path: Path) -> None:
    (kept,) = settled(OtherColumn(tmp_path / "o.npy", "masks"), tmp_path, np.ones((2, 10), np.bool_))
    assert kept.dtype == np.bool_
    assert kept.shape == (2, 10)
    assert "column 'title'" in refused(OtherColumn(tmp_path / "p.npy", "title"), np.array(["a"]))
    assert "2 of int16" in refused(OtherColumn(tmp_path / "q.npy", "n"), np.ones((1, 2), np.int16), np.ones((1, 2), np.int64))


def test_columns_are_put_in_order(tmp_path: Path) -> None:
    (x,) = settled(FloatColumn(tmp_path / "x.npy", "features"), tmp_path, np.array([[1.0], [2.0], [3.0]]), order=[1, 2, 0])
    assert x.tolist() == [[3], [1], [2]]


def test_a_column_without_blocks_has_no_table(tmp_path: Path) -> None:
    column = FloatColumn(tmp_path / "x.npy", "features")
    column.finish()
    assert column.settle(Place(tmp_path, "x"), None) is None


def sparse(rows: list[dict[int, float]], width: int) -> CsrRows:
    lengths = [len(row) for row in rows]
    return CsrRows(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([column for row in rows for column in row], np.int64),
        np.array([value for row in rows for value in row.values()], np.float64),
        width,
    )


@pytest.mark.parametrize("order", [None, [2, 0, 1]])
def test_sparse_rows(tmp_path: Path, order: list[int] | None) -> None:
    rows = [{3: 2.0, 0: 1.0}, {}, {1: 4.0}]
    came = settled(
        SparseColumn(tmp_path / "x.npy", "features"), tmp_path, sparse(rows[:1], 5), sparse(rows[1:], 5), order=order
    )
    indptr, indices, data = came
    expected = rows if order is None else [rows[order.index(place)] for place in range(3)]
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)
    came = [dict(zip(indices[a:b].tolist(), data[a:b].tolist(), strict=True)) for a, b in itertools.pairwise(indptr)]
    assert came == expected


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([sparse([{}, {5: 1.0}], 5)], "Expected column numbers in [0, 5), got 1.0 in column 5 at node 1"),
        ([sparse([{}, {}, {2: np.nan}], 5)], "Expected finite features, got nan in column 2 at node 2"),
        (
            [CsrRows(np.array([0, 1, 4]), np.array([1, 4, 0, 4]), np.arange(4.0), 5)],
            "Expected each column once in a row (SciPy's sum_duplicates makes it so), got 3.0 in column 4 at node 1",
        ),
        ([sparse([{}], 5), sparse([{}], 6)], "of 5 columns, got 6"),
        ([sparse([{}], 5), np.ones((1, 5))], "got dense rows"),
    ],
)
def test_sparse_rows_that_are_refused(tmp_path: Path, blocks: list[Any], message: str) -> None:
    assert message in refused(SparseColumn(tmp_path / "x.npy", "features"), *blocks)
