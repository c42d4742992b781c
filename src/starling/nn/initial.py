"""Initial weights that depend on the seed and the parameter's name alone, so that adding a layer does not move the others."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from starling.core.keyed import stream_key

Module = TypeVar("Module", bound=nn.Module)
_SHARED = threading.RLock()  # torch has one generator for all threads of a process


@contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """Torch's own generator, seeded and kept from other threads, for modules that draw from it and take no other."""
    with _SHARED:
        torch.manual_seed(seed)
        yield


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
        """First weights of a torch module from its own stream; one that we do not know draws them itself."""
        if isinstance(module, nn.Linear | nn.LSTM):  # as torch does: uniform in ±1/√(columns read)
            columns = module.in_features if isinstance(module, nn.Linear) else module.hidden_size
            for key, weight in module.named_parameters():
                self.uniform(f"{name}{key}", weight, 1 / math.sqrt(max(columns, 1)))
            return
        with _SHARED, torch.random.fork_rng(devices=[]), torch_seeded(self._key(name)):
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


def unfilled(kind: type[Module], *arguments: Any, **settings: Any) -> Module:
    """A torch module whose weights are still to be drawn: torch's own generator, which all threads share, is left alone."""
    return kind(*arguments, device="meta", **settings).to_empty(device="cpu")


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
