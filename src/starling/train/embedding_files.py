"""Arrays of embedding tables in files: all workers' rows in one, in the order of the imported graph, and back to their owners.

The first worker writes and reads; rows travel block by block, so that nothing piles up on the way.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.npy import NpyWriter, map_array
from starling.engine.embeddings.table import EmbeddingTable


def write_array(table: EmbeddingTable, name: str, team: Team, tag: int, path: Path | None, nodes: int) -> None:
    """Write one array of everybody's tables, [nodes, D]; nodes that have no row are zero. Every worker calls this.

    `path` is the first worker's.
    """
    counts = _counts(table, team, tag)
    if team.rank != 0:
        for start, block in table.blocks(name):
            team.links.receive_list(0, tag)  # the first worker is ready for the next
            team.links.send_list(0, tag, _positions(table, start, len(block)))
            team.links.send_copy(0, tag, torch.from_numpy(block))
        return
    assert path is not None, "the first worker writes"
    rows = _blank(path, nodes, table.width)
    for start, block in table.blocks(name):
        rows[table.positions[start : start + len(block)]] = block
    for peer in range(1, team.size):
        done = 0
        while done < counts[peer]:
            team.links.send_list(peer, tag, np.empty(0, np.int64))
            positions = team.links.receive_list(peer, tag)
            with team.links.receive(peer, tag, (len(positions), table.width), torch.float32) as came:
                rows[positions] = came.numpy()
            done += len(positions)
    if isinstance(rows, np.memmap):
        rows.flush()


def read_array(table: EmbeddingTable, name: str, team: Team, tag: int, path: Path | None) -> None:
    """Give everybody's tables their rows of an array that `write_array` wrote. Every worker calls this."""
    counts = _counts(table, team, tag)
    if team.rank != 0:
        for start in range(0, table.count, table.block_rows):
            positions = _positions(table, start, table.block_rows)
            team.links.send_list(0, tag, positions)
            with team.links.receive(0, tag, (len(positions), table.width), torch.float32) as came:
                table.put(start, came.numpy(), name)
        return
    assert path is not None, "the first worker reads"
    rows = map_array(path)
    for start in range(0, table.count, table.block_rows):
        table.put(start, rows[_positions(table, start, table.block_rows)], name)
    for peer in range(1, team.size):
        done = 0
        while done < counts[peer]:
            positions = team.links.receive_list(peer, tag)
            team.links.send_copy(peer, tag, torch.from_numpy(np.ascontiguousarray(rows[positions])))
            done += len(positions)


def _counts(table: EmbeddingTable, team: Team, tag: int) -> list[int]:
    return [int(count[0]) for count in team.all_lists(tag, np.array([table.count]))]


def _positions(table: EmbeddingTable, start: int, count: int) -> NDArray[np.int64]:
    return np.ascontiguousarray(table.positions[start : start + count], np.int64)


def _blank(path: Path, count: int, width: int) -> NDArray[Any]:
    """A new array file to be filled in any order, its room on the disk taken already."""
    with NpyWriter(path, np.float32, (width,)) as file:
        file.rows = count
    begin, size = path.stat().st_size, 4 * count * width
    if size == 0:
        return np.empty((count, width), np.float32)
    with path.open("r+b") as opened:
        os.posix_fallocate(opened.fileno(), begin, size)  # a full disk is an error here, not a signal later
    return np.memmap(path, np.float32, "r+", begin, (count, width))
