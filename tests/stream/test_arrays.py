from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from starling.stream.arrays import ArrayEdges, ArrayTable, slice_rows
from starling.stream.raw import CsrRows


def test_integer_edges_in_blocks() -> None:
    pairs = np.array([[0, 1], [2, 3], [4, 5]], np.int32)
    reader = ArrayEdges(pairs, {"weight": np.array([1.0, 2.0, 3.0])}, block=2, name="memory")
    assert (reader.id_kind, reader.expected, reader.roles) == ("integer", 3, ("weight",))
    blocks = list(reader.blocks())
    assert [block.source.tolist() for block in blocks] == [[0, 2], [4]]
    assert [block.destination.tolist() for block in blocks] == [[1, 3], [5]]
    assert [block.columns["weight"].tolist() for block in blocks] == [[1.0, 2.0], [3.0]]
    assert blocks[0].source.dtype == np.int64
    assert reader.place(2) == "edge 2 of memory"


@pytest.mark.parametrize(
    "pairs",
    [
        np.array([["a", "b"], ["c", "d"]]),
        (["a", "c"], ["b", "d"]),
        (pa.array(["a", "c"]), pa.chunked_array([["b"], ["d"]])),
        (np.array(["a", "c"], object), np.array(["b", "d"], object)),
    ],
)
def test_string_edges_however_they_come(pairs: object) -> None:
    reader = ArrayEdges(pairs)  # type: ignore[arg-type]
    assert reader.id_kind == "string"
    (block,) = reader.blocks()
    assert (block.source.to_pylist(), block.destination.to_pylist()) == (["a", "c"], ["b", "d"])


def test_tables_in_blocks() -> None:
    sparse = CsrRows(np.array([0, 1, 3, 3]), np.array([0, 1, 2]), np.array([1.0, 2.0, 3.0]), 4)
    table = ArrayTable("t", {"x": sparse, "y": ["u", "v", "w"]}, ids=["p", "q", "r"], block=2, defines_nodes=True)
    assert (table.id_kind, table.roles, table.expected, table.defines_nodes) == ("string", ("x", "y"), 3, True)
    first, second = table.blocks()
    assert first.ids.to_pylist() == ["p", "q"]
    assert first.columns["x"].offsets.tolist() == [0, 1, 3]
    assert second.columns["x"].offsets.tolist() == [0, 0]
    assert second.columns["y"].to_pylist() == ["w"]


def test_an_empty_table_still_tells_its_columns() -> None:
    (block,) = ArrayTable("t", {"x": np.empty((0, 5))}).blocks()
    assert block.columns["x"].shape == (0, 5)


def test_slices_of_sparse_rows_start_at_zero() -> None:
    sparse = CsrRows(np.array([0, 2, 3, 6]), np.arange(6), np.arange(6.0), 10)
    part = slice_rows(sparse, 1, 3)
    assert (part.offsets.tolist(), part.columns.tolist(), part.values.tolist()) == ([0, 1, 4], [2, 3, 4, 5], [2, 3, 4, 5])


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="'weight' has 1"):
        ArrayEdges(np.zeros((2, 2), int), {"weight": np.ones(1)})
    with pytest.raises(ValueError, match="'y' has 2"):
        ArrayTable("t", {"x": np.ones((3, 1)), "y": np.ones(2)})
    with pytest.raises(TypeError, match="integers or strings"):
        ArrayEdges(np.zeros((2, 2)))
