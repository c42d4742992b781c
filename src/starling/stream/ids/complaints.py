"""What is said about an id that is wrong: which, where, and what to do. Each gives a function of occurrence and id."""

from __future__ import annotations

from collections.abc import Callable

from starling.core.errors import InputError
from starling.stream.raw import EdgeReader, TableReader

Complaint = Callable[[int, int | str], InputError]
"""Makes the error for the id of an occurrence: for edges, number 2e is the source of edge e and 2e + 1 its destination."""


def edge_id_out_of_range(edges: EdgeReader, nodes: int) -> Complaint:
    """An edge names a position that does not exist."""

    def complaint(occurrence: int, user: int | str) -> InputError:
        place = edges.place(occurrence // 2)
        if int(user) < 0:
            return InputError(f"Expected ids of at least 0, got {user} at {place}. Pass --ids relabel if ids are only names.")
        return InputError(f"Expected ids in [0, {nodes}), got {user} at {place}. Fix the file, or give the right --num-nodes.")

    return complaint


def row_id_out_of_range(table: TableReader, nodes: int) -> Complaint:
    """A table names a position that does not exist."""
    return lambda row, user: InputError(f"Expected ids in [0, {nodes}), got {user} at {table.place(row)}. Fix the file.")


def missing_from_table(edges: EdgeReader, table: TableReader) -> Complaint:
    """An edge names a node that the node table does not have."""
    return lambda occurrence, user: InputError(
        f"Id {quoted(user)} of an edge ({edges.place(occurrence // 2)}) is missing from the node table {table.name}. "
        "Add it there or remove the edge."
    )


def twice_in_table(table: TableReader) -> Complaint:
    """The node table has two rows for one node."""
    return lambda row, user: InputError(
        f"Id {quoted(user)} stands twice in the node table, the second time at {table.place(row)}. Remove one of the rows."
    )


def not_in_edges(table: TableReader) -> Complaint:
    """A table that does not define the nodes has a row for none of them."""
    return lambda row, user: InputError(
        f"Id {quoted(user)} at {table.place(row)} is in no edge. Remove the row, or give the table with --nodes so that its "
        "rows are the nodes."
    )


def quoted(user: int | str) -> str:
    """An id as it is written in a message."""
    return f"'{user}'" if isinstance(user, str) else str(user)
