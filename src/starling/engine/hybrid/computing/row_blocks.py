"""Where a worker's rows are cut into blocks: between stretches of rows that wait for messages and stretches that do not."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray


def cut_blocks(waits: NDArray[np.bool_], *, most: int, least: int) -> NDArray[np.int64]:
    """The ends of the blocks, from 0 to N. `waits` says of each row whether messages add to it; a block has at most `most` rows.

    Stretches of at least `least` rows that all wait, or all do not, share no block with others. Parts are laid out to have such
    (store/sharding/inner_first.py); between them, and in batches, whose rows lie as they were found, blocks are mixed.
    """
    ends = np.concatenate([[0], np.flatnonzero(np.diff(waits)) + 1, [len(waits)]])
    long = np.diff(ends) >= least
    cuts = np.unique(np.concatenate([[0, len(waits)], ends[:-1][long], ends[1:][long]]))
    pieces = [np.linspace(low, high, -(-(high - low) // most) + 1)[:-1] for low, high in itertools.pairwise(cuts.tolist())]
    return np.concatenate([*pieces, [len(waits)]]).astype(np.int64)


def touched(rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The blocks in which some of these rows are."""
    found = np.zeros(len(bounds) - 1, np.bool_)
    found[np.searchsorted(bounds, rows, side="right") - 1] = True
    return found
