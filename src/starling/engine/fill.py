"""Fill a plan: a view for each layer's block, the features of its inputs, the labels of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.source import GraphSource
from starling.nn.graph import LocalGraph, loops_among
from starling.nn.inputs import LearntRows, input_rows
from starling.nn.moment import Moment
from starling.nn.reuse import Constants
from starling.nn.view import View
from starling.plan.batch import BatchPlan, Block


@dataclass(frozen=True, eq=False)
class FilledBatch:
    """One step, ready to compute: `x` are the first view's sources, `outputs` the targets' rows among the last's destinations."""

    views: tuple[View, ...]
    x: Tensor
    y: Tensor
    outputs: Tensor
    weight: Tensor | None
    """How much each target counts; None: equally, as a mean."""
    share: float = 1.0
    """How much the step's loss counts in the epoch's: its targets, or one where they are weighted."""
    learnt: LearntRows | None = None
    """Input rows that are learnt, beside those of `x` or in their place; read when the step begins."""

    sent: Mapping[int, int] = field(default_factory=dict)
    """Bytes that preparing the step has sent to each worker."""

    def inputs(self) -> Tensor:
        """What the model reads in this step; called once, when it begins."""
        return input_rows(self.x, self.learnt)

    @property
    def nbytes(self) -> int:
        """What all its tensors hold; memory that several of them show, such as the rows of two layers, counts once."""
        tensors = [self.x, self.y, self.outputs, *([] if self.weight is None else [self.weight])]
        for view in self.views:
            tensors += view.graph.held
        sizes: dict[int, int] = {}
        for tensor in tensors:
            sizes[tensor.data_ptr()] = max(tensor.nbytes, sizes.get(tensor.data_ptr(), 0))
        return sum(sizes.values()) + (0 if self.learnt is None else self.learnt.nbytes)


@dataclass(frozen=True, eq=False)
class _Kept:
    """What one plan's arrays became; found again by identity, so that a step that repeats is filled once."""

    inputs: NDArray[Any]
    blocks: tuple[Block, ...]
    graphs: tuple[LocalGraph, ...]
    x: Tensor
    learnt: LearntRows | None
    constants: Constants | None


class Filler:
    """Fills plans made from one graph. With `reuse`, aggregates of features that do not change between steps are kept."""

    def __init__(self, source: GraphSource, *, seed: int = 0, device: str = "cpu", reuse: bool = True) -> None:
        self._source, self._seed, self._device, self._reuse = source, seed, torch.device(device), reuse
        self._kept: _Kept | None = None
        self._graphs: WeakKeyDictionary[Block, LocalGraph] = WeakKeyDictionary()  # of plans that come again

    def fill(self, plan: BatchPlan) -> FilledBatch:
        """The views, features and labels of one step."""
        kept = self._filled(plan)
        moment = Moment(self._seed, plan.epoch, plan.step)
        views = tuple(View(graph, moment=moment, constants=kept.constants) for graph in kept.graphs)
        weight = None if plan.loss_weight is None else torch.from_numpy(plan.loss_weight).to(self._device)
        share = float(len(plan.targets)) if weight is None else 1.0
        return FilledBatch(views, kept.x, self._labels(plan.targets), self._index(plan.outputs), weight, share, kept.learnt)

    def _filled(self, plan: BatchPlan) -> _Kept:
        kept = self._kept
        if kept is not None and kept.inputs is plan.inputs and all(map(_is, kept.blocks, plan.blocks)):
            return kept
        whole = all(self._is_whole(block) for block in plan.blocks)
        for block in plan.blocks:  # one block may stand for several layers, and come again in a later epoch
            if block not in self._graphs:
                graph = self._source.whole if whole else self._local_graph(plan, block)
                # a copy would lose what kernels have prepared for the graph
                self._graphs[block] = graph if self._device.type == "cpu" else graph.to(self._device)
        given, learnt = self._source.step_rows(None if whole else plan.inputs, repeats=plan.repeats)
        x, constants = given.to(self._device), None
        if whole and learnt is None:
            constants = self._source.constants(keep=self._reuse) if x is given else Constants(x, keep=self._reuse)
        layers = tuple(self._graphs[block] for block in plan.blocks)
        self._kept = _Kept(plan.inputs, plan.blocks, layers, x, learnt, constants)
        return self._kept

    def _is_whole(self, block: Block) -> bool:
        incoming = self._source.incoming
        return block.offsets is incoming.offsets and block.neighbours is incoming.neighbours and block.sources == incoming.rows

    def _local_graph(self, plan: BatchPlan, block: Block) -> LocalGraph:
        source, rows = self._source, plan.inputs[: block.sources]
        edge = torch.from_numpy(np.asarray(block.edge)).long() if source.edge_tables else None
        index = torch.from_numpy(np.asarray(rows, np.int64))
        return LocalGraph(
            torch.from_numpy(block.offsets),
            torch.from_numpy(block.neighbours),
            block.sources,
            block.destinations,
            degree=source.degree[index] if block.degree is None else torch.from_numpy(block.degree),
            weighted_degree=None if source.weighted_degree is None else source.weighted_degree[index],
            looped=loops_among(source.looped, index),
            row_scale=_tensor(block.row_scale),
            edge_scale=_tensor(block.edge_scale),
            position=torch.from_numpy(source.position_of(rows)),
            **{f"edge_{name}": table[edge] for name, table in source.edge_tables.items()},
        )

    def _labels(self, targets: NDArray[Any]) -> Tensor:
        if self._source.y is None:  # a task that reads none: those that do have checked that there are labels
            return torch.empty(len(targets), 0, device=self._device)
        return torch.from_numpy(np.ascontiguousarray(self._source.y[targets])).to(self._device)

    def _index(self, rows: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.asarray(rows, np.int64)).to(self._device)


def _is(one: object, other: object) -> bool:
    return one is other


def _tensor(values: NDArray[Any] | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)
