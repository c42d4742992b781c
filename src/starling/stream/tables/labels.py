"""The labels `y`: one class a node, several, or a number to predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import Labels
from starling.stream.tables.categories import Names, as_strings, is_text, rewritten
from starling.stream.tables.columns import DenseColumn, RowName, as_array, check_numbers, small_numbers

NO_LABEL = -1
_FEW, _MANY = 16, 1_000_000
"""Class numbers beyond so many times the nodes and so many more are names of classes, not numbers of them, as with ids."""

Form = Literal["class names", "class numbers", "several classes", "real numbers"]


class LabelColumn(DenseColumn):
    """Labels as they come, in one of four forms that the first block decides.

    Class names or numbers are stored as int64 [N] (−1: no label), several classes a node as uint8 [N, C] of 0 and 1, real
    numbers as float32 (NaN: no label). `classes` is the number of classes the user gave, `names` their names.
    """

    def __init__(self, path: Path, classes: int | None, names: tuple[str, ...] = ()) -> None:
        super().__init__(path)
        self._classes, self._given = classes or (len(names) or None), names
        self._names = Names("class", names)
        self._form: Form | None = None
        self._labelled, self._largest, self._width = 0, NO_LABEL, 0

    def append(self, values: Any, name: RowName) -> None:
        """Check and add the labels of the next rows."""
        form: Form
        if is_text(values):
            form, values = "class names", self._names.encode(as_strings(values), name)
        else:
            if isinstance(values, pa.Array | pa.ChunkedArray) and pa.types.is_integer(values.type):
                values = values.fill_null(NO_LABEL)
            form = _form_of(as_array(values))
        if form in ("class numbers", "several classes") and self._form == "real numbers":
            form = "real numbers"
        if self._form not in (None, form):
            raise InputError(f"Expected labels as {self._form} like the first ones, got {form} at {name(0)}.")
        self._form = form
        super().append(values, name)

    def convert(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        """Labels of the form found, checked."""
        check_numbers(values, "labels", name)
        if self._form == "several classes":
            return self._several(values, name)
        if self._form == "real numbers":
            return self._real(values, name)
        return self._single(values.reshape(-1), name)

    def describe(self) -> Labels:
        """What the labels are, for the manifest."""
        if self._form == "real numbers":
            return Labels(kind="real", classes=0, labelled=self._labelled)
        if self._form == "several classes":
            return Labels(kind="multi", classes=self._width, labelled=self._labelled, names=self._given)
        names = self._names.final if self._form == "class names" else self._given
        classes = self._classes or max(self._largest + 1, len(names))
        return Labels(kind="single", classes=classes, labelled=self._labelled, names=names)

    def finish(self) -> None:
        """Give class names their final numbers."""
        super().finish()
        if self._form == "class numbers" and self._classes is None and self._largest > _FEW * self.rows + _MANY:
            raise InputError(
                f"Expected classes that are numbered from 0, got the label {self._largest:,}, which would make so many of them. "
                "Give the labels as text, or say with --classes how many there are."
            )
        if self._form != "class names" or self._given:
            return
        if self._classes is not None and len(self._names.final) > self._classes:
            raise InputError(
                f"Expected {self._classes} classes, got {len(self._names.final)} different labels. "
                f"Pass --classes {len(self._names.final)} or fix the labels."
            )
        numbers = self._names.final_numbers()
        for block in rewritten(self.path, np.int64):
            block[:] = numbers[block]

    def _single(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        limit = np.iinfo(np.int64).max if self._classes is None or self._form == "class names" else self._classes
        wrong = (values < NO_LABEL) | (values >= limit)
        if wrong.any():
            row = int(np.argmax(wrong))
            if values[row] < NO_LABEL:
                raise InputError(
                    f"Expected labels of at least 0, or -1 for none, got {values[row]} at {name(row)}. Fix the labels."
                )
            raise InputError(
                f"Expected labels in [0, {limit}), got {values[row]} at {name(row)}. "
                f"Pass --classes {int(values[row]) + 1} or fix the file."
            )
        labels = values.astype(np.int64)
        self._labelled += int(np.count_nonzero(labels >= 0))
        self._largest = max(self._largest, int(labels.max(initial=NO_LABEL)))
        return labels

    def _several(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        self._width = values.shape[1]
        if self._classes not in (None, self._width):
            raise InputError(f"Expected {self._classes} classes, got label rows of {self._width} at {name(0)}.")
        self._labelled += len(values)
        return small_numbers(values, np.uint8, 1, "labels of 0 and 1 for several classes a node", name)

    def _real(self, values: NDArray[Any], name: RowName) -> NDArray[Any]:
        if self._classes is not None and not self._given:
            raise InputError(f"Expected labels of {self._classes} classes, got real numbers at {name(0)}. Leave out --classes.")
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float32)
        infinite = np.isinf(numbers)
        if infinite.any():
            row = int(np.argwhere(infinite)[0][0])
            raise InputError(f"Expected finite labels, or NaN for none, got {values[row]} at {name(row)}. Fix the labels.")
        self._labelled += int(np.count_nonzero(~np.isnan(numbers.reshape(len(numbers), -1)).any(axis=1))) if len(numbers) else 0
        return numbers


def _form_of(values: NDArray[Any]) -> Form:
    if values.dtype.kind == "f":
        return "real numbers"
    return "several classes" if values.ndim == 2 and values.shape[1] > 1 else "class numbers"
