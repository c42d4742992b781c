"""Which nodes stand together inside a part when it is cut into sub-parts: small groups whole, large ones for METIS to cut."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from starling.core.assignment import Assignment
from starling.core.progress import SILENT, Progress
from starling.kernels.radix import invert, stable_order
from starling.partition.nearby import LARGEST_GROUP, number_sub_parts, ties_that_fit
from starling.store.sharding.locality import streamed_locality
from starling.store.sharding.survey import survey_edges
from starling.stream.edges import EdgeStream

_NODES_A_GROUP = 16


def order_for_sub_parts(
    edges: EdgeStream, assignment: Assignment, sub_parts: int, *, memory: int, seed: int, progress: Progress = SILENT
) -> Assignment:
    """The assignment with a locality whose ranges make cheap sub-parts."""
    mark = _groups(edges, assignment, memory, progress)
    locality = number_sub_parts(
        edges, assignment.owner, assignment.parts, mark, sub_parts, memory=memory, seed=seed, progress=progress
    )
    return dataclasses.replace(assignment, locality=locality)


def _groups(edges: EdgeStream, assignment: Assignment, memory: int, progress: Progress) -> NDArray[np.int32]:
    """What stays whole: groups the method made, where they are small; else single nodes, or sixteen where those do not fit.

    Either way in the order that puts clusters together, which is kept inside a sub-part.
    """
    locality = assignment.locality
    if locality is not None and int(np.bincount(locality).max(initial=0)) <= LARGEST_GROUP:
        return locality
    if locality is None:
        rank = streamed_locality(edges, assignment.owner, survey_edges(edges, progress=progress), progress=progress)
    else:
        order = stable_order(locality, int(locality.max(initial=0)))
        rank = np.empty_like(order)
        invert(order, rank)
    fits = edges.edges <= assignment.parts * ties_that_fit(edges, memory)
    return (rank if fits else rank // _NODES_A_GROUP).astype(np.int32, copy=False)
