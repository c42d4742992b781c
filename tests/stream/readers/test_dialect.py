"""Delimiters and headers told from a few lines."""

from __future__ import annotations

import pytest

from starling.core.errors import InputError
from starling.stream.readers.dialect import fields, given_dialect, guess_dialect, is_header, is_number, unquoted
from starling.stream.readers.lines import Dialect


@pytest.mark.parametrize(
    ("lines", "name", "delimiter"),
    [
        (["1,2", "3,4"], "e.csv", ","),
        (["1\t2", "3\t4"], "e.txt", "\t"),
        (["1;2", "3;4"], "e.csv", ";"),
        (["1|2"], "e.txt", "|"),
        (["1 2", "3 4"], "e.csv", " "),
        (["a, b\tc", "d, e\tf"], "e.tsv", "\t"),
        (["a, b\tc", "d, e\tf"], "e.tsv.gz", "\t"),
        (["a b,c", "d e,f"], "e.txt", ","),
        (["a;b,c", "d;e"], "e.txt", ";"),  # only the semicolon is in every line
        (["1,2", "3"], "e.csv", ","),  # ragged: the first line tells
        (["1", "2"], "y.csv", ","),
    ],
)
def test_guess(lines: list[str], name: str, delimiter: str) -> None:
    assert guess_dialect(lines, name) == Dialect(delimiter)


def test_given_delimiters() -> None:
    assert [given_dialect(text).delimiter for text in (",", "tab", "\\t", "space", " ", "Semicolon", ":")] == list(",\t\t  ;:")
    for wrong in (",,", "x", '"', "\n", "ü", "words"):
        with pytest.raises(InputError, match="a delimiter of one character"):
            given_dialect(wrong)


def test_fields() -> None:
    assert fields('"a, ""b""",c', Dialect(",")) == ['a, "b"', "c"]
    assert fields('"a\tb', Dialect("\t")) == ['"a', "b"]
    assert fields("1 2", Dialect(" ")) == ["1", "2"]


@pytest.mark.parametrize(
    ("first", "second", "known", "header"),
    [
        (["a", "b"], ["1", "2"], False, True),
        (["ann", "bob"], ["eve", "7"], False, False),  # an id of text that looks like a number
        (["1", "2"], ["3", "4"], False, False),
        (["a", "b", "w"], ["x", "y", "0.5"], False, True),
        (["a", "b", "0.1"], ["x", "y", "0.5"], False, False),
        (["ann", "bob"], ["bob", "eve"], False, False),
        (["source", "target"], ["ann", "bob"], True, True),
        (["1", "b"], ["2", "3"], False, False),
        (["source", "target"], [], True, True),
        (["ann", "bob"], [], False, False),
    ],
)
def test_header(first: list[str], second: list[str], known: bool, header: bool) -> None:
    assert is_header(first, second, known, ends=2) is header


def test_header_of_a_table() -> None:
    assert is_header(["name", "age"], ["ann", "7"], known_names=False)
    assert not is_header(["ann", "red"], ["bob", "blue"], known_names=False)


def test_numbers_and_names() -> None:
    assert all(map(is_number, ["1", "-2", "+3", "1.", ".5", "1e-3", "nan", "-inf", " 7 "]))
    assert not any(map(is_number, ["", "a", "1a", "1,2", "0x1", "--1", "e5"]))
    assert [unquoted(name) for name in ('"src"', " dst ", '"', 'a"')] == ["src", "dst", '"', 'a"']
