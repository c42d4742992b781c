"""What one worker reads in training: its graph, the features and labels of its own nodes, edge tables beside their edges.

Whatever depends on the whole graph (degrees by weight or relation, statistics of columns) is summed over the team once, here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.manifest import Labels
from starling.core.times import no_later
from starling.engine.features import DenseFeatures, Features, NoFeatures
from starling.engine.hybrid.layers.plan import WorkerLayer
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.share.worker_graph import WorkerGraph, hearers_of, open_worker_graph, parts_of_worker
from starling.engine.node_rows import NodeRows
from starling.engine.source import SPLITS, SourceRequest, edge_tensor, prepared
from starling.engine.typed_features import joined_features, shard_features
from starling.kernels.loops import looped_rows
from starling.nn.graph import NO_LOOPS, LocalGraph
from starling.nn.later_graph import Unlisted
from starling.nn.view import Size
from starling.plan.batch import Block
from starling.store.parts import open_parts
from starling.store.parts_manifest import PartsManifest


@dataclass(frozen=True, eq=False)
class WorkerSource(NodeRows):
    """Everything a worker may read. `splits` are own rows; `total` sums arrays over the team."""

    path: Path
    team: Team
    graph: WorkerGraph
    features: Features
    labels: Labels | None
    y: NDArray[Any] | None
    splits: dict[str, NDArray[np.int64]]
    edge_tables: dict[str, Tensor]
    relations: int
    weighted_degree: Tensor | None
    """The sum of in-edges' weights of every row, mirrors included."""
    split_sizes: dict[str, int]
    """Nodes of each split, all workers together."""
    calls: Calls

    @property
    def device(self) -> torch.device:
        """That of the worker."""
        return self.team.device

    @property
    def nodes(self) -> int:
        """How many nodes the whole graph has."""
        return self.graph.manifest.nodes

    @property
    def size(self) -> Size:
        """The whole graph in numbers."""
        return Size(self.nodes, self.nodes, self.graph.manifest.edges)

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of arrays over all workers; everybody asks in the same order."""
        summed: NDArray[Any] = self.team.all_sum(self.calls.next_tag(), torch.from_numpy(np.array(values))).numpy()
        return summed

    def name_of(self, row: int) -> str:
        """An own node, as a message calls it."""
        return f"number {int(self.graph.position[row]):,} of the imported graph"

    def mirrors_of(self, rows: Tensor) -> Tensor:
        """Rows of all mirrors, given everybody's own."""
        return self._exchange.pull(rows)[self.graph.owned :].clone()

    def local_graph(self, layer: WorkerLayer, calls: Calls, *, ratio_means: bool = False) -> LocalGraph:
        """A planned layer with its tables, on the worker's device; where lists are spread, workers add up how long they are by
        relation, in ordinary memory. `ratio_means`: a mean divides by how many edges those in the layer stand for.
        """
        rows = self._row_tables(layer)
        if self.graph.spread and "type" in self.edge_tables:  # now, by all: whoever lists edges later does so alone
            rows["relation_degree"] = self._relation_degree(layer, calls).to(self.device)
        if ratio_means:
            rows["counted"] = torch.from_numpy(layer.edges.stands_for()).to(self.device)
        outputs = layer.outputs  # not the layer: it keeps groups of the graph, and neither would ever go

        def listed(block: Block) -> LocalGraph:
            return self._listed_graph(block, outputs, rows)

        return layer.edges.graph(Unlisted(layer.traffic.rows, outputs, self.edge_tables, rows), listed)

    def _listed_graph(self, block: Block, outputs: int, rows: dict[str, Tensor | None]) -> LocalGraph:
        tables = self.edge_tables
        if tables and len(block.edge) == len(block.neighbours):
            edge = torch.from_numpy(np.asarray(block.edge)).long()
            tables = {name: table[edge] for name, table in tables.items()}
        made = LocalGraph(
            torch.from_numpy(np.asarray(block.offsets)),
            torch.from_numpy(np.asarray(block.neighbours)),
            block.sources,
            outputs,
            row_scale=_tensor(block.row_scale),
            edge_scale=_tensor(block.edge_scale),
            **rows,
            **{f"edge_{name}": table for name, table in tables.items()},
        )
        return made if self.device.type == "cpu" else made.to(self.device)

    def _row_tables(self, layer: WorkerLayer) -> dict[str, Tensor | None]:
        index, weighted = torch.from_numpy(np.asarray(layer.rows, np.int64)), self.weighted_degree
        return {
            "degree": torch.from_numpy(self.graph.in_degree)[index].to(self.device),
            "weighted_degree": None if weighted is None else weighted[index].to(self.device),
            "looped": (NO_LOOPS if self.graph.looped is None else torch.from_numpy(self.graph.looped)[index]).to(self.device),
            "position": torch.from_numpy(self.graph.position)[index].to(self.device),
        }

    def _relation_degree(self, layer: WorkerLayer, calls: Calls) -> Tensor:
        """In-edges of every row of a layer by relation, all workers' together."""
        offsets, entries = layer.edges.by_row()
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        counts = np.zeros((len(offsets) - 1, max(self.relations, 1)), np.float32)
        kinds = self.edge_tables["type"].numpy()
        np.add.at(counts, (row, kinds if entries is None else kinds[entries]), 1)
        exchange = TeamExchange(self.team, layer.traffic, calls, spread=True, outputs=layer.traffic.owned)
        return exchange.pull(exchange.push_sum(torch.from_numpy(counts)))

    @property
    def _exchange(self) -> TeamExchange:
        return whole_exchange(self.team, self.graph, self.calls)


