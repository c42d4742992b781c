"""Tables laid end to end, some rows of a table, and the same scaling for rows that were read another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.features import ColumnScaled, Features, RowNormalized


class EndToEnd(Features):
    """Rows of several tables one after another, as global ids number the rows of shards; holds nothing a row."""

    def __init__(self, tables: Sequence[Features]) -> None:
        self._tables, self._ends = tables, np.cumsum([table.count for table in tables])
        self.count, self.width = int(self._ends[-1]), tables[0].width

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        owner = np.searchsorted(self._ends, index, side="right")
        out = np.empty((len(index), self.width), np.float32)
        for number in np.unique(owner).tolist():
            mine, table = np.flatnonzero(owner == number), self._tables[number]
            out[mine] = table.rows(index[mine] - (self._ends[number] - table.count))
        return out


class SomeRows(Features):
    """Row i is row `index[i]` of other features."""

    def __init__(self, features: Features, index: NDArray[Any]) -> None:
        self.count, self.width, self._features, self._index = len(index), features.width, features, index

    def _rows(self, index: NDArray[Any]) -> NDArray[np.float32]:
        return self._features.rows(self._index[index])


def scaled_like(features: Features, raw: Features) -> Features:
    """Raw rows with the scaling that `normalized` gave to `features`."""
    if isinstance(features, ColumnScaled):
        return ColumnScaled(raw, features.shift, features.factor)
    return RowNormalized(raw) if isinstance(features, RowNormalized) else raw
