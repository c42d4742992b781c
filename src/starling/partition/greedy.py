"""`greedy`: PowerGraph's placement of each edge where its ends already are (Gonzalez et al., OSDI 2012)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.kernels.partition.greedy import place_greedily
from starling.kernels.partition.replicas import empty_sets
from starling.partition.contract import PartitionTask
from starling.partition.passes import Pairs, count_connections
from starling.partition.vertex_cut import VertexCut, place_edges


class Greedy(VertexCut):
    """Four rules, the least loaded part among equals:

    1. a part that has both ends; 2. else, where each end is somewhere, a part of the end with more edges to come; 3. else a
    part of the one end that is somewhere; 4. else the least loaded part.

    The paper sets no limit to a part. On a stream in crawl order, rule 3 then puts a whole connected graph into one part, so
    parts that have their share of the edges and `slack` more are passed over. Costs O(|E| p) time.
    """

    name = "greedy"
    summary = "each edge goes where its ends already are, by PowerGraph's four rules"
    source = "PowerGraph (Gonzalez et al. 2012)"
    passes = 2
    node_bytes = 4

    class Settings(VertexCut.Settings):
        """Settings of `greedy`."""

        slack: float = Field(0.05, ge=0, description="how many more edges than the mean a part may take, as a share of it")

    settings: Settings

    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        unplaced = count_connections(task.edges, task.progress)
        if not task.edges.directed:
            unplaced *= 2  # both directions of a connection will come
        sets, load = empty_sets(task.edges.nodes, task.parts), np.zeros(task.parts, np.int64)
        room = math.ceil((1 + self.settings.slack) * task.edges.edges / task.parts)

        def place(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            place_greedily(pairs, unplaced, sets, load, room, placed)

        return place_edges(task, place)
