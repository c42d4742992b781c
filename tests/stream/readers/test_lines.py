"""Clean lines: the compiled pass against a slow twin, and line numbers that hold across blocks."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream.readers.lines import Dialect, clean_lines, count_clean_lines, line_blocks, raw_blocks

_PIECES = [b"1", b"23", b"ab", b" ", b"  ", b"\t", b",", b'"', b'""', b"#", b"%", b"/", b"//", b"\n", b"\r\n", b"\r", b"\n\n"]
texts = st.lists(st.sampled_from(_PIECES), max_size=40).map(b"".join)
dialects = st.sampled_from([Dialect(","), Dialect("\t"), Dialect(" "), Dialect(";")])


def slow_clean(raw: bytes, dialect: Dialect) -> tuple[list[bytes], list[int]]:
    """The clean lines and their numbers in the file, a line at a time."""
    lines = re.split(rb"\r\n|\n|\r", raw)
    kept, numbers = [], []
    blanks = b" \t" if dialect.folds else b" \t".replace(dialect.delimiter.encode(), b"")
    for number, line in enumerate(lines[:-1] if lines[-1] == b"" else lines, start=1):
        line = line.lstrip(blanks)
        if line and not line.startswith((b"#", b"%", b"//")):
            kept.append(slow_line(line, dialect, blanks))
            numbers.append(number)
    return kept, numbers


def slow_line(line: bytes, dialect: Dialect, blanks: bytes) -> bytes:
    if dialect.folds:
        return re.sub(rb"[ \t]+", b" ", line.rstrip(blanks))
    delimiter = dialect.delimiter.encode()
    if not dialect.quotes:
        return delimiter.join(field.strip(blanks) for field in line.split(delimiter))
    fields = []
    while True:
        line = line.lstrip(blanks)
        quoted = re.match(rb'"(?:[^"]|"")*"?', line)
        begin = quoted.end() if quoted else 0
        plain, delimiter_found, rest = line[begin:].partition(delimiter)
        fields.append(line[:begin] + plain.rstrip(blanks))
        if not delimiter_found:
            return delimiter.join(fields)
        line = rest


def has_open_quote(line: bytes, dialect: Dialect) -> bool:
    quoted, delimiter = rb'"(?:[^"]|"")*"(?!")', re.escape(dialect.delimiter.encode())
    field = rb"(?:%s[^%s]*|[^\"%s][^%s]*|)" % (quoted, delimiter, delimiter, delimiter)
    return re.fullmatch(rb"%s(?:%s%s)*" % (field, delimiter, field), line) is None


def fast_clean(raw: bytes, dialect: Dialect) -> tuple[list[bytes], list[int]]:
    text, dropped = np.empty(len(raw) + 1, np.uint8), np.empty(len(raw) + 1, np.int64)
    arguments = (np.uint8(ord(dialect.delimiter)), dialect.folds, dialect.quotes, dropped)
    size, kept, gone, longest, unclosed = clean_lines(np.frombuffer(raw, np.uint8), text, *arguments)
    lines = text[:size].tobytes().split(b"\n")[:-1]
    assert unclosed == next((row for row, line in enumerate(lines) if dialect.quotes and has_open_quote(line, dialect)), -1)
    assert len(lines) == kept
    assert longest == max((len(line) + 1 for line in lines), default=0)
    left_out = set(dropped[:gone].tolist())
    return lines, [number + 1 for number in range(kept + gone) if number not in left_out]


@settings(max_examples=600, deadline=None)
@given(texts, dialects)
@example(b"1,2\n3,4\n", Dialect(","))
@example(b"1 2\n3 4\n", Dialect(" "))
@example(b"a b\tc\n", Dialect("\t"))
@example(b'"a "" , b" , c \n', Dialect(","))
@example(b"1 2\r\n3 4\r5 6", Dialect(" "))
def test_the_compiled_pass_is_the_slow_one(raw: bytes, dialect: Dialect) -> None:
    lines, numbers = slow_clean(raw, dialect)
    assert fast_clean(raw, dialect) == (lines, numbers)
    counted, longest = count_clean_lines(
        np.frombuffer(raw, np.uint8), np.uint8(ord(dialect.delimiter)), dialect.folds, dialect.quotes
    )
    if counted >= 0:  # it says that nothing is to be done: then nothing is
        assert raw == b"\n".join([*lines, b""])
        assert counted == len(lines)
        assert longest > max(map(len, lines))


@pytest.mark.parametrize(("dialect", "row"), [(",", "12,ab"), ("\t", "1 2\ta, b"), (" ", "12 ab"), (";", "1;a/b #")])
def test_what_is_clean_is_seen_to_be(dialect: str, row: str) -> None:
    text = np.frombuffer((row + "\n").encode() * 30_000, np.uint8)
    how = np.uint8(ord(dialect)), dialect == " ", dialect not in " \t"
    assert count_clean_lines(text, *how)[0] == 30_000
    for place in (0, 65_536, 131_072, len(text) - 6):  # where chunks meet, too
        for change in (b"\n", b" ", b"\r", b"#"):
            place_of_line = place - place % (len(row) + 1)
            spoilt = bytearray(text.tobytes())
            spoilt[place_of_line : place_of_line + 1] = change
            assert count_clean_lines(np.frombuffer(spoilt, np.uint8), *how)[0] == -1


def test_how_long_lines_are_at_most() -> None:
    for length in (1, 70_000, 200_000, 65_535):
        text = b"1,2\n" * 20_000 + b"3," + b"4" * length + b"\n" + b"5,6\n"
        lines, longest = count_clean_lines(np.frombuffer(text, np.uint8), np.uint8(44), False, True)
        assert lines == 20_002
        assert length + 3 <= longest <= length + (1 << 18)


def test_worked_example() -> None:
    raw = b'# comment\n 1 ,2\t\n\n% other\r\n"a , b" , c\n// last\n3,4'
    assert fast_clean(raw, Dialect(",")) == ([b"1,2", b'"a , b",c', b"3,4"], [2, 5, 7])
    assert fast_clean(b"  1 \t 2  3 \n", Dialect(" ")) == ([b"1 2 3"], [1])
    assert fast_clean(b"\t1\t \tx y\n", Dialect("\t")) == ([b"\t1\t\tx y"], [1])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([b"1,2", b"#c", b"", b" ", b"30,40"]), max_size=60), st.integers(8, 64), st.booleans())
def test_line_numbers_hold_across_blocks(lines: list[bytes], size: int, ended: bool) -> None:
    raw = b"\n".join(lines) + (b"\n" if ended else b"")
    kept, numbers = [], []
    for block in line_blocks(io.BytesIO(raw), "f", Dialect(","), size):
        kept += bytes(block.text).split(b"\n")[:-1]
        numbers += [block.line(row) for row in range(block.count)]
    assert (kept, numbers) == slow_clean(raw, Dialect(","))


def test_more_dropped_lines_than_there_is_room_for() -> None:
    raw = b"#\n" * 3000 + b"1,2\n" + b"\n" * 2000 + b"3,4\n"
    (block,) = line_blocks(io.BytesIO(raw), "f", Dialect(","), 1 << 16)
    assert [block.line(row) for row in range(block.count)] == [3001, 5002]


def test_without_and_only_the_first_line() -> None:
    (block,) = line_blocks(io.BytesIO(b"#\na,b\n#\n1,2\n3,4\n"), "f", Dialect(","), 64)
    rest = block.without_first()
    assert (bytes(rest.text), rest.count, rest.line(0), rest.line(1)) == (b"1,2\n3,4\n", 2, 4, 5)
    assert bytes(rest.only_first().text) == b"1,2\n"
    assert rest.without_first().without_first().count == 0


def test_a_byte_order_mark_is_dropped() -> None:
    (block,) = line_blocks(io.BytesIO(b"\xef\xbb\xbf1,2\n"), "f", Dialect(","), 64)
    assert bytes(block.text) == b"1,2\n"


def test_a_line_longer_than_a_block_is_refused() -> None:
    with pytest.raises(InputError, match="f has a line longer than 16 B"):
        list(raw_blocks(io.BytesIO(b"1234567890" * 4), "f", 16))
