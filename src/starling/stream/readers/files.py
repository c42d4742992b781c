"""The user's files, before their content: they are there, they are files, and what is wrong with them is one sentence."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from starling.core.errors import InputError

_BROKEN = (
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    NotImplementedError,  # zipfile: an unknown compression method
    RuntimeError,  # zipfile: an encrypted member
    SyntaxError,  # numpy: a header that is no Python literal
    ValueError,
    OverflowError,
)


def block_bytes(memory: int) -> int:
    """How much of a file to hold at once, given the memory the whole import may use (8 MiB for 1 GiB)."""
    return min(max(memory // 128, 1 << 20), 1 << 23)


def existing(name: str) -> Path:
    """The path of a file that exists and holds something."""
    path = Path(name)
    with sound(name):
        if path.is_dir():
            raise InputError(f"Expected a file, got the folder {name}. Name the file inside it.")
        if not path.exists():
            raise InputError(f"{name} does not exist. Check the name and the folder.")
        if not path.is_file():
            raise InputError(
                f"{name} is a pipe or a device, which can be read only once. Pass it as standard input: - < {name}."
            )
        if path.stat().st_size == 0:
            raise InputError(f"{name} is empty: it has no bytes at all. Copy or create it again.")
    return path


@contextmanager
def sound(name: str) -> Iterator[None]:
    """Turn whatever a parser says of a broken file into one sentence about that file.

    Wrap reads only, never a ``yield`` to other code: its errors are not the file's.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{name} cannot be read: {first_line(error.strerror or error)}.") from error
    except _BROKEN as error:
        reason = first_line(error) or type(error).__name__
        raise InputError(f"{name} is truncated or damaged ({reason}). Copy or create it again.") from error


def first_line(message: object) -> str:
    """The first line of a library's message, without its full stop."""
    lines = str(message).strip().splitlines()
    return lines[0].rstrip(". ") if lines else ""
