"""Text as blocks of clean lines: comments and blank lines gone, stray blanks trimmed, each line's number in the file kept.

One compiled pass does it all, so that the parser behind it sees plain rows whatever the file looked like:

* a line that begins with ``#``, ``%`` or ``//``, or has nothing in it, is dropped;
* blanks at the ends of a line and around a delimiter are dropped, outside quotes;
* in space-separated text a run of blanks becomes one;
* ``\\r\\n`` and a lone ``\\r`` become ``\\n``, and the last line gets one too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.errors import InputError
from starling.core.memory import format_bytes
from starling.stream.readers.files import sound

_NEWLINE, _RETURN, _SPACE, _TAB, _QUOTE, _HASH, _PERCENT, _SLASH = (np.uint8(ord(letter)) for letter in '\n\r \t"#%/')
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Dialect:
    """How fields are told apart. A space as delimiter means runs of blanks; only comma-like dialects have quotes."""

    delimiter: str

    @property
    def folds(self) -> bool:
        """Whether runs of blanks count as one delimiter."""
        return self.delimiter == " "

    @property
    def quotes(self) -> bool:
        """Whether a field may stand in double quotes. Not in tab- or space-separated text, where a quote is a letter."""
        return self.delimiter not in " \t"


@dataclass(frozen=True)
class LineBlock:
    """Some clean lines. `dropped` holds the places, among all lines of the block, of those left out.

    The text is in pyarrow's own memory: its threads may let go of it a moment after parsing, and Python's memory they
    could only free with the interpreter's lock, which is fatal while the interpreter shuts down.
    """

    text: pa.Buffer
    count: int
    longest: int
    first_line: int
    dropped: NDArray[np.int64]

    def line(self, kept: int) -> int:
        """Number in the file, from 1, of the block's clean line `kept`."""
        before = np.searchsorted(self.dropped - np.arange(len(self.dropped)), kept, side="right")
        return self.first_line + kept + int(before)

    def without_first(self) -> LineBlock:
        """The block without its first clean line (a header)."""
        place = self.line(0) - self.first_line
        dropped = np.insert(self.dropped, np.searchsorted(self.dropped, place), place)
        return LineBlock(self.text.slice(self._first_end()), self.count - 1, self.longest, self.first_line, dropped)

    def only_first(self) -> LineBlock:
        """The block's first clean line alone."""
        return LineBlock(self.text.slice(0, self._first_end()), min(self.count, 1), self.longest, self.first_line, self.dropped)

    def start(self, count: int) -> bytes:
        """The first bytes, at most `count`."""
        return bytes(memoryview(self.text)[:count])

    def _first_end(self) -> int:
        return self.start(self.longest).index(b"\n") + 1 if self.count else 0


def line_blocks(file: IO[bytes], name: str, dialect: Dialect, size: int) -> Iterator[LineBlock]:
    """The clean lines of a file, from blocks of at most `size` bytes cut at line ends."""
    first_line = 1
    for raw in raw_blocks(file, name, size):
        block = _clean_block(raw, name, dialect, first_line)
        first_line += block.count + len(block.dropped)
        yield block


def raw_blocks(file: IO[bytes], name: str, size: int) -> Iterator[NDArray[np.uint8]]:
    """Whole lines, about `size` bytes at a time. A block is valid until the next is asked for."""
    buffer, filled, at_start = bytearray(size), 0, True
    while True:
        with sound(name):
            count = file.readinto(memoryview(buffer)[filled:])  # type: ignore[attr-defined]
        filled += count
        if at_start and buffer.startswith(_BOM) and (not count or filled == size):
            buffer[: len(_BOM)] = b" " * len(_BOM)
        if not count:
            break
        if filled == size:
            end = buffer.rfind(b"\n") + 1
            if not end:
                raise InputError(f"{name} has a line longer than {format_bytes(size)}. Is it a text file of rows?")
            yield np.frombuffer(buffer, np.uint8, end)
            buffer[: size - end] = buffer[end:]
            filled, at_start = size - end, False
    if filled:
        yield np.frombuffer(buffer, np.uint8, filled)


def _clean_block(raw: NDArray[np.uint8], name: str, dialect: Dialect, first_line: int) -> LineBlock:
    text = pa.allocate_buffer(len(raw) + 1)
    out = np.frombuffer(text, np.uint8)
    how = np.uint8(ord(dialect.delimiter)), dialect.folds, dialect.quotes
    lines, longest = count_clean_lines(raw, *how)
    if lines >= 0:
        out[:-1] = raw
        return LineBlock(text.slice(0, len(raw)), lines, longest, first_line, np.empty(0, np.int64))
    dropped = np.empty(1024, np.int64)
    while True:
        size, kept, gone, longest, unclosed = clean_lines(raw, out, *how, dropped)
        if gone <= len(dropped):
            break
        dropped = np.empty(gone, np.int64)  # more comments than there was room for their places: once more
    block = LineBlock(text.slice(0, size), kept, longest, first_line, dropped[:gone].copy())
    if unclosed >= 0:
        raise InputError(
            f"Expected every quote to be closed on its line, got an open one at line {block.line(unclosed)} of {name}. "
            "Close it, or write a quote inside a quoted field twice."
        )
    return block


