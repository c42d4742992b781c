from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from starling.stream.ids.books import IntegerBook, TextBook
from starling.stream.ids.spool import hashes_of
from starling.stream.ids.texts import Texts


def slow_book(blocks: list[list[object]]) -> list[tuple[int, bool]]:
    known: dict[object, int] = {}
    came = []
    for user in (user for block in blocks for user in block):
        new = user not in known
        came.append((known.setdefault(user, len(known)), new))
    return came


@given(st.lists(st.lists(st.integers(-20, 20), max_size=25), max_size=8))
def test_integers_are_numbered_as_they_first_appear(blocks: list[list[int]]) -> None:
    book, came = IntegerBook(), []
    for block in blocks:
        numbers, new = book.number(hashes_of(np.array(block, np.int64)))
        came += list(zip(numbers.tolist(), new.tolist(), strict=True))
    assert came == slow_book([list(block) for block in blocks])


@given(st.lists(st.lists(st.text("ab", max_size=4), max_size=25), max_size=8))
def test_texts_are_numbered_as_they_first_appear(blocks: list[list[str]]) -> None:
    book, came = TextBook(), []
    for block in blocks:
        numbers, new = book.number(Texts.from_arrow(pa.array(block, pa.string())))
        came += list(zip(numbers.tolist(), new.tolist(), strict=True))
    assert came == slow_book([list(block) for block in blocks])


def test_a_book_grows() -> None:
    book, ids = IntegerBook(), np.arange(10_000)
    for start in range(0, 10_000, 1_000):
        numbers, new = book.number(hashes_of(ids[start : start + 1_000]))
        assert new.all()
        assert numbers.tolist() == list(range(start, start + 1_000))
    numbers, new = book.number(hashes_of(ids[::-1].copy()))
    assert not new.any()
    assert numbers.tolist() == list(range(9_999, -1, -1))
