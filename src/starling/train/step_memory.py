"""What a step keeps for its backward pass, counted, beside what the formula of boundary sampling says.

BDS-GCN (§3.1): a layer of a part with n_in inner and n_bd boundary nodes, reading rows of d columns, needs memory for
(3 · n_in + n_bd) · d numbers: all rows that come in, the inner ones' aggregates, and both side by side under the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.nn.model import LayeredModel
from starling.nn.view import View

_BYTES = 4
"""Of a number between layers, float32."""


@dataclass(frozen=True)
class StepMemory:
    """Bytes by the formula (0 where a model does not say how wide its layers are), and bytes that were kept."""

    formula: int = 0
    held: int = 0


def formula_bytes(model: nn.Module, views: Sequence[View]) -> int:
    """Σ over layers of 4 · (3 · n_in + n_bd) · d, of the rows that this worker reads in this step."""
    widths = model.input_widths if isinstance(model, LayeredModel) else ()
    total = 0
    for layer, (width, view) in enumerate(zip(widths, views, strict=False)):
        inner, boundary = view.graph.sources, 0
        if isinstance(view.exchange, TeamExchange):
            inner, boundary = view.exchange.traffic.owned, view.exchange.traffic.mirrors
        if view.constants is not None and layer < view.constants.kept(view.graph):
            boundary = 0  # no row of others is read any more
        total += _BYTES * (3 * inner + boundary) * width
    return total


class Held:
    """Counts what the forward pass inside keeps for a backward pass: each piece of memory once, weights not at all."""

    def __init__(self, model: nn.Module) -> None:
        self.bytes = 0
        self._seen = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        self._hooks = saved_tensors_hooks(self._count, lambda kept: kept)

    def _count(self, tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in self._seen:  # what is kept stays where it is, so a place tells it apart
            self._seen.add(memory.data_ptr())
            self.bytes += memory.nbytes()
        return tensor

    def __enter__(self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.__exit__(kind, error, trace)
