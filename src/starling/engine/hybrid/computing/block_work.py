"""Row work (nn/row_work.py) done block by block, forward and backward, in any order of blocks.

Autograd records each block when it runs, as a graph of its own from an empty tensor to an empty tensor: rows come into it and leave
it through `_Enter` and `_Leave`, so that nothing is kept but what the operations between them save. That goes to one list, which
the function that this is a part of keeps for its backward pass; where a result is saved, its copy in the whole is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks

from starling.nn.ops.arrays import accumulator, applied
from starling.nn.ops.leaves import leaves_of
from starling.nn.row_work import Node, NodeLayout, RowWork


@dataclass(eq=False)
class _Gradients:
    """Of a block that is run backwards: those that go in, and those that come out. The block's graph holds them."""

    given: tuple[Tensor | None, ...] = ()
    found: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Graph:
    """What autograd recorded of a block, by its two ends. Nothing that it holds may hold it: autograd's memory has no collector."""

    start: Tensor
    end: Tensor
    gradients: _Gradients


@dataclass(eq=False)
class _Saved:
    """What the blocks' graphs have saved, by number."""

    tensors: list[Tensor] = field(default_factory=list)

    def keep(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def find(self, number: int) -> Tensor:
        return self.tensors[number]


class _InOrder:
    """Gradients of some weights, added in the order of blocks, whichever is done first."""

    def __init__(self, weights: int) -> None:
        self.totals: list[Tensor | None] = [None] * weights
        self._early: dict[int, Sequence[Tensor | None]] = {}
        self._next = 0

    def add(self, block: int, gradients: Sequence[Tensor | None]) -> None:
        self._early[block] = gradients
        while self._next in self._early:
            for number, gradient in enumerate(self._early.pop(self._next)):
                total = self.totals[number]
                self.totals[number] = gradient if total is None else total if gradient is None else total + gradient
            self._next += 1


_SUM = -1
"""In place of the number of a node's tensor: the sums."""


class BlockWork:
    """Blocks are the rows between `bounds`. `given` tells which of the node's tensors destinations read of themselves."""

    def __init__(self, work: RowWork, bounds: NDArray[np.int64], given: NodeLayout, *, recorded: bool) -> None:
        self.bounds = bounds
        self._work, self._given, self._recorded = work, given, recorded
        self.made = NodeLayout()
        """Of the node that comes out."""
        self.sum_learns = False
        self._learns: set[int] = set()
        self._weights: tuple[Tensor, ...] = ()
        self._kept: dict[int, Tensor] = {}
        self._graphs: dict[int, _Graph] = {}
        self._saved = _Saved()
        self._results: list[Tensor] = []
        self._gradients: Sequence[Tensor] = []
        self._weight_gradients = _InOrder(0)
        self.sum_gradient: Tensor | None = None
        self.kept_gradients: dict[int, Tensor] = {}
        """Of the node's tensors by number, each as long as there are destinations."""

    @property
    def count(self) -> int:
        """Of blocks."""
        return len(self.bounds) - 1

    # ---- forward ----

    def begin(self, tensors: Sequence[Tensor], *, sum_learns: bool, learns: set[int], weights: tuple[Tensor, ...]) -> None:
        """Blocks will be run, on a node of these tensors; the others say what gradients are wanted of."""
        self._kept = {number: tensors[number] for number in self._given.kept}
        self.sum_learns, self._learns, self._weights = sum_learns, learns, weights

    def run(self, block: int, sums: Tensor) -> None:
        """Run a block, whose rows of `sums` are complete; row work may write to them."""
        first, stop = self.bounds[block], self.bounds[block + 1]
        if not self._recorded:
            kept = {number: rows[first:stop] for number, rows in self._kept.items()}
            self._leave(self._work.run(int(first), self._given.node(kept), sums[first:stop]), first, stop)
            return
        start, gradients, saved = torch.empty(0, requires_grad=True), _Gradients(), self._saved.tensors
        began = len(saved)
        with torch.enable_grad(), saved_tensors_hooks(self._saved.keep, self._saved.find):
            kept = {number: _some_rows(rows, first, stop) for number, rows in self._kept.items()}
            for number in kept.keys() & self._learns:
                kept[number] = applied(_Enter, start, gradients, number, [kept[number]])
            memory = _some_rows(sums, first, stop)
            aggregate = applied(_Enter, start, gradients, _SUM, [memory]) if self.sum_learns else memory
            node = self._work.run(int(first), self._given.node(kept), aggregate)
            tensors, _ = node.apart(shown=self._work.shows_input)
            graph = self._graphs[block] = _Graph(start, applied(_Leave, gradients, *tensors), gradients)
        if block == 0:
            self._check_weights(graph)
        whole = self._leave(node, first, stop)
        for number in range(began, len(saved)):
            for tensor, copy in zip(tensors, whole, strict=True):
                if saved[number].data_ptr() == tensor.data_ptr() and saved[number].shape == copy.shape:
                    saved[number] = copy

    @property
    def rows(self) -> Tensor:
        """The rows that come out, as far as blocks were run."""
        return self._results[0]

    def put_away(self) -> list[Tensor]:
        """What the blocks' graphs have saved; it is given back when they are run backwards."""
        saved, self._saved.tensors, self._kept = self._saved.tensors, [], {}
        return saved

    def take_results(self) -> tuple[Tensor, ...]:
        """The tensors of the node that comes out, laid out as `made`; they are the caller's from here on."""
        results, self._results = self._results, []
        return tuple(results)

    def _leave(self, node: Node, first: int, stop: int) -> list[Tensor]:
        """Copy a block's results to their places in the whole, which are given back."""
        tensors, self.made = node.apart(shown=self._work.shows_input)
        if not self._results:
            self._results = [tensor.new_empty(int(self.bounds[-1]), *tensor.shape[1:]) for tensor in tensors]
        places = [_some_rows(whole, first, stop) for whole in self._results]
        with torch.no_grad():
            for place, tensor in zip(places, tensors, strict=True):
                place.copy_(tensor)
        return places

    def _check_weights(self, graph: _Graph) -> None:
        """All that learns must be told of, else its gradient would be lost without a word."""
        known = {id(weight) for weight in (*self._work.weights, graph.start)}
        for leaf in leaves_of([graph.end]):
            if id(leaf) not in known:
                raise ValueError(f"row work uses a weight of shape {tuple(leaf.shape)} that is in none of its modules")

    # ---- backward ----

    def begin_backward(self, saved: Sequence[Tensor], gradients: Sequence[Tensor], summed: Tensor) -> None:
        """Blocks will be run backwards, each when its rows of these gradients are complete; sums are like `summed`."""
        if self.sum_learns:
            self.sum_gradient = torch.empty(int(self.bounds[-1]), summed.shape[1], dtype=accumulator(summed))
        self._saved.tensors, self._gradients = list(saved), gradients
        self._weight_gradients = _InOrder(len(self._weights))

    def run_backward(self, block: int) -> None:
        """Run a block backwards."""
        first, stop = self.bounds[block], self.bounds[block + 1]
        graph = self._graphs.pop(block)
        graph.gradients.given, found = tuple(gradient[first:stop] for gradient in self._gradients), graph.gradients.found
        _, *weights = torch.autograd.grad(graph.end, (graph.start, *self._weights), torch.empty(0), allow_unused=True)
        if self.sum_gradient is not None:
            self.sum_gradient[first:stop] = found.pop(_SUM, 0)
        for number, gradient in found.items():
            if number not in self.kept_gradients:
                self.kept_gradients[number] = gradient.new_zeros(int(self.bounds[-1]), *gradient.shape[1:])
            self.kept_gradients[number][first:stop] = gradient
        self._weight_gradients.add(block, weights)

    def end_backward(self, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Gradients of all weights of the row work, None of those that are not wanted; nothing else is kept any longer."""
        made = iter(self._weight_gradients.totals)
        self._saved.tensors, self._gradients, self.sum_gradient, self.kept_gradients = [], [], None, {}
        return [next(made) if learns else None for learns in wanted]


def _some_rows(whole: Tensor, first: int, stop: int) -> Tensor:
    """Rows of a matrix in the same memory, not as a view: autograd knows nothing of the whole, so they may be written to."""
    start = whole.storage_offset() + int(first) * whole.stride(0)
    with torch.no_grad():
        return torch.empty(0, dtype=whole.dtype).set_(
            whole.untyped_storage(), start, (int(stop - first), *whole.shape[1:]), whole.stride()
        )


class _Enter(Function):
    """Rows come into a block's graph; their gradient is put down among those that are found."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, gradients: _Gradients, number: int, boxed: list[Tensor]) -> Tensor:
        ctx.gradients, ctx.number = gradients, number
        return boxed[0]  # were it an argument, it would come out as a view of itself, which may not be written to

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.gradients.found[ctx.number] = gradient
        return torch.empty(0), None, None, None


class _Leave(Function):
    """Rows leave a block's graph; their gradient is what was given."""

    @staticmethod
    def forward(ctx: Any, gradients: _Gradients, *rows: Tensor) -> Tensor:
        ctx.gradients = gradients
        return torch.empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> Any:
        return None, *ctx.gradients.given
