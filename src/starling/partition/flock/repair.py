"""Parts that METIS left empty get half of the fullest part each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fill_empty_parts(part: NDArray[np.uint16], weight: NDArray[np.integer], load: NDArray[np.int64]) -> None:
    """Change `part` and `load` so that every part has a node, where there are enough; places near each other stay together."""
    sizes = np.bincount(part, minlength=len(load))
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    for q in empty:
        fullest = int(np.argmax(sizes))
        half = len(members[fullest]) // 2
        members[fullest], members[q] = members[fullest][half:], members[fullest][:half]
        sizes[fullest], sizes[q] = len(members[fullest]), half
        part[members[q]] = q
    load[:] = np.bincount(part, weight if len(weight) else None, minlength=len(load))
