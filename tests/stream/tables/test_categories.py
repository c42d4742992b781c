from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream.tables.categories import Names, TypeColumn, is_text


def name(row: int) -> str:
    return f"row {row}"


def typed(column: TypeColumn, *blocks: Any) -> np.ndarray:
    for block in blocks:
        column.append(block, name)
    column.finish()
    return np.load(column.path)


def test_named_types_are_sorted_and_small(tmp_path: Path) -> None:
    column = TypeColumn(tmp_path / "t.npy", "node type")
    codes = typed(column, pa.array(["paper", "author"]), np.array(["venue", "author"]), ["paper"])
    assert column.names == ("author", "paper", "venue")
    assert codes.dtype == np.uint8
    assert codes.tolist() == [1, 0, 2, 0, 1]
    assert column.counts.tolist() == [2, 2, 1]


def test_numbered_types_have_names_only_when_given(tmp_path: Path) -> None:
    plain = TypeColumn(tmp_path / "a.npy", "edge type")
    assert typed(plain, np.array([300, 0])).dtype == np.uint16
    assert plain.names == ()
    named = TypeColumn(tmp_path / "b.npy", "edge type", ("x", "y", "z"))
    assert typed(named, np.array([1, 0])).tolist() == [1, 0]
    assert named.names == ("x", "y", "z")
    assert named.counts.tolist() == [1, 1, 0]


def test_given_names_keep_their_numbers(tmp_path: Path) -> None:
    column = TypeColumn(tmp_path / "t.npy", "node type", ("z", "a"))
    assert typed(column, pa.array(["a", "z", "a"])).tolist() == [1, 0, 1]
    assert column.names == ("z", "a")


@pytest.mark.parametrize(
    ("given_names", "blocks", "message"),
    [
        ((), [np.array([0, -1])], r"Expected each node type as one number in \[0, 2147483648\), got -1 at row 1\."),
        (("a", "b"), [np.array([2])], r"in \[0, 2\), got 2 at row 0"),
        (("paper", "author"), [["papr"]], "Unknown node type 'papr' at row 0. Did you mean 'paper'"),
        ((), [pa.array(["a", None])], "a node type in every row, got none at row 1"),
        ((), [np.array([1]), ["a"]], "as numbers like the first ones, got names at row 0"),
        ((), [np.array([0.5])], "as one number"),
        ((), [np.ones((2, 2), int)], "as one number"),
    ],
)
def test_types_that_are_refused(tmp_path: Path, given_names: tuple[str, ...], blocks: list[Any], message: str) -> None:
    column = TypeColumn(tmp_path / "t.npy", "node type", given_names)
    with pytest.raises(InputError, match=message):
        typed(column, *blocks)
    column.close()


@given(st.lists(st.lists(st.one_of(st.none(), st.sampled_from(["b", "a", "ü", ""])), max_size=8), max_size=6))
def test_names_come_back(blocks: list[list[str | None]]) -> None:
    names = Names("class")
    codes = [names.encode(pa.array(block, pa.string()), name) for block in blocks]
    final = names.final_numbers()
    for block, code in zip(blocks, codes, strict=True):
        assert [None if number == -1 else names.final[number] for number in final[code].tolist()] == block
    assert list(names.final) == sorted({text for block in blocks for text in block if text is not None})


def test_what_counts_as_text() -> None:
    assert is_text(pa.array(["a"])) and is_text(["a"]) and is_text(pa.array(["a"]).dictionary_encode())  # noqa: PT018
    assert not is_text(pa.array([1]))
    assert not is_text(np.ones(3))
