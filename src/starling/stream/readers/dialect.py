"""What kind of text a file is: the delimiter between fields, and whether the first line names the columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import PurePath

from starling.core.errors import InputError
from starling.stream.readers.lines import Dialect

_WORDS = {"comma": ",", "tab": "\t", "\\t": "\t", "semicolon": ";", "pipe": "|", "space": " ", "blank": " "}
_GUESSES = (",", "\t", ";", "|")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


def given_dialect(delimiter: str) -> Dialect:
    """The dialect of a delimiter as the user writes it: a character, or one of comma, tab, semicolon, pipe, space."""
    character = _WORDS.get(delimiter.lower(), delimiter)
    if len(character) != 1 or not character.isascii() or character.isalnum() or character in '"\r\n\0':
        raise InputError(
            f"Expected a delimiter of one character, or one of {', '.join(_WORDS)}, got '{delimiter}'. "
            "For runs of blanks write space."
        )
    return Dialect(character)


def guess_dialect(lines: Sequence[str], file_name: str) -> Dialect:
    """The dialect of some lines without comments: the first of comma, tab, semicolon, bar they all have, else blanks.

    Where none is in every line, the one in the first line (the others will be reported as ragged); a ``.tsv`` is asked for
    tabs first. Text of a single column is read as comma-separated.
    """
    guesses = ("\t", ",", ";", "|") if ".tsv" in PurePath(file_name).suffixes else _GUESSES
    for held in (all, any):
        for delimiter in guesses:
            if held(delimiter in line for line in (lines if held is all else lines[:1])):
                return Dialect(delimiter)
    return Dialect(" " if any(blank in line.strip() for line in lines[:1] for blank in " \t") else ",")


def fields(line: str, dialect: Dialect) -> list[str]:
    """The fields of one clean line."""
    if not dialect.quotes:
        return line.split(dialect.delimiter)
    return next(csv.reader([line], delimiter=dialect.delimiter), [""])


def is_header(first: Sequence[str], second: Sequence[str], known_names: bool, *, ends: int = 0) -> bool:
    """Whether the first row names the columns.

    It does when it is all words and the second row has a number, or when it consists of names known to name columns. Of
    the first `ends` columns, the two ends of an edge, all must become numbers: an id of text may look like one.
    """
    below = [is_number(field) for field in second]
    return not any(map(is_number, first)) and (
        known_names or any(below[ends:]) or (0 < ends <= len(below) and all(below[:ends]))
    )


def is_number(text: str) -> bool:
    """Whether a field is a number as Starling reads it."""
    return _NUMBER.fullmatch(text.strip()) is not None


def unquoted(name: str) -> str:
    """A column's name without the quotes that some tools put around each."""
    name = name.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name
