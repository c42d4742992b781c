"""`hdrf`: high-degree replicated first (Petroni et al., CIKM 2015)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.kernels.partition.hdrf import place_hdrf
from starling.kernels.partition.replicas import empty_sets
from starling.partition.contract import PartitionTask
from starling.partition.passes import Pairs
from starling.partition.vertex_cut import VertexCut, place_edges


class Hdrf(VertexCut):
    """Each edge (u, v) goes to the part q with the highest C_rep + λ·C_bal.

    With d the degrees counted so far and θ_u = d_u / (d_u + d_v): g(u, q) = 1 + (1 − θ_u) where q has u, else 0;
    C_rep = g(u, q) + g(v, q); C_bal = (max − |q|) / (1 + max − min) over the parts' edges. Of equals, the lowest part. One
    pass, O(|E| p) time.
    """

    name = "hdrf"
    summary = "each edge goes where its end of lower degree is, weighed against balance"
    source = "Petroni et al. 2015"
    passes = 1
    node_bytes = 4

    class Settings(VertexCut.Settings):
        """Settings of HDRF."""

        balance: float = Field(1.1, ge=0, description="λ, what balance counts for; above 1 it can outweigh a replica")

    settings: Settings

    def _place(self, task: PartitionTask) -> NDArray[np.uint16]:
        seen, load = np.zeros(task.edges.nodes, np.int32), np.zeros(task.parts, np.int64)
        sets = empty_sets(task.edges.nodes, task.parts)

        def place(pairs: Pairs, placed: NDArray[np.uint16]) -> None:
            place_hdrf(pairs, seen, sets, load, self.settings.balance, placed)

        return place_edges(task, place)