@compiled
def count_clean_lines(raw: NDArray[np.uint8], delimiter: np.uint8, folds: bool, quotes: bool) -> tuple[int, int]:
    """The number of lines of a text that is clean as it stands, or -1; and how long they are at most.

    Most blocks of most files are clean, so this only compares neighbouring bytes, without a branch, and the compiler makes
    of it a loop over 32 bytes at once: it costs a fiftieth of `clean_lines`, to which anything suspicious is left.
    """
    n = len(raw)
    if n == 0 or raw[n - 1] != _NEWLINE or raw[0] <= _SLASH:
        return -1, 0
    lines, longest, gap = 0, 0, 0
    for begin in range(0, n, _CHUNK):
        letters = raw[begin : begin + _CHUNK]
        before, after = (letters[:-1], letters[1:]) if begin == 0 else (raw[begin - 1 : begin + _CHUNK - 1], letters)
        if _is_suspicious_folded(before, after) if folds else _is_suspicious(before, after, delimiter, quotes):
            return -1, 0
        found = 0
        for i in range(len(letters)):
            found += letters[i] == _NEWLINE
        lines += found
        gap = 0 if found else gap + _CHUNK
        longest = max(longest, gap + 2 * _CHUNK)
    return lines, longest


@compiled
def _is_suspicious(before: NDArray[np.uint8], after: NDArray[np.uint8], delimiter: np.uint8, quotes: bool) -> bool:
    """Whether two neighbours may be a blank beside a delimiter or line end, a comment, an empty line, a quoted field."""
    suspicious = False
    for i in range(len(after)):
        last, letter = before[i], after[i]
        begins = (last == _NEWLINE) | (last == delimiter)
        ends = (letter == _NEWLINE) | (letter == delimiter)
        suspicious |= begins & (letter != delimiter) & ((letter == _SPACE) | (letter == _TAB))
        suspicious |= ends & (last != delimiter) & ((last == _SPACE) | (last == _TAB))
        suspicious |= (last == _NEWLINE) & (letter <= _SLASH) & (letter != delimiter)
        suspicious |= (letter == _RETURN) | (begins & quotes & (letter == _QUOTE))
    return suspicious


@compiled
def _is_suspicious_folded(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """The same where runs of blanks are the delimiter: only single spaces inside a line are as they should be."""
    suspicious = False
    for i in range(len(after)):
        last, letter = before[i], after[i]
        suspicious |= (last == _SPACE) & ((letter == _SPACE) | (letter == _NEWLINE))
        suspicious |= (last == _NEWLINE) & (letter <= _SLASH)
        suspicious |= (letter == _RETURN) | (letter == _TAB)
    return suspicious


@compiled
def clean_lines(
    raw: NDArray[np.uint8], text: NDArray[np.uint8], delimiter: np.uint8, folds: bool, quotes: bool, dropped: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Write the clean form of `raw` into `text`.

    Gives bytes written, lines kept, lines dropped, the length of the longest kept, and the first with an open quote or -1.
    """
    size, kept, gone, longest, unclosed = 0, 0, 0, 0, -1
    i, n = 0, len(raw)
    while i < n:
        while i < n and _is_blank(raw[i], delimiter, folds):
            i += 1
        if i == n or _is_end(raw[i]) or _is_comment(raw, i):
            while i < n and not _is_end(raw[i]):
                i += 1
            if gone < len(dropped):
                dropped[gone] = kept + gone
            gone += 1
        else:
            begin = size
            i, size, closed = _clean_line(raw, i, text, size, delimiter, folds, quotes)
            if not closed and unclosed < 0:
                unclosed = kept
            text[size] = _NEWLINE
            size += 1
            kept += 1
            longest = max(longest, size - begin)
        if i + 1 < n and raw[i] == _RETURN and raw[i + 1] == _NEWLINE:
            i += 1
        i += 1
    return size, kept, gone, longest, unclosed


@compiled
def _clean_line(
    raw: Any, i: int, text: Any, size: int, delimiter: np.uint8, folds: bool, quotes: bool
) -> tuple[int, int, bool]:
    """Copy one line from its first character that is no blank.

    Gives where it ends, the bytes written so far, and whether its quotes are closed.
    """
    n = len(raw)
    field_begins, closed = True, True
    while i < n and not _is_end(raw[i]):
        letter = raw[i]
        if letter == _QUOTE and quotes and field_begins:
            begin = i
            i, closed = _after_quoted(raw, i)
            for k in range(begin, i):
                text[size] = raw[k]
                size += 1
            field_begins = False
        elif _is_blank(letter, delimiter, folds):
            begin = i
            while i < n and _is_blank(raw[i], delimiter, folds):
                i += 1
            if i < n and not _is_end(raw[i]):
                if folds:
                    text[size] = delimiter
                    size += 1
                elif raw[i] != delimiter and not field_begins:
                    for k in range(begin, i):
                        text[size] = raw[k]
                        size += 1
        else:
            text[size] = letter
            size += 1
            i += 1
            field_begins = letter == delimiter
    return i, size, closed


@compiled
def _after_quoted(raw: Any, i: int) -> tuple[int, bool]:
    """The place after the quoted field that begins at i, and whether its quote is closed; a doubled quote is a letter."""
    n = len(raw)
    i += 1
    while i < n and not _is_end(raw[i]):
        if raw[i] == _QUOTE:
            if i + 1 == n or raw[i + 1] != _QUOTE:
                return i + 1, True
            i += 1
        i += 1
    return i, False


@compiled
def _is_blank(letter: np.uint8, delimiter: np.uint8, folds: bool) -> bool:
    return letter in (_SPACE, _TAB) and (folds or letter != delimiter)


@compiled
def _is_end(letter: np.uint8) -> bool:
    return letter in (_NEWLINE, _RETURN)


@compiled
def _is_comment(raw: Any, i: int) -> bool:
    letter = raw[i]
    return letter in (_HASH, _PERCENT) or (letter == _SLASH and i + 1 < len(raw) and raw[i + 1] == _SLASH)
