"""A graph as it comes in, ids still the user's: the messages between readers (or bridges) and the importer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from numpy.typing import NDArray

Ids: TypeAlias = "NDArray[Any] | pa.Array"
"""User ids of a block: an int64 array, or a pyarrow string array."""

IdKind = Literal["integer", "string"]

EDGE_ROLES = ("weight", "attr", "type", "time", "split")
NODE_ROLES = ("x", "y", "train", "val", "test", "type", "time")


@dataclass(frozen=True)
class CsrRows:
    """A block of rows of a sparse matrix; offsets start at 0."""

    offsets: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]
    width: int

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class RawEdges:
    """Consecutive edges of the input. `columns` holds one array a role (EDGE_ROLES), each with a row an edge.

    A `type` given by name is a pyarrow string array, one given by number an integer array.
    """

    source: Ids
    destination: Ids
    columns: dict[str, Any] = field(default_factory=dict)


class EdgeReader(ABC):
    """Edges of one input, in order, read once."""

    id_kind: IdKind
    roles: tuple[str, ...] = ()
    expected: int | None = None
    """How many edges there are, when the input says so beforehand."""
    total_bytes: int | None = None
    """Size of the input where it is all that is known beforehand (text); `bytes_read` then tells how far reading is."""
    bytes_read: int = 0

    @abstractmethod
    def blocks(self) -> Iterator[RawEdges]:
        """The edges, a block at a time."""

    def place(self, edge: int) -> str:
        """Where edge number `edge` stands in the input, for messages: "line 17 of edges.csv"."""
        return f"edge {edge}"


@dataclass(frozen=True)
class RawRows:
    """Consecutive rows of a node table; `ids` is None where row i is node i.

    A `type` or `y` given by name is a pyarrow string array (null: no label); -1 is no label in a column of whole numbers.
    """

    ids: Ids | None
    columns: dict[str, Any]


class TableReader(ABC):
    """One node table, read once, in order."""

    name: str
    id_kind: IdKind | None
    """Kind of the id column, None when rows are in node order."""
    roles: tuple[str, ...]
    of_type: str | None = None
    defines_nodes: bool = False
    """True for the table whose rows are the nodes: its order numbers them, and an edge to an id outside it is an error."""
    expected: int | None = None
    """How many rows there are, when the input says so beforehand."""

    @abstractmethod
    def blocks(self) -> Iterator[RawRows]:
        """The rows, a block at a time."""

    @property
    def rows_name(self) -> str:
        """What has the rows, for messages: the file, or the arrays in it."""
        return self.name

    def place(self, row: int) -> str:
        """Where row number `row` stands in the input, for messages: "line 17 of nodes.csv"."""
        return f"row {row} of {self.name}"


@dataclass(frozen=True)
class RawGraph:
    """Everything an import needs, from files, a generator or another library's graph object."""

    edges: EdgeReader
    tables: tuple[TableReader, ...] = ()
    nodes: int | None = None
    node_types: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    directed: bool | None = None
    """What the input says of itself; an undirected one may store each edge once. None where it says nothing."""
    origin: dict[str, str | int | float | bool | None] = field(default_factory=dict)
