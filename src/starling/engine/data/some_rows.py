"""Some rows of a table, and the same scaling for rows that were read another way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.engine.features import ColumnScaled, Features, RowNormalized


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
