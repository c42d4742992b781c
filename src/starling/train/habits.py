"""What a model does with its graph, seen on a tiny one: no list of models has to be kept, and users' own are looked at too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.engine.hybrid.later_graph import LaterGraph
from starling.engine.hybrid.plan import listed_layer
from starling.engine.hybrid.source import WorkerSource
from starling.engine.hybrid.traffic import make_traffic
from starling.kernels.adjacency import NO_NUMBERS, NO_ROWS
from starling.nn.gather import Copy, Gather, Reduce
from starling.nn.graph import NO_LOOPS, LocalGraph, local_graph
from starling.nn.ops.arrays import accumulator
from starling.nn.reuse import Constants
from starling.nn.view import Size, View
from starling.plan.batch import Block
from starling.train.config import TeamSettings


@dataclass(frozen=True)
class Habits:
    """`sums_raw_input`: the first layer sums input features as they are, before any weight or dropout.

    `only_sums`: the model asks for sums and means of neighbours' rows, and for nothing else that needs a list of edges.
    `takes_means`: of neighbours' rows, weighted or not.
    """

    sums_raw_input: bool
    only_sums: bool
    takes_means: bool


def habits_of(model: nn.Module, source: WorkerSource) -> Habits:
    """Watch the model compute two nodes joined by two edges; it is left as it was."""
    raw, weighted, means, listed = list[bool](), list[bool](), list[bool](), list[LocalGraph]()
    x = torch.zeros(2, source.features.width, device=source.device)

    class Spy(View):
        @property
        def size(self) -> Size:
            return source.size

        def aggregate(self, gather: Gather, reduce: Reduce, rows: Tensor) -> Tensor:
            means.append(reduce == "mean")
            return super().aggregate(gather, reduce, rows)

        def linear(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
            raw.append(rows is x)
            weighted.append(gather.edge_weight is not None)
            return rows.new_zeros(rows.shape, dtype=accumulator(rows))

    def show() -> LocalGraph:
        listed.append(graph)
        return graph

    graph = _two_nodes(source)
    unlisted = _unlisted(graph, set(source.edge_tables), show)
    state = {name: value.clone() for name, value in model.state_dict().items()}  # batch norm learns from whatever it sees
    was_training = model.training
    with torch.no_grad():
        model.train()(Spy(unlisted, constants=Constants(x)), x)
    model.train(was_training).load_state_dict(state)
    takes_means = any(means) or "weighted_mean_scale" in vars(unlisted)  # made when first read
    return Habits(any(raw), bool(raw) and not any(weighted) and not listed, takes_means)


def check_boundary_mean(team: TeamSettings, habits: Habits) -> None:
    """An option that would change nothing is refused."""
    if team.boundary_mean == "ratio" and not habits.takes_means:
        raise InputError(
            "boundary_mean=ratio says what means over neighbours are divided by, and this model takes none. "
            "Leave out team.boundary_mean, or pass a model that does, such as --model sage."
        )


def _two_nodes(source: WorkerSource) -> LocalGraph:
    tables: dict[str, Any] = {f"edge_{name}": rows.new_zeros(2, *rows.shape[1:]) for name, rows in source.edge_tables.items()}
    ones = torch.ones(2)
    rows: dict[str, Any] = {"degree": ones.long(), "weighted_degree": ones, "looped": NO_LOOPS, "position": torch.arange(2)}
    return local_graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), **rows, **tables).to(source.device)


def _unlisted(graph: LocalGraph, tables: set[str], show: Callable[[], LocalGraph]) -> LaterGraph:
    """The same graph, which calls `show` when something looks at its edges."""
    block = Block(graph.offsets.cpu().numpy(), graph.neighbours.cpu().numpy(), NO_NUMBERS, graph.sources)
    layer = listed_layer(block, np.arange(graph.sources), graph.outputs, make_traffic(graph.sources, [NO_ROWS], [0]))
    rows = {name: getattr(graph, name) for name in ("degree", "weighted_degree", "looped", "position")}
    return LaterGraph(layer, tables, rows, show)
