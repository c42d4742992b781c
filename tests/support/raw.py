"""Raw graphs read to the end, for tests of what makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from starling.stream.raw import CsrRows, EdgeReader, RawEdges, RawRows, TableReader


def all_edges(reader: EdgeReader) -> RawEdges:
    """All blocks of an edge reader as one; checks that the reader keeps its promises."""
    blocks = list(reader.blocks())
    roles = set(blocks[0].columns) if blocks else set()
    columns = {role: joined([block.columns[role] for block in blocks]) for role in roles}
    source, destination = (joined([getattr(block, end) for block in blocks]) for end in ("source", "destination"))
    assert isinstance(source, pa.Array) == (reader.id_kind == "string")
    assert reader.expected in (None, len(source))
    assert not blocks or roles == set(reader.roles)
    return RawEdges(source, destination, columns)


def all_rows(table: TableReader) -> RawRows:
    """All blocks of a table as one; checks that the reader keeps its promises."""
    blocks = list(table.blocks())
    names = set(blocks[0].columns)
    assert names == set(table.roles)
    ids = None if table.id_kind is None else joined([block.ids for block in blocks])
    return RawRows(ids, {name: joined([block.columns[name] for block in blocks]) for name in names})


def joined(parts: list[Any]) -> Any:
    """Arrays of any kind, one after the other."""
    if not parts:
        return np.zeros(0, np.int64)
    if isinstance(parts[0], pa.Array):
        return pa.concat_arrays(parts)
    if isinstance(parts[0], CsrRows):
        assert len(parts) == 1
        return parts[0]
    return np.concatenate(parts)
