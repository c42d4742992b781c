"""Typed ranges inside a part: where nodes have types, those of a sub-part are numbered type by type, then by locality.

The nodes of one type in a part are then as many ranges of global ids as it has sub-parts: who has a node of the type, and in which
row of the type's tables, is a binary search in a few numbers (`store/policies.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest
from starling.core.npy import NpyReader
from starling.store.sharding.node_order import NodeOrder, offsets_of


def read_types(directory: Path, manifest: GraphManifest) -> NDArray[Any]:
    """The type of every node of a graph [V], as its place among the names of types."""
    if "type" not in manifest.node_tables:
        raise InputError(f"{directory} has node types but no table 'type' that says which node is of which. Import it again.")
    reader, types = NpyReader(directory / manifest.node_tables["type"].files[0]), len(manifest.node_types)
    codes = reader.read(0, reader.rows)
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if low < 0 or high >= types:
        wrong = low if low < 0 else high
        raise InputError(
            f"Expected node types in [0, {types}), got {wrong} in the table 'type' of {directory}. Import it again."
        )
    return codes


def order_by_type(
    order: NodeOrder, sub_offsets: Sequence[NDArray[np.int64]], codes: NDArray[Any], types: int
) -> list[NDArray[np.int64]]:
    """Number the nodes of each sub-part by type; those of one type keep their order. `order` is changed in place.

    Gives for each part the global ids [s · types + 1] at which its ranges begin, sub-part by sub-part and there type by type, and
    at which the last one ends. Costs 21 bytes a node of the largest sub-part.
    """
    found = []
    for offsets in sub_offsets:
        begins = []
        for low, high in itertools.pairwise(offsets.tolist()):
            kinds = codes[order.position_of_global[low:high]]
            order.sort(low, high, kinds, types - 1)
            begins.append(low + offsets_of(kinds, types)[:-1])
        found.append(np.concatenate([*begins, offsets[-1:]]))
    return found
