"""Inverse relations: after all edges the reverse of each, as an edge of another type, so that models tell directions apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from starling.core.errors import InputError
from starling.core.npy import NpyReader, NpyWriter
from starling.stream.cleaning import EdgeFiles

_BLOCK = 1 << 20
_PREFIX = "rev_"


def add_inverses(files: EdgeFiles, types: int) -> None:
    """Double the edge files: type t of an inverse is t + `types`, its other tables are those of its edge. Two passes a file."""
    code = np.min_scalar_type(2 * types - 1)
    _double(files.pairs, None, lambda block: block[:, ::-1])
    for role, path in files.tables.items():
        if role == "type":
            _double(path, code, lambda block: block.astype(code) + code.type(types))
        else:
            _double(path, None, lambda block: block)


def inverse_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of all relations and their inverses: ``paper__rev_writes__author`` of ``author__writes__paper``, else ``rev_name``."""
    inverses = tuple(_inverse(name) for name in names)
    taken = set(names) & set(inverses)
    if taken:
        raise InputError(f"The relation '{min(taken)}' is there already. Leave out --inverse, or rename it.")
    return (*names, *inverses)


def _inverse(name: str) -> str:
    parts = name.split("__")
    return f"{parts[2]}__{_PREFIX}{parts[1]}__{parts[0]}" if len(parts) == 3 else f"{_PREFIX}{name}"


def _double(path: Path, dtype: DTypeLike | None, turned: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    """Write a file's rows, then all of them `turned`, in its place."""
    reader, longer = NpyReader(path), path.with_suffix(".doubled")
    with NpyWriter(longer, reader.dtype if dtype is None else dtype, reader.shape[1:]) as writer:
        for block in reader.blocks(_BLOCK):
            writer.append(block)
        for block in reader.blocks(_BLOCK):
            writer.append(turned(block))
    longer.replace(path)
