"""Where text comes from: a file or standard input, unpacked when it begins like gzip; its beginning can be looked at first."""

from __future__ import annotations

import gzip
import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from starling.core.errors import InputError
from starling.stream.readers.files import existing, sound

STANDARD_INPUT = "-"
COMMENTS = (b"#", b"%", b"//")
_GZIP = b"\x1f\x8b"
_HEAD_ROWS = 100
_LINE_LIMIT = 1 << 20


class TextInput(ABC):
    """Bytes of one text: `head` is opened to see what it is like, as often as wanted, and `open` once to read it all."""

    name: str
    total_bytes: int | None = None

    def head(self) -> AbstractContextManager[IO[bytes]]:
        """A context with the text, of which only the beginning may be there."""
        return self.open()

    @abstractmethod
    def open(self) -> AbstractContextManager[IO[bytes]]:
        """A context with the text from its first byte on."""

    def bytes_read(self) -> int:
        """How much of the input, packed as it is, has been read since it was opened."""
        return 0


class TextFile(TextInput):
    """A file."""

    def __init__(self, name: str) -> None:
        self.name, self._path = name, existing(name)
        self._raw: IO[bytes] | None = None
        with sound(name), self._path.open("rb") as file:
            self.total_bytes, self._gzip = self._path.stat().st_size, file.read(2) == _GZIP
        if name.endswith(".gz") and not self._gzip:
            raise InputError(f"{name} is not a gzip file, though its name ends in .gz. Rename it if it is plain text.")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The text from its first byte on."""
        with _opened(self._path, self.name) as raw:
            self._raw = raw
            with _unpacked(raw, self._gzip) as text:
                yield text

    def bytes_read(self) -> int:
        """The place in the file."""
        return self._raw.tell() if self._raw is not None and not self._raw.closed else 0


class StandardInput(TextInput):
    """Standard input. It cannot be opened twice, so what was read of its beginning is kept and played back.

    Only the first rows are looked at beforehand, a fixed number of them, so that nothing depends on how fast they come and
    the import of an endless stream begins at once.
    """

    def __init__(self) -> None:
        self.name = "standard input"
        self._head = _Recorder()
        with sound(self.name):
            raw = io.BufferedReader(self._head)
            self._gzip = raw.peek(2)[:2] == _GZIP
            with _unpacked(raw, self._gzip) as text:
                self._sample = b"".join(_first_rows(text))
        if not self._head.data:
            raise InputError("Standard input is empty. Pipe the edges into it, or name a file.")

    @contextmanager
    def head(self) -> Iterator[IO[bytes]]:
        """The first rows."""
        yield io.BytesIO(self._sample)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The text from its first byte on."""
        with _unpacked(io.BufferedReader(_Replay(bytes(self._head.data))), self._gzip) as text:
            yield text


def _opened(path: Path, name: str) -> IO[bytes]:
    with sound(name):
        return path.open("rb", buffering=0)


@contextmanager
def _unpacked(raw: Any, packed: bool) -> Iterator[IO[bytes]]:
    if not packed:
        yield raw
        return
    with gzip.GzipFile(fileobj=raw) as text:
        yield cast(IO[bytes], text)


def _first_rows(text: IO[bytes]) -> Iterator[bytes]:
    rows = 0
    while rows < _HEAD_ROWS and (line := text.readline(_LINE_LIMIT)):
        content = line.strip()
        rows += bool(content) and not content.startswith(COMMENTS)
        yield line


def _from_stdin(count: int) -> bytes:
    """What has come so far, waiting only when nothing has."""
    return cast(io.BufferedReader, sys.stdin.buffer).read1(count)


class _Recorder(io.RawIOBase):
    """Standard input, remembering all that was read of it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        came = _from_stdin(len(out))
        self.data += came
        out[: len(came)] = came
        return len(came)


class _Replay(io.RawIOBase):
    """What was recorded, then the rest of standard input."""

    def __init__(self, head: bytes) -> None:
        self._head = memoryview(head)

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        came = self._head[: len(out)] or _from_stdin(len(out))
        self._head = self._head[len(out) :]
        out[: len(came)] = came
        return len(came)