def whole_exchange(team: Team, graph: WorkerGraph, calls: Calls) -> TeamExchange:
    """An exchange over all rows that anybody mirrors."""
    return TeamExchange(team, graph.traffic, calls, spread=graph.spread, outputs=graph.owned)


def open_worker_source(path: Path, team: Team, request: SourceRequest) -> WorkerSource:
    """Open a worker's share of a parts directory."""
    manifest = PartsManifest.read(path)
    parts = open_parts(path, parts_of_worker(team.rank, team.size, manifest.parts))
    graph = open_worker_graph(parts, team.rank, team.size)
    calls = Calls(0, Channel.SETUP)
    if request.before is not None:
        at_that_time = graph.only(no_later(graph.edge_column("time"), request.before))
        graph = recounted(at_that_time, whole_exchange(team, graph, calls))
        if not graph.spread:  # parts hear of fewer neighbours then
            tell = partial(team.swap_lists, calls.next_tag())
            graph = replace(graph, hearers=hearers_of(graph.incoming, graph.part, graph.traffic, tell))
    splits = {name: np.flatnonzero(graph.node_column(name)) for name in SPLITS if name in manifest.node_tables}

    def total(values: NDArray[Any]) -> NDArray[Any]:
        return team.all_sum(calls.next_tag(), torch.from_numpy(values)).numpy()

    features = prepared(raw_features(graph, request.by_type), request, splits.get("train", np.empty(0, np.int64)), total)
    names = [*request.edge_tables, *(name for name in request.optional_tables if name in manifest.edge_tables)]
    tables = {name: edge_tensor(graph.edge_column(name), name) for name in names}
    y = graph.node_column("y") if manifest.labels is not None else None
    relations = len(manifest.edge_types)
    if not relations and "type" in tables:
        most = np.array([int(tables["type"].max()) + 1 if len(tables["type"]) else 0])
        relations = int(np.max(team.all_lists(calls.next_tag(), most)))
    exchange = whole_exchange(team, graph, calls)
    counts = total(np.array([len(splits.get(name, ())) for name in SPLITS])).tolist()
    return WorkerSource(
        path,
        team,
        graph,
        features,
        manifest.labels,
        y,
        splits,
        tables,
        relations,
        weighted_degree_of(graph, tables, exchange),
        dict(zip(SPLITS, counts, strict=True)),
        calls,
    )


def recounted(graph: WorkerGraph, exchange: TeamExchange) -> WorkerGraph:
    """A worker's graph of which edges were left out, with degrees and self-loops counted again over all workers."""
    lists = graph.incoming
    here = np.stack([np.diff(lists.offsets), looped_rows(lists, lists.rows)], 1).astype(np.float64)
    degree, loops = exchange.pull(exchange.push_sum(torch.from_numpy(here))).numpy().T
    return replace(graph, in_degree=degree.astype(np.int64), looped=None if graph.looped is None else loops > 0)


def raw_features(graph: WorkerGraph, by_type: bool) -> Features:
    """Those of the own rows, where they lie."""
    if not graph.shards:  # more workers than parts: this one has no rows
        if by_type or any(name.startswith("x@") for name in graph.manifest.node_tables):
            raise InputError(
                f"Features by node type need a part for every worker, got {graph.manifest.parts}. Partition into more parts."
            )
        table = graph.manifest.node_tables.get("x")
        return NoFeatures(0) if table is None else DenseFeatures(np.empty((0, *table.shape[1:]), np.float32))
    return joined_features([shard_features(shard, by_type) for shard in graph.shards])


def weighted_degree_of(graph: WorkerGraph, tables: dict[str, Tensor], exchange: TeamExchange) -> Tensor | None:
    """The sum of in-edges' weights of every row, mirrors included, over all workers; None without weights."""
    if "weight" not in tables:
        return None
    lengths = torch.from_numpy(np.diff(graph.incoming.offsets))
    here = torch.segment_reduce(tables["weight"].float(), "sum", lengths=lengths, unsafe=True, initial=0.0)
    return exchange.pull(exchange.push_sum(here[:, None]))[:, 0]


def _tensor(values: NDArray[Any] | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)
