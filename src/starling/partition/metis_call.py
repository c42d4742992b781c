"""METIS on a graph that is ready for it, the one place that calls it: `metis`, flock's flock graph and sub-parts.

METIS gives up, whatever the graph, where memory runs out while it works, and else refuses settings that are not passed here: no
graph of ours (tiny, torn apart, more parts than nodes, weights of 0) made it fail. So giving up is an error and no other seed is
tried in its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import StarlingError
from starling.partition.quiet import printing_to_stderr


def cut_by_metis(
    parts: int,
    start: NDArray[Any],
    neighbour: NDArray[Any],
    *,
    what: str,
    instead: str,
    seed: int,
    node_weight: NDArray[Any] | None = None,
    edge_weight: NDArray[Any] | None = None,
    imbalance: float | None = None,
    volume: bool = False,
    recursive: bool = False,
) -> NDArray[np.int32]:
    """The part of each node of a symmetric graph.

    `what` names the graph, and `instead` what to do, in the sentence that says METIS gave up.
    """
    import pymetis

    width = pymetis.zero_copy_dtype()
    options = pymetis.Options(
        objtype=pymetis.ObjType.VOL if volume else pymetis.ObjType.CUT,
        seed=1 + seed % ((1 << 31) - 1),  # METIS draws from rand(), to which seeds 0 and 1 are the same
    )
    if imbalance is not None:
        options.ufactor = max(1, round(1000 * imbalance))
    try:
        with printing_to_stderr():
            found = pymetis.part_graph(
                parts,
                adjacency=pymetis.CSRAdjacency(np.ascontiguousarray(start, width), np.ascontiguousarray(neighbour, width)),
                vweights=None if node_weight is None else np.ascontiguousarray(node_weight, width),
                eweights=None if edge_weight is None else np.ascontiguousarray(edge_weight, width),
                recursive=recursive,
                options=options,
            )
    except (RuntimeError, MemoryError) as error:
        size = f"{len(start) - 1:,} nodes and {len(neighbour) // 2:,} connections"
        raise StarlingError(
            f"METIS gave up on cutting {what} ({size}) into {parts:,} parts, most likely because the machine has no memory left: "
            f"what it printed is above. Free some, or {instead}."
        ) from error
    return np.asarray(found.vertex_part, np.int32)
