"""Fill a worker's plan: views that exchange rows with the team, features of own inputs, labels of own targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from starling.comm.tags import Channel
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.computing.view import TeamView
from starling.engine.hybrid.layers.plan import WorkerLayer, WorkerPlan
from starling.engine.hybrid.messages.calls import Calls, Planning
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.row_messages import Wire
from starling.engine.hybrid.share.source import WorkerSource
from starling.nn.graph import LocalGraph
from starling.nn.inputs import LearntRows
from starling.nn.moment import Moment
from starling.nn.reuse import Constants
from starling.nn.view import Size


@dataclass(frozen=True)
class Sending:
    """Whether layers are computed while messages fly, and how wide numbers in these are."""

    overlap: bool = True
    wire: Wire = "float32"


@dataclass(frozen=True)
class TeamFiller:
    """Fills plans of one worker.

    With `reuse`, sums of constant input features over the whole graph are kept. `first_whole`: the first layer of every step takes
    all neighbours, although later ones leave some out, because its sums are kept (as BNS-GCN does).
    """

    source: WorkerSource
    whole: LocalGraph
    """All rows and edges of this worker, made once, so that what kernels prepare for them is made once."""
    seed: int = 0
    reuse: bool = True
    first_whole: bool = False
    mirror_x: Tensor | None = None
    """All mirrors' features, fetched once, where they are read in every step."""
    sending: Sending = Sending()
    ratio_means: bool = False
    """Where edges are left out, means divide by as much as was taken."""
    graphs: WeakKeyDictionary[WorkerLayer, LocalGraph] = field(default_factory=WeakKeyDictionary, repr=False)
    """Of layers that come again in a later epoch: what kernels prepare for them is made once."""

    def fill(self, plan: WorkerPlan) -> FilledBatch:
        """The views, features and labels of one step."""
        calls = Calls(plan.number)
        moment = Moment(self.seed, plan.epoch, plan.step)
        source, layers, sizes = self.source, list(plan.layers), list(plan.sizes)
        constants = None
        if self.first_whole:
            layers[0], sizes[0] = source.graph.whole_layer, source.size
        if layers[0] is source.graph.whole_layer:
            constants = source.constants(keep=self.reuse)
        graphs = {id(source.graph.whole_layer): self.whole}
        planning = Calls(plan.number, Channel.PLAN, Planning.TABLES)
        for layer in layers:  # one layer may stand for several
            if id(layer) not in graphs:
                graphs[id(layer)] = self._graph_of(layer, planning)
        x, learnt = self._inputs(layers[0])
        views = tuple(
            self._view(number, layer, graphs[id(layer)], sizes[number], x, calls, moment, constants)
            for number, layer in enumerate(layers)
        )
        # without labels a task reads none: those that do have checked that there are labels
        labels = np.empty((len(plan.targets), 0), np.float32) if source.y is None else source.y[plan.targets]
        y, outputs = (torch.from_numpy(np.ascontiguousarray(rows)).to(source.device) for rows in (labels, plan.outputs))
        weight = torch.full((len(plan.targets),), 1 / max(plan.total_targets, 1), device=source.device)
        return FilledBatch(views, x, y, outputs, weight, float(plan.total_targets), learnt)

    def whole_views(self, layers: int, number: int) -> tuple[tuple[TeamView, ...], Tensor]:
        """Views of the whole graph for an evaluation, and the own features."""
        source, calls = self.source, Calls(number, Channel.EVALUATE)
        constants, x = source.constants(keep=self.reuse), source.x
        views = tuple(
            self._view(k, source.graph.whole_layer, self.whole, source.size, x, calls, Moment(), constants)
            for k in range(layers)
        )
        return views, x

    def _graph_of(self, layer: WorkerLayer, planning: Calls) -> LocalGraph:
        if layer not in self.graphs:
            self.graphs[layer] = self.source.local_graph(layer, planning, ratio_means=self.ratio_means)
        return self.graphs[layer]

    def _inputs(self, layer: WorkerLayer) -> tuple[Tensor, LearntRows | None]:
        own = layer.rows[: layer.traffic.owned]
        if len(own) == self.source.graph.owned and np.array_equal(own, np.arange(len(own))):
            return self.source.step_rows(None)
        return self.source.step_rows(own)

    def _view(
        self,
        number: int,
        layer: WorkerLayer,
        graph: LocalGraph,
        size: Size,
        x: Tensor,
        calls: Calls,
        moment: Moment,
        constants: Constants | None,
    ) -> TeamView:
        source, known = self.source, None
        if number == 0 and self.mirror_x is not None and (constants is None or not constants.keep):
            mirrors = torch.from_numpy(layer.rows[layer.traffic.owned :].astype(np.int64) - source.graph.owned)
            mirrors = mirrors.to(source.device)
            known = (x, self.mirror_x if layer is source.graph.whole_layer else self.mirror_x[mirrors])
        wire, spread = self.sending.wire, source.graph.spread
        exchange = TeamExchange(source.team, layer.traffic, calls, number, spread, layer.outputs, wire, known)
        kept = constants if layer is source.graph.whole_layer else None
        return TeamView(graph, exchange, moment, kept, size, self.sending.overlap, layer)
