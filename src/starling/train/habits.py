"""What a model does with its graph, seen on a tiny one: no list of models has to be kept, and users' own are looked at too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.engine.hybrid.share.source import WorkerSource
from starling.kernels.adjacency import Lists
from starling.nn.gather import ByRelation, Copy, Gather, Reduce
from starling.nn.graph import NO_LOOPS, LocalGraph, local_graph
from starling.nn.later_graph import EdgesInPlace, GraphInPlace, Unlisted
from starling.nn.ops.arrays import accumulator
from starling.nn.reuse import Constants
from starling.nn.view import Size, View
from starling.train.tasks import Source
from starling.train.team_settings import TeamSettings


@dataclass(frozen=True)
class Habits:
    """`sums_raw_input`: the first layer sums input features as they are, before any weight or dropout.

    `lists_edges`: it asks for the list of edges; else these may be read where a larger graph's are.
    `means`: of all neighbours' rows, weighted or not, those of input features as they are, and others. Means by relation are always
    of what is there.
    """

    sums_raw_input: bool
    lists_edges: bool
    means: Means


@dataclass(frozen=True)
class Means:
    """Which means a model takes."""

    of_raw_input: bool
    of_others: bool


def habits_of(model: nn.Module, source: WorkerSource) -> Habits:
    """Watch the model compute two nodes joined by two edges; it is left as it was."""
    raw, raw_means, listed = list[bool](), list[bool](), list[LocalGraph]()
    x = torch.zeros(2, source.features.width, device=source.device)

    class Spy(View):
        @property
        def size(self) -> Size:
            return source.size

        def aggregate(self, gather: Gather, reduce: Reduce, rows: Tensor) -> Tensor:
            if reduce == "mean" and not isinstance(gather, ByRelation):
                raw_means.append(rows is x)
            return super().aggregate(gather, reduce, rows)

        def sum_copies(self, gather: Copy, reduce: Reduce, rows: Tensor) -> Tensor:
            raw.append(rows is x)
            return rows.new_zeros(rows.shape, dtype=accumulator(rows))

    class Watched(GraphInPlace):
        @property
        def weighted_mean_scale(self) -> Tensor:
            raw_means.append(False)
            return torch.ones(self.destinations, device=self.device)

    def show() -> LocalGraph:
        listed.append(graph)
        return graph

    graph = two_nodes(source).to(source.device)
    unlisted = _unlisted(Watched, graph, show)
    state = {name: value.clone() for name, value in model.state_dict().items()}  # batch norm learns from whatever it sees
    was_training = model.training
    with torch.no_grad():
        model.train()(Spy(unlisted, constants=Constants(x)), x)
    model.train(was_training).load_state_dict(state)
    return Habits(any(raw), bool(listed), Means(any(raw_means), not all(raw_means)))


def two_nodes(source: Source) -> LocalGraph:
    """A graph of two nodes joined by two edges, with the edge tables that a run reads."""
    tables: dict[str, Any] = {f"edge_{name}": rows.new_zeros(2, *rows.shape[1:]) for name, rows in source.edge_tables.items()}
    ones = torch.ones(2)
    rows: dict[str, Any] = {"degree": ones.long(), "weighted_degree": ones, "looped": NO_LOOPS, "position": torch.arange(2)}
    return local_graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), **rows, **tables)


def check_boundary_mean(team: TeamSettings, means: Means, *, first_kept: bool) -> None:
    """An option that would change nothing is refused. `first_kept`: those of input features are made once, over all neighbours."""
    if team.boundary_mean != "ratio" or means.of_others or (means.of_raw_input and not first_kept):
        return
    if means.of_raw_input:
        raise InputError(
            "boundary_mean=ratio says what means over the neighbours that are heard of are divided by, and the only ones here are "
            "of input features, which are kept and made over all neighbours. Leave out team.boundary_mean, or set run.reuse=false."
        )
    raise InputError(
        "boundary_mean=ratio says what sage's means over all neighbours are divided by, and this model takes none: means by "
        "relation are of what was heard of as it is, and PyG's convolutions make means of their own. Leave out "
        "team.boundary_mean."
    )


@dataclass(frozen=True, eq=False)
class _InPlace:
    """All of a graph's own edges."""

    lists: Lists
    entries: NDArray[np.int64]
    scale: None = None

    def excerpt(self, rows: NDArray[np.int64], sources: NDArray[np.int64]) -> EdgesInPlace:
        raise AssertionError("a layer of two nodes is computed at once")


def _unlisted(kind: type[GraphInPlace], graph: LocalGraph, show: Callable[[], LocalGraph]) -> GraphInPlace:
    """The same graph, which calls `show` when something asks for its edges' list."""
    edge_tables = {name: getattr(graph, f"edge_{name}") for name in ("weight", "attr", "type")}
    edge_tables = {name: table for name, table in edge_tables.items() if table is not None}
    row_tables = {name: getattr(graph, name) for name in ("degree", "weighted_degree", "looped", "position")}
    where = _InPlace(graph.adjacency, np.arange(graph.edges))
    return kind(Unlisted(graph.sources, graph.outputs, edge_tables, row_tables), graph.edges, show, where)
