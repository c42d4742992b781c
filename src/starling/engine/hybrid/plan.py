"""One step of a team: what each layer computes here, and which rows move for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from starling.engine.hybrid.traffic import Traffic
from starling.nn.view import Size
from starling.plan.batch import Block


@dataclass(frozen=True, eq=False)
class WorkerLayer:
    """One layer here. `rows` are the worker's rows behind the block's sources: own ones, destinations first, then mirrors.

    `outputs` own rows are destinations. In an edge-cut these are all of the block's; in a vertex-cut the block has a list for
    every row, mirrors included, since their in-edges are spread over workers.
    """

    block: Block
    rows: NDArray[Any]
    outputs: int
    traffic: Traffic

    @property
    def size(self) -> Size:
        """This worker's share of the layer's rows and edges; an own row counts where it is owned."""
        return Size(self.traffic.owned, self.outputs, len(self.block.neighbours))


@dataclass(frozen=True, eq=False)
class WorkerPlan:
    """A worker's share of one step: layers outermost first. `sizes` and `total_targets` are over all workers.

    `targets` are own rows, `outputs` their places among the last layer's outputs.
    """

    epoch: int
    step: int
    number: int
    """Of this step in the whole run, from 0: messages are tagged with it."""
    layers: tuple[WorkerLayer, ...]
    sizes: tuple[Size, ...]
    targets: NDArray[Any]
    outputs: NDArray[Any]
    total_targets: int
