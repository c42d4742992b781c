"""Where the rows of a node table belong, and whether there is exactly one for every node that needs one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.core.npy import NpyReader, NpyWriter
from starling.kernels.bitset import add_equal, add_new, empty_bits, first_missing, full_bits, ones_before, ranks
from starling.stream.id_index import IdIndex
from starling.stream.raw import TableReader
from starling.stream.room import Room
from starling.stream.tables.columns import RowOrder
from starling.stream.tables.spool import SpooledTable


@dataclass(frozen=True)
class NodeTypes:
    """The type code of every node in a file, the names behind the codes, and how many nodes have each."""

    path: Path
    names: tuple[str, ...]
    counts: NDArray[np.int64]


class RowPlaces:
    """Finds where rows belong; `types` must be set before tables of one type come."""

    def __init__(self, index: IdIndex, room: Room) -> None:
        self._index, self._room = index, room
        self.types: NodeTypes | None = None

    def order(self, table: SpooledTable, positions: Path | None, scratch: Path) -> RowOrder | None:
        """The order that rows are to be put into, None when they stand right already; refuses missing and repeated rows.

        `positions` holds the node of each row, None for a table whose rows are in node order.
        """
        if positions is None:
            self._check_count(table)
            return None
        reader = table.reader
        wanted = full_bits(self._index.nodes) if reader.of_type is None else self._of_type(reader)
        before = np.empty(len(wanted), np.int64)
        ones_before(wanted, before)
        seen, start, in_order = empty_bits(self._index.nodes), 0, True
        places = scratch / "places.npy"
        with NpyWriter(places, np.int64) as writer:
            for block in NpyReader(positions).blocks(self._room.rows(64)):
                self._check_rows(reader, block, start, wanted, seen)
                place = np.empty(len(block), np.int64)
                ranks(wanted, before, block, place)
                in_order = in_order and np.array_equal(place, np.arange(start, start + len(block)))
                writer.append(place)
                start += len(block)
        missing = first_missing(seen, wanted)
        if missing >= 0:
            raise InputError(
                f"Node {user_id(self._index, missing)} is missing from {reader.name}, which needs a row for every node"
                f"{_of_its_type(reader)}. Add it."
            )
        return None if in_order else RowOrder(places, self._room, scratch)

    def _check_count(self, table: SpooledTable) -> None:
        reader, expected = table.reader, self._index.nodes
        if reader.of_type is not None:
            types, code = self._type_code(reader)
            expected = int(types.counts[code])
        if table.rows != expected:
            raise InputError(
                f"Expected {expected:,} rows in {reader.rows_name}, one for each node{_of_its_type(reader)}, got {table.rows:,}. "
                "Fix the file or the number of nodes."
            )

    def _check_rows(
        self, reader: TableReader, block: NDArray[Any], start: int, wanted: NDArray[np.uint64], seen: NDArray[np.uint64]
    ) -> None:
        """Add the nodes of a block of rows to those seen; each must be new, and wanted."""
        repeated = add_new(seen, block)
        if repeated >= 0:
            raise InputError(
                f"Node {user_id(self._index, int(block[repeated]))} stands twice in {reader.name}, the second time at "
                f"{reader.place(start + repeated)}. Remove one of the rows."
            )
        if reader.of_type is None:
            return
        bits = wanted[block >> 6] >> (block & 63).astype(np.uint64)
        strange = np.flatnonzero(~bits & np.uint64(1))
        if len(strange):
            row = int(strange[0])
            raise InputError(
                f"Expected only nodes of type '{reader.of_type}' in {reader.name}, got node "
                f"{user_id(self._index, int(block[row]))} of another type at {reader.place(start + row)}."
            )

    def _type_code(self, reader: TableReader) -> tuple[NodeTypes, int]:
        if self.types is None or reader.of_type not in self.types.names:
            known = self.types.names if self.types else ()
            hint = nearest(str(reader.of_type), known) if known else "Give a table with the type name of every node."
            raise InputError(f"{reader.name} is for nodes of type '{reader.of_type}', which is no known type. {hint}")
        return self.types, self.types.names.index(reader.of_type)

    def _of_type(self, reader: TableReader) -> NDArray[np.uint64]:
        """The nodes of a table's type."""
        types, code = self._type_code(reader)
        bits, start = empty_bits(self._index.nodes), 0
        for block in NpyReader(types.path).blocks(self._room.rows(8)):
            add_equal(bits, block, code, start)
            start += len(block)
        return bits


def user_id(index: IdIndex, position: int) -> str:
    """What the user calls a node, as it is written in a message."""
    user = index.user_ids(position, position + 1)[0]
    return f"'{user}'" if index.kind == "string" else str(user)


def _of_its_type(reader: TableReader) -> str:
    return "" if reader.of_type is None else f" of type '{reader.of_type}'"
