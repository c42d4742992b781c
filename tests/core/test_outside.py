"""What comes from outside is one sentence; what is ours keeps its traceback."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
import torch

from starling.core.outside import outside_cause


def failed(number: int, name: str | None = "/some/place") -> OSError:
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (failed(errno.ENOSPC), 1, "No space left on the device while writing /some/place. Free some space"),
        (failed(errno.EDQUOT, None), 1, "No space left on the device. Free some space"),
        (failed(errno.EACCES), 2, "Cannot use /some/place: Permission denied."),
        (failed(errno.ENOTDIR), 2, "Cannot use /some/place: Not a directory."),
        (failed(errno.ENAMETOOLONG, "x" * 300), 2, f"Cannot use {'x' * 200}…: File name too long."),
        (MemoryError(), 1, "not enough memory"),
    ],
)
def test_sentences(error: Exception, status: int, sentence: str) -> None:
    told = outside_cause(error)
    assert told is not None
    assert told.exit_status == status
    assert sentence in str(told)


def test_memory_that_libraries_do_not_get() -> None:
    for ask in (lambda: torch.empty(1 << 50), lambda: np.empty(1 << 50)):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            ask()
        told = outside_cause(caught.value)
        assert told is not None
        assert told.exit_status == 1


@pytest.mark.parametrize(
    "error", [ValueError("wrong"), RuntimeError("shapes differ"), failed(errno.ENOENT), failed(errno.EACCES, None)]
)
def test_what_is_ours(error: Exception) -> None:
    assert outside_cause(error) is None
