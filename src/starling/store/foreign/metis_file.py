"""METIS ``.part`` files: line i is the part of node i.

``gpmetis graph 4`` writes one as ``graph.part.4``; KaMinPar, KaHIP and most other partitioners write the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.core.errors import InputError
from starling.store.parts import Parts

MOST_PARTS = 1 << 16
_BLOCK_BYTES = 1 << 24
_BLOCK_NODES = 1 << 20


def read_metis_part(path: Path, nodes: int, parts: int | None = None) -> Assignment:
    """The assignment in a ``.part`` file of a graph of `nodes` nodes; without `parts`, the largest number in it tells.

    Empty lines and lines that begin with ``%`` do not count.
    """
    owner = np.empty(nodes, np.int32)
    filled = 0
    for line, numbers in _numbers(Path(path)):
        if filled + len(numbers) > nodes:
            raise InputError(f"Expected {nodes:,} lines in {path}, one for each node, got more. Is it of another graph?")
        bad = np.flatnonzero((numbers < 0) | (numbers >= (MOST_PARTS if parts is None else parts)))
        if len(bad):
            allowed = f"a part from 0 to {parts - 1}" if parts is not None else f"a part number below {MOST_PARTS}"
            raise InputError(f"Expected {allowed} on each line of {path}, got {numbers[bad[0]]} near line {line + bad[0]:,}.")
        owner[filled : filled + len(numbers)] = numbers
        filled += len(numbers)
    if filled < nodes:
        raise InputError(f"Expected {nodes:,} lines in {path}, one for each node, got {filled:,}. Is it of another graph?")
    return Assignment("edge-cut", parts or int(owner.max(initial=0)) + 1, owner)


def write_metis_part(parts: Parts, path: Path) -> None:
    """Write the owner of every node, in the order of the imported graph."""
    with Path(path).open("w") as file:
        for owner in owners(parts):
            file.write("".join(f"{part}\n" for part in owner.tolist()))


def owners(parts: Parts) -> Iterator[NDArray[np.int64]]:
    """The owner of each node by position, block by block."""
    for start in range(0, parts.manifest.nodes, _BLOCK_NODES):
        yield parts.owner_of(np.asarray(parts.global_of_position[start : start + _BLOCK_NODES]))


def _numbers(path: Path) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The numbers of a file block by block, each with the line it begins at."""
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file. Give the .part file a partitioner wrote.")
    line = 1
    with path.open("rb") as file:
        while lines := file.readlines(_BLOCK_BYTES):
            try:
                yield line, np.array(lines, "S").astype(np.int64)
            except ValueError:
                yield line, _careful_numbers(lines, line, path)
            line += len(lines)


def _careful_numbers(lines: list[bytes], first: int, path: Path) -> NDArray[np.int64]:
    """The numbers of lines that are not all numbers: some may be empty or remarks, and a wrong one is named."""
    numbers = []
    for line, text in enumerate(lines, start=first):
        text = text.strip()
        if not text or text.startswith(b"%"):
            continue
        try:
            numbers.append(int(text))
        except ValueError:
            shown = text[:40].decode(errors="replace")
            raise InputError(f"Expected one part number on line {line:,} of {path}, got '{shown}'.") from None
    return np.array(numbers, np.int64)
