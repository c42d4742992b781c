"""Columns of names or small numbers: types, and the names behind class labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from starling.core.errors import InputError, nearest
from starling.core.npy import NpyReader, NpyWriter
from starling.stream.tables.columns import DenseColumn, RowName, as_array, check_numbers

NO_NAME = -1
_BLOCK = 1 << 18
_LARGEST_TYPE = (1 << 31) - 1


class Names:
    """Numbers for names: the given order of names, or as they come and in the end sorted."""

    def __init__(self, noun: str, given: Iterable[str] = ()) -> None:
        self._noun = noun
        self._given = tuple(given)
        self._number = {name: number for number, name in enumerate(self._given)}

    def encode(self, values: pa.Array, name: RowName) -> NDArray[np.int64]:
        """The number of each name, −1 for null."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        codes: NDArray[np.int64] = encoded.indices.fill_null(NO_NAME).to_numpy(zero_copy_only=False).astype(np.int64)
        for code, text in enumerate(encoded.dictionary.to_pylist()):
            if self._given and text not in self._number:
                row = int(np.argmax(codes == code))
                raise InputError(f"Unknown {self._noun} '{text}' at {name(row)}. {nearest(text, self._given)}")
            self._number.setdefault(text, len(self._number))
        numbers = [*(self._number[text] for text in encoded.dictionary.to_pylist()), NO_NAME]
        return np.array(numbers, np.int64)[codes]

    @property
    def final(self) -> tuple[str, ...]:
        """All names in the order of their final numbers."""
        return self._given or tuple(sorted(self._number))

    def final_numbers(self) -> NDArray[np.int64]:
        """The final number of each provisional one; the last entry keeps −1 as it is."""
        place = {name: number for number, name in enumerate(self.final)}
        return np.array([*(place[name] for name in self._number), NO_NAME], np.int64)


class TypeColumn(DenseColumn):
    """Node or edge types, by name or by number, stored in the smallest unsigned type."""

    def __init__(self, path: Path, noun: str, given: tuple[str, ...] = ()) -> None:
        super().__init__(path)
        self._noun, self._given = noun, given
        self._named = bool(given)
        self._names = Names(noun, given)
        self.counts = np.zeros(0, np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the types, none where they were only numbers."""
        return self._names.final if self._named else ()

    def append(self, values: Any, name: RowName) -> None:
        """Check and add the types of the next rows."""
        if is_text(values):
            if self.rows and not self._named:
                raise InputError(f"Expected {self._noun}s as numbers like the first ones, got names at {name(0)}.")
            self._named = True
            values = self._names.encode(as_strings(values), name)
            if (values == NO_NAME).any():
                raise InputError(f"Expected a {self._noun} in every row, got none at {name(int(np.argmin(values)))}.")
        super().append(values, name)

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """As int32 for now."""
        check_numbers(values, f"a {self._noun}", name)
        limit = len(self._given) - 1 if self._given else _LARGEST_TYPE
        whole = values.dtype.kind != "f" and values.size == len(values)
        wrong = (values < 0) | (values > limit) if whole else np.ones(1, np.bool_)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"Expected each {self._noun} as one number in [0, {limit + 1}), got {values[row]} at {name(row)}.")
        return values.reshape(-1).astype(np.int32)

    def finish(self) -> None:
        """Give names their final numbers and types their final width."""
        super().finish()
        if not self.rows:
            return
        numbers = self._names.final_numbers()
        plain = not self._named or bool(self._given)
        largest = max((int(block.max()) for block in NpyReader(self.path).blocks(_BLOCK)), default=0)
        self.counts = np.zeros(max(largest + 1, len(self.names)), np.int64)
        dtype = np.min_scalar_type(len(self.counts) - 1)
        for block in rewritten(self.path, dtype):
            block[:] = block if plain else numbers[block]
            self.counts += np.bincount(block, minlength=len(self.counts))


def rewritten(path: Path, dtype: DTypeLike) -> Iterable[NDArray[Any]]:
    """The blocks of a ``.npy`` file, to be changed in place; what they then hold is written back as `dtype`."""
    old = path.with_suffix(".old")
    path.rename(old)
    reader = NpyReader(old)
    with NpyWriter(path, dtype, reader.shape[1:]) as writer:
        for block in reader.blocks(_BLOCK):
            yield block
            writer.append(block)
    old.unlink()


def is_text(values: Any) -> bool:
    """Whether a column's values are names."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
    return as_array(values).dtype.kind in "UOT"


def as_strings(values: Any) -> pa.Array:
    """Names as a pyarrow array."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return pa.array(as_array(values).tolist(), pa.string())
