"""Outputs of nodes as they are seen at their own times: every node with all edges of its past, in batches.

Unlike layer by layer, a node's inner rows are computed again for every moment they are seen at: that is what looking only into the
past costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from starling.engine.fill import Filler
from starling.engine.row_table import RowTable
from starling.engine.source import GraphSource
from starling.infer.batch_size import BatchSize
from starling.plan.source import NeighbourSource
from starling.plan.timed import PastNeighbours

_BATCH = 1024


@dataclass(frozen=True)
class PastInference:
    """Runs a model over some nodes of one graph, each with all its past; other nodes get zeros."""

    source: GraphSource
    neighbours: NeighbourSource
    rows: NDArray[Any]
    layers: int
    memory: int
    device: str = "cpu"

    @torch.no_grad()
    def outputs(self, model: nn.Module) -> RowTable:
        """What the model gives for these nodes [V, outputs]."""
        filler = Filler(self.source, device=self.device, reuse=False)
        past = PastNeighbours(self.neighbours, (("all",),) * self.layers, 0)
        training, table, size, start = model.training, None, BatchSize(self.memory // 2), 0
        model.eval()
        try:
            while start < len(self.rows):
                targets = self.rows[start : start + size.now]
                start += len(targets)
                plan = past.plan(0, 0, targets)
                x = torch.from_numpy(self.source.features.rows(plan.inputs)).to(self.device)
                size.saw(len(targets), x.nbytes)
                given = model(filler.fill(plan).views, x).float().cpu().numpy()
                if table is None:
                    table = RowTable(self.source.nodes, given.shape[1], memory=self.memory // 4)
                    for begin in range(0, self.source.nodes, _BATCH):
                        table.write(begin, np.zeros((min(_BATCH, self.source.nodes - begin), given.shape[1]), np.float32))
                table.scatter(targets, given)
        finally:
            model.train(training)
        return table if table is not None else RowTable(0, 1, memory=0)
