"""The piece of a graph one layer computes on: a whole graph, a sampled block, or a worker's shard.

Destination i is source row i. Sources beyond the destinations are neighbours only: nodes of an outer hop, or mirrors.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.core.errors import InputError
from starling.kernels.adjacency import Lists, adjacency
from starling.kernels.loops import loop_entries

NO_LOOPS = torch.empty(0, dtype=torch.bool)
"""`LocalGraph.looped` of a graph in which no node has a self-loop."""


@dataclass(frozen=True, eq=False)
class LocalGraph:
    """In-edges of D destinations among S ≥ D source rows, with the tables of edges and rows that layers read.

    Edges of destination i are offsets[i] … offsets[i + 1] − 1, in the order of the imported graph; neighbours are source rows.
    Degrees are those of the whole graph, so that normalisation does not depend on how it was cut:
    - `degree` [S] in-edges of each row, `weighted_degree` [S] the sum of their weights;
    - `relation_degree` [D, R] in-edges of each destination by relation, among this layer's edges but all workers'; needed where
      they lie with several;
    - `looped` [S] whether a row's node has a self-loop, `NO_LOOPS` where none has; looked for among the edges here if not given.
    Where edges were sampled, `row_scale` [D] or `edge_scale` [E] (1 / probability) makes sums and means unbiased.
    `position` [S] is each row's node in the imported graph: dropout is keyed by it.
    """

    offsets: Tensor
    neighbours: Tensor
    sources: int
    outputs: int
    """How many destinations this worker answers for: all, or in a vertex-cut those before the mirrors."""
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    edge_type: Tensor | None = None
    degree: Tensor | None = None
    weighted_degree: Tensor | None = None
    relation_degree: Tensor | None = None
    looped: Tensor | None = None
    row_scale: Tensor | None = None
    edge_scale: Tensor | None = None
    position: Tensor | None = None
    counted: Tensor | None = None
    """How many edges those of each destination stand for [D], if means are to divide by that and not by the whole degree."""

    @property
    def destinations(self) -> int:
        """D, the rows that have in-edges here (or might)."""
        return len(self.offsets) - 1

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return self.offsets.device

    @property
    def edges(self) -> int:
        """E, the edges here."""
        return len(self.neighbours)

    @cached_property
    def adjacency(self) -> Lists:
        """The edges as kernels see them, in ordinary memory; their transpose is made when a backward pass first needs it."""
        return adjacency(self.offsets.cpu().numpy(), self.neighbours.cpu().numpy(), self.sources)

    @property
    def held(self) -> list[Tensor]:
        """Its tensors."""
        return [value for field in fields(self) if isinstance(value := getattr(self, field.name), Tensor)]

    def neighbours_at(self, edges: Tensor | slice) -> Tensor:
        """The sources of some edges: those of all need not be listed for it."""
        return self.neighbours[edges]

    @cached_property
    def local_degree(self) -> Tensor:
        """In-edges of each destination that are here [D]."""
        return self.offsets.diff()

    @cached_property
    def edge_destination(self) -> Tensor:
        """The destination of every edge, int64 [E]; made only where a gather is a Python function."""
        return torch.repeat_interleave(torch.arange(self.destinations, device=self.offsets.device), self.local_degree)

    @cached_property
    def row_position(self) -> Tensor:
        """Positions of all sources, int64 [S]; row numbers where the graph is whole."""
        if self.position is not None:
            return self.position
        return torch.arange(self.sources, device=self.device)

    @cached_property
    def row_key(self) -> NDArray[np.int64]:
        """`row_position` in ordinary memory: what random choices are keyed by is read by kernels, wherever rows lie."""
        key: NDArray[np.int64] = self.row_position.cpu().numpy()
        return key

    @cached_property
    def mean_scale(self) -> Tensor:
        """The factor that makes a destination's sum a mean, float32 [D]; 1 for rows without in-edges."""
        if self.counted is not None:
            return _inverse(self.counted)
        degree = self.local_degree if self.degree is None else self.degree[: self.destinations]
        scale = 1.0 / degree.clamp(min=1).float()
        return scale if self.row_scale is None or self.degree is None else scale * self.row_scale

    @cached_property
    def gcn_scale(self) -> Tensor:
        """GCN's degree^-1/2 of every source, float32 [S], in the graph in which every node has a self-loop."""
        return (self._whole_degree("degree").float() + self._loops_to_add).clamp(min=1).rsqrt()

    @cached_property
    def weighted_gcn_scale(self) -> Tensor:
        """`gcn_scale` with edge weights in place of a count of edges; zero for a row of no weight."""
        degree = self._whole_degree("weighted_degree").float() + self._loops_to_add
        return torch.where(degree > 0, degree.rsqrt(), 0.0)

    @cached_property
    def weighted_mean_scale(self) -> Tensor:
        """The factor that makes a destination's sum of weighted rows a weighted mean, float32 [D]; 1 for rows of no weight."""
        if self.counted is not None:
            total = self._weight_at(self._weight if self.edge_scale is None else self._weight * self.edge_scale)
            return _inverse(total if self.row_scale is None else total * self.row_scale)
        return _inverse(self._whole_degree("weighted_degree")[: self.destinations].float())

    @cached_property
    def loop_entry(self) -> Tensor:
        """Where each destination's self-loop stands among the edges here, int64 [outputs]; −1 where it has none, or not here."""
        if self.looped is not None and not len(self.looped):
            return torch.full((self.outputs,), -1, device=self.device)
        entries = loop_entries(self.offsets[: self.outputs + 1].cpu().numpy(), self.neighbours_at(slice(None)).cpu().numpy())
        return torch.from_numpy(entries).to(self.device)

    @property
    def loop_is_here(self) -> Tensor:
        """Whether each destination's self-loop is among the edges here, bool [outputs]."""
        return self.loop_entry >= 0

    @cached_property
    def own_weight(self) -> Tensor:
        """How much a destination's own row counts beside its in-edges, if every node is to have a self-loop, float32 [outputs].

        Once, or where the graph has the loop not at all. A loop that was sampled counts `scale` times: 1 − `scale` makes it once.
        """
        entry = self.loop_entry
        here = entry >= 0
        if self.row_scale is None and self.edge_scale is None:
            return 1 - here.float()
        scale = torch.ones(self.outputs, device=self.device)
        if self.row_scale is not None:
            scale = scale * self.row_scale[: self.outputs]
        if self.edge_scale is not None and self.edges:
            scale = scale * self.edge_scale[entry.clamp(min=0)]
        return torch.where(here, 1 - scale, 1.0)

    @cached_property
    def spread_own_weight(self) -> Tensor:
        """`own_weight` without a look at the lists, where loops may lie with other workers and are never left out [outputs]."""
        scale = 1.0 if self.row_scale is None else self.row_scale[: self.outputs]
        return 1 - self.has_loop.float() * scale

    @cached_property
    def has_loop(self) -> Tensor:
        """Whether each destination's node has a self-loop anywhere, bool [outputs]."""
        if self.looped is None:
            return self.loop_entry >= 0
        return (
            self.looped[: self.outputs] if len(self.looped) else torch.zeros(self.outputs, dtype=torch.bool, device=self.device)
        )

    @property
    def _loops_to_add(self) -> Tensor | int:
        """One for every source without a self-loop of its own [S]."""
        if self.looped is not None:
            return 1 - self.looped.float() if len(self.looped) else 1
        return 1 - torch.nn.functional.pad((self.loop_entry >= 0).float(), (0, self.sources - self.outputs))

    def row_prefix(self, values: Tensor) -> Tensor:
        """The values of the destinations, one object as long as `values` is: what is kept by identity stays found."""
        kept: dict[int, tuple[Tensor, Tensor]] = self.__dict__.setdefault("_prefixes", {})
        if id(values) not in kept:
            kept[id(values)] = (values, values[: self.destinations])
        return kept[id(values)][1]

    def _whole_degree(self, name: str) -> Tensor:
        given: Tensor | None = getattr(self, name)
        if given is not None:
            return given
        if self.sources != self.destinations:
            raise InputError(
                f"Expected '{name}' of all {self.sources:,} sources of a block of {self.destinations:,}, got none. "
                "A block does not hold the in-edges of its outer rows: pass the whole graph's degrees."
            )
        if name == "degree":
            return self.local_degree
        return self._weight_at(self._weight)

    @property
    def _weight(self) -> Tensor:
        """Of each edge [E]."""
        return torch.ones(self.edges, device=self.device) if self.edge_weight is None else self.edge_weight.float()

    def _weight_at(self, weight: Tensor) -> Tensor:
        """Of all in-edges of each destination [D]."""
        return torch.zeros(self.destinations, device=self.device).index_add_(0, self.edge_destination, weight)

    def to(self, device: torch.device | str) -> Self:
        """The same graph with its tensors on another device."""
        moved = {f.name: value.to(device) for f in fields(self) if isinstance(value := getattr(self, f.name), Tensor)}
        return replace(self, **moved)  # type: ignore[arg-type]


