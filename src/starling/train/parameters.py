"""The parameter manager: weights in numbered versions, so that a step may read one while newer ones are made (GraphTheta §4.3)."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim import Optimizer

from starling.train.optimizers import clip_gradients

Weights = tuple[Tensor, ...]
"""What a model learns, in the order of its parameters; not to be written to."""


class Parameters:
    """Version v are the weights after v updates. The model holds the newest; with `kept` > 0, so many before it can be read too.

    Costs kept + 1 copies of the weights, and one copy an update; with `kept` 0 nothing is copied.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, *, clip: float = 0.0, kept: int = 0) -> None:
        self.model, self.newest = model, 0
        self._weights = learnt(model)
        self._optimizer, self._clip, self._kept = optimizer, clip, kept
        self._versions: dict[int, Weights] = {}
        self._keep()

    def version(self, number: int) -> Weights:
        """The weights after `number` updates; of those a step may ask for (KeyError for older ones)."""
        if number == self.newest and not self._kept:
            return tuple(self._weights)
        return self._versions[number]

    def reread(self) -> None:
        """The model's weights were written to from outside: they are the newest version, and there is none before it."""
        self._versions.clear()
        self._keep()

    def update(self, gradients: Sequence[Tensor | None]) -> None:
        """Make the next version, from the newest one and gradients that may come from an older."""
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient
        clip_gradients(self.model, self._clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.newest += 1
        self._keep()

    def _keep(self) -> None:
        if self._kept:
            self._versions[self.newest] = tuple(weight.detach().clone() for weight in self._weights)
            self._versions.pop(self.newest - self._kept - 1, None)


class Replica:
    """A model like another whose weights are those of any version: they are pointed to, not copied."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).train()
        self._weights = learnt(self.model)

    def read(self, weights: Weights) -> nn.Module:
        """The model with these weights, and no gradients."""
        for weight, value in zip(self._weights, weights, strict=True):
            weight.data, weight.grad = value, None
        return self.model

    def give_buffers(self, model: nn.Module) -> None:
        """Let another model have what this one's buffers hold (batch norm's statistics)."""
        _copy_buffers(self.model, model)

    def take_buffers(self, model: nn.Module) -> None:
        """Have what another model's buffers hold."""
        _copy_buffers(model, self.model)


def _copy_buffers(giver: nn.Module, taker: nn.Module) -> None:
    for given, taken in zip(giver.buffers(), taker.buffers(), strict=True):
        taken.copy_(given)


def learnt(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that gradients move."""
    return [weight for weight in model.parameters() if weight.requires_grad]
