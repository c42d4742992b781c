"""Relations whose names say which node types they join, ``author__writes__paper``: do their edges?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import NpyReader
from starling.stream.cleaning import EdgeFiles

_BLOCK = 1 << 20
_ONE_WAY = "Fix the types of edges or nodes, or rename the edge type."
_BOTH_WAYS = (
    "Undirected edges have reverses of the same type. Import them as --directed, with --inverse if they are to go both ways, or "
    "rename the edge type."
)


def named_ends(relation: str) -> tuple[str, str] | None:
    """The node types of sources and destinations that a name of three parts says; others say nothing."""
    parts = relation.split("__")
    return (parts[0], parts[2]) if len(parts) == 3 else None


def check_relation_ends(
    relations: Sequence[str], kinds: Sequence[str], files: EdgeFiles, node_type: Path, *, both_ways: bool = False
) -> None:
    """Refuse a name with a node type that is not there, and an edge between nodes of other types. One pass over the edges.

    `node_type` has the type code of every node (one byte a node is held); names that do not have three parts say nothing.
    `both_ways`: edges have reverses of their own type, which a name with two node types does not allow.
    """
    ends = np.full((2, len(relations)), -1, np.int64)
    for code, relation in enumerate(relations):
        for side, kind in enumerate(named_ends(relation) or ()):
            if kind not in kinds:
                raise InputError(
                    f"The edge type '{relation}' names the node type '{kind}', which no node has. Node types are "
                    f"{', '.join(kinds)}; rename the one or the other."
                )
            ends[side, code] = list(kinds).index(kind)
    if (ends < 0).all():
        return
    reader = NpyReader(node_type)
    of_node, first = reader.read(0, reader.rows), 0
    pairs, types = NpyReader(files.pairs), NpyReader(files.tables["type"])
    for block, codes in zip(pairs.blocks(_BLOCK), types.blocks(_BLOCK), strict=True):
        _check_block(block, codes, ends, of_node, relations, kinds, first, _BOTH_WAYS if both_ways else _ONE_WAY)
        first += len(block)


def _check_block(
    pairs: NDArray[Any],
    codes: NDArray[Any],
    ends: NDArray[np.int64],
    of_node: NDArray[Any],
    relations: Sequence[str],
    kinds: Sequence[str],
    first: int,
    advice: str,
) -> None:
    for side, word in enumerate(("source", "destination")):
        expected, found = ends[side][codes], of_node[pairs[:, side]]
        wrong = np.flatnonzero((expected >= 0) & (expected != found))
        if len(wrong):
            edge = wrong[0]
            raise InputError(
                f"Expected edges of '{relations[codes[edge]]}' with a {word} of type '{kinds[expected[edge]]}', got one of type "
                f"'{kinds[found[edge]]}' at edge {first + edge:,}. {advice}"
            )