def _inverse(total: Tensor) -> Tensor:
    return 1.0 / torch.where(total == 0, 1.0, total)


def loops_of(looped: NDArray[np.bool_]) -> Tensor:
    """`LocalGraph.looped` of a graph in which these rows have self-loops."""
    return torch.from_numpy(looped) if looped.any() else NO_LOOPS


def loops_among(looped: Tensor, rows: Tensor) -> Tensor:
    """`LocalGraph.looped` of some rows of a graph."""
    return looped[rows] if len(looped) else looped


def local_graph(
    offsets: Tensor,
    neighbours: Tensor,
    sources: int | None = None,
    *,
    outputs: int | None = None,
    **tables: Tensor | None,
) -> LocalGraph:
    """A checked local graph; every destination is also a source, and tables are those of `LocalGraph`."""
    destinations = len(offsets) - 1
    sources = destinations if sources is None else sources
    if sources < destinations:
        raise InputError(f"Expected at least as many sources as destinations, got {sources:,} for {destinations:,}.")
    if len(neighbours) != int(offsets[-1]):
        raise InputError(f"Expected {int(offsets[-1]):,} neighbours as the offsets say, got {len(neighbours):,}.")
    if len(neighbours) and not 0 <= int(neighbours.min()) <= int(neighbours.max()) < sources:
        raise InputError(f"Expected neighbours in [0, {sources:,}), got {int(neighbours.min())} … {int(neighbours.max())}.")
    return LocalGraph(
        offsets.to(torch.int64).contiguous(),
        neighbours.to(torch.int32).contiguous(),
        sources,
        destinations if outputs is None else outputs,
        **tables,
    )


def graph_of_edges(edges: Tensor, sources: int, destinations: int | None = None, **tables: Tensor | None) -> LocalGraph:
    """A local graph of (source, destination) pairs [E, 2]; edge tables follow their edges, whose order is kept."""
    destinations = sources if destinations is None else destinations
    order = torch.from_numpy(np.argsort(edges[:, 1].numpy(), kind="stable"))
    counts = torch.bincount(edges[:, 1], minlength=destinations)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    sorted_tables = {
        name: value[order] if name.startswith("edge_") and value is not None else value for name, value in tables.items()
    }
    return local_graph(offsets, edges[order, 0], sources, outputs=None, **sorted_tables)
