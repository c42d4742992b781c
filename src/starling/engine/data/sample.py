"""The second stage: the neighbours that a step's targets need, hop by hop, as blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.ledger import Ledger
from starling.comm.tags import Channel
from starling.engine.data.neighbours import Neighbourhood
from starling.engine.data.schedule import Scheduled
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.frontier import FrontierPool
from starling.plan.batch import Block
from starling.plan.hops import Moment


@dataclass(frozen=True, eq=False)
class Sampled:
    """What a step computes on: blocks, outermost first, and the global ids of the first one's sources.

    The targets are the first of the last block's destinations, in their order.
    """

    scheduled: Scheduled
    inputs: NDArray[Any]
    blocks: tuple[Block, ...]
    sent: Counter[int] = field(default_factory=Counter)
    """Bytes that sampling has sent to each worker."""

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return self.inputs.nbytes + sum(
            array.nbytes
            for block in self.blocks
            for array in (block.offsets, block.neighbours, block.edge, block.row_scale, block.edge_scale, block.degree)
            if array is not None
        )


class BlockSampler:
    """Samples a worker's share of steps; every worker samples the same steps in the same order."""

    def __init__(self, neighbourhood: Neighbourhood, hops: int, seed: int, ledger: Ledger | None = None) -> None:
        self._neighbourhood, self._hops, self._seed, self._ledger = neighbourhood, hops, seed, ledger or Ledger(1)
        self._frontiers = FrontierPool(neighbourhood.rows)

    def __call__(self, scheduled: Scheduled) -> Sampled:
        """All hops of a step."""
        calls = Calls(scheduled.number, Channel.SAMPLE)
        around, blocks = self._neighbourhood, list[Block]()
        targets = around.rows_of(scheduled.targets)
        with self._ledger.apart() as sent, self._frontiers.frontier(targets) as frontier:
            for hop in range(self._hops):
                taken = around.take(frontier.rows, Moment(self._seed, scheduled.epoch, scheduled.step, hop), calls)
                numbers = frontier.extend(taken.neighbours)
                blocks.append(Block(taken.offsets, numbers, taken.entry, len(frontier), taken.row_scale, taken.edge_scale))
            inputs = np.asarray(around.ids(frontier.rows.copy()))
        return Sampled(scheduled, inputs, tuple(reversed(blocks)), scheduled.sent + sent)
