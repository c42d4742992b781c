"""The last stages: a fetched step as tensors and views that a model computes on, moved to the device it computes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.team import ORDINARY, Team
from starling.core.exchange import ALONE, Alone, Exchange
from starling.engine.data.fetch import FetchedRows, FetchedStep
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.engine.source import edge_tensor
from starling.nn.graph import NO_LOOPS, LocalGraph
from starling.nn.moment import Moment
from starling.nn.view import View
from starling.plan.batch import Block


class SharedSums(Alone):
    """The exchange of a worker that has all its rows, and shares only statistics (batch norm's) with the others."""

    def __init__(self, team: Team, calls: Calls) -> None:
        self._team = TeamExchange(team, make_traffic(0, [np.empty(0, np.int64)] * team.size, [0] * team.size), calls)

    def all_sum(self, values: Tensor) -> Tensor:
        """Sums over all workers, whose gradients are summed too."""
        return self._team.all_sum(values)


@dataclass(frozen=True)
class Compactor:
    """Makes views and tensors out of a fetched step."""

    team: Team = field(default_factory=Team)
    seed: int = 0

    def __call__(self, step: FetchedStep) -> FilledBatch:
        """A batch in this process's memory; a target's loss counts as its share of all workers' targets."""
        fetched = step.arrived()
        scheduled = fetched.sampled.scheduled
        exchange: Exchange = ALONE if self.team.size == 1 else SharedSums(self.team, Calls(scheduled.number))
        moment = Moment(self.seed, scheduled.epoch, scheduled.step)
        views = tuple(
            View(_local_graph(fetched, block, tables), exchange, moment)
            for block, tables in zip(fetched.sampled.blocks, fetched.edge_tables, strict=True)
        )
        targets = len(scheduled.targets)
        return FilledBatch(
            views,
            torch.from_numpy(fetched.x),
            torch.from_numpy(np.ascontiguousarray(fetched.y)),
            torch.arange(targets),
            torch.full((targets,), 1 / max(scheduled.total, 1)),
            float(scheduled.total),
            fetched.learnt,
            sent=fetched.sent,
        )


@dataclass(frozen=True)
class DeviceCopy:
    """Moves a batch to a device; where that is the processor, there is nothing to do."""

    device: torch.device = ORDINARY

    def __call__(self, batch: FilledBatch) -> FilledBatch:
        """The batch on its device."""
        device = self.device
        if device.type == "cpu":
            return batch
        assert batch.weight is not None
        return replace(
            batch,
            views=tuple(replace(view, graph=view.graph.to(device)) for view in batch.views),
            x=batch.x.to(device, non_blocking=True),
            y=batch.y.to(device, non_blocking=True),
            outputs=batch.outputs.to(device, non_blocking=True),
            weight=batch.weight.to(device, non_blocking=True),
        )


def _local_graph(fetched: FetchedRows, block: Block, tables: dict[str, NDArray[Any]]) -> LocalGraph:
    sources = block.sources
    weighted = fetched.weighted_degree
    return LocalGraph(
        torch.from_numpy(block.offsets),
        torch.from_numpy(block.neighbours),
        sources,
        block.destinations,
        degree=torch.from_numpy(fetched.degree[:sources] if block.degree is None else block.degree),
        weighted_degree=None if weighted is None else torch.from_numpy(weighted[:sources]),
        looped=NO_LOOPS if fetched.looped is None else torch.from_numpy(fetched.looped[:sources]),
        row_scale=None if block.row_scale is None else torch.from_numpy(block.row_scale),
        edge_scale=None if block.edge_scale is None else torch.from_numpy(block.edge_scale),
        position=torch.from_numpy(fetched.position[:sources]),
        **{f"edge_{name}": edge_tensor(table, name) for name, table in tables.items()},
    )
