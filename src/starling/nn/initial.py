"""Initial weights that depend on the seed and the parameter's name alone, so that adding a layer does not move the others."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from starling.core.keyed import stream_key


class Draws:
    """Random fillings for the parameters of one module."""

    def __init__(self, seed: int, path: str) -> None:
        self._seed, self._path = seed, path

    def uniform(self, name: str, tensor: Tensor, bound: float) -> None:
        """Uniform in ±bound; drawn as float64, so that every type of weight starts from the same numbers."""
        with torch.no_grad():
            values = torch.rand(tensor.shape, dtype=torch.float64, generator=self._generator(name))
            tensor.copy_(values.mul_(2 * bound).sub_(bound))

    def glorot(self, name: str, tensor: Tensor) -> None:
        """Glorot's uniform for matrices [..., in, out]: bound √(6 / (in + out))."""
        self.uniform(name, tensor, math.sqrt(6 / (tensor.shape[-2] + tensor.shape[-1])))

    def zero(self, tensor: Tensor) -> None:
        """All zeros, as biases start."""
        nn.init.zeros_(tensor)

    def module(self, name: str, module: nn.Module) -> None:
        """Let a torch module draw its own weights from its own stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._key(name))
            for part in module.modules():
                reset = getattr(part, "reset_parameters", None)
                if callable(reset):
                    reset()

    def _generator(self, name: str) -> Generator:
        return Generator().manual_seed(self._key(name))

    def _key(self, name: str) -> int:
        return int(stream_key(self._seed, f"weights/{self._path}/{name}")) >> 1


@runtime_checkable
class Initialised(Protocol):
    """A module that fills its own parameters (not its children's)."""

    def initialise(self, draws: Draws) -> None:
        """Fill the parameters."""


def initialise(model: nn.Module, seed: int) -> None:
    """Fill every parameter of a model from the seed, module by module, each from a stream named by its path."""
    inside = ""
    for path, module in model.named_modules():
        if inside and path.startswith(inside):
            continue  # the parent has seen to it
        if isinstance(module, Initialised):
            module.initialise(Draws(seed, path))
        elif hasattr(module, "reset_parameters"):
            Draws(seed, path).module("", module)
            inside = f"{path}."
