"""The flock graph: one row a flock, its ties to other flocks, only the heaviest where memory is short."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


@compiled
def contract_rows(
    low: int,
    start: NDArray[np.integer],
    neighbour: NDArray[np.int32],
    weight: NDArray[np.int32],
    label: NDArray[np.int32],
    member: NDArray[np.int32],
    first: NDArray[np.int64],
    c0: int,
    c1: int,
    keep: int,
    columns: NDArray[np.int32],
    values: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> int:
    """Rows c0 … c1 − 1 of the flock graph: flocks tied to (ascending), strengths, and how many of each row; the number of all.

    The members of flock c are ``member[first[c] : first[c + 1]]``, or the places themselves where `member` is empty. Rows
    are cut to the `keep` strongest ties; of equal ones the lower flock stays. `label` is the flock of each place.
    """
    strength = np.zeros(len(first) - 1, np.int32)
    seen = np.empty(1024, np.int32)
    total = 0
    for c in range(c0, c1):
        found = 0
        for at in range(first[c], first[c + 1]):
            row = (member[at] if len(member) else at) - low
            needed = found + start[row + 1] - start[row]
            if needed > len(seen):
                seen = _grown(seen, found, 2 * needed)
            for e in range(start[row], start[row + 1]):
                d = label[neighbour[e]]
                if d != c:
                    if strength[d] == 0:
                        seen[found] = d
                        found += 1
                    strength[d] += weight[e] if len(weight) else 1
        ties = np.sort(seen[:found])
        if found > keep:
            heaviest = np.argsort(-strength[ties], kind="mergesort")[:keep]
            kept = np.sort(ties[heaviest])
        else:
            kept = ties
        for k in range(len(kept)):
            columns[total + k] = kept[k]
            values[total + k] = strength[kept[k]]
        total += len(kept)
        lengths[c - c0] = len(kept)
        for k in range(found):
            strength[ties[k]] = 0
    return total


@compiled
def _grown(array: NDArray[np.int32], used: int, room: int) -> NDArray[np.int32]:
    larger = np.empty(room, np.int32)
    larger[:used] = array[:used]
    return larger


@compiled
def transpose_rows(
    start: NDArray[np.int64],
    column: NDArray[np.int32],
    value: NDArray[np.int32],
    to_start: NDArray[np.int64],
    to_column: NDArray[np.int32],
    to_value: NDArray[np.int32],
) -> None:
    """Fill the transpose of a square matrix; its columns ascend."""
    n = len(start) - 1
    to_start[:] = 0
    for e in range(len(column)):
        to_start[column[e] + 1] += 1
    for row in range(n):
        to_start[row + 1] += to_start[row]
    cursor = to_start[:-1].copy()
    for row in range(n):
        for e in range(start[row], start[row + 1]):
            at = cursor[column[e]]
            to_column[at] = row
            to_value[at] = value[e]
            cursor[column[e]] += 1


@compiled
def merge_rows(
    start: NDArray[np.int64],
    column: NDArray[np.int32],
    value: NDArray[np.int32],
    other_start: NDArray[np.int64],
    other_column: NDArray[np.int32],
    other_value: NDArray[np.int32],
    to_start: NDArray[np.int64],
    to_column: NDArray[np.int32],
    to_value: NDArray[np.int32],
) -> int:
    """The entries of both matrices (columns ascending), the larger value where they share one; returns how many."""
    at = 0
    for row in range(len(start) - 1):
        to_start[row] = at
        i, j = start[row], other_start[row]
        while i < start[row + 1] or j < other_start[row + 1]:
            left = column[i] if i < start[row + 1] else np.int32(2147483647)
            right = other_column[j] if j < other_start[row + 1] else np.int32(2147483647)
            to_column[at] = min(left, right)
            to_value[at] = max(value[i] if left <= right else 0, other_value[j] if right <= left else 0)
            i += left <= right
            j += right <= left
            at += 1
    to_start[len(start) - 1] = at
    return at


@compiled
def coarse_replicas(
    start: NDArray[np.int64], column: NDArray[np.int32], mass: NDArray[np.integer], part: NDArray[np.integer], parts: int
) -> int:
    """Copies beyond the owned ones, if every member of a flock saw what the flock sees: it ranks starts, nothing more."""
    mark, copies = np.full(parts, -1, np.int64), 0
    for c in range(len(start) - 1):
        mark[part[c]] = c
        for e in range(start[c], start[c + 1]):
            q = part[column[e]]
            if mark[q] != c:
                mark[q] = c
                copies += mass[c]
    return copies
