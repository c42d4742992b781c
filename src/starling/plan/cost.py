"""What a mini-batch costs to train on: the cost function of CM-GCN (Zhao, Zhou, Gao), Equations 6 to 14, with measured constants.

    C(B) = Σ over hops h = 0 … K − 1 of Σ over nodes v within h hops of B of c_f(v, K − h) + c_b(v, K − h)

A node within h hops of a target is computed in layer K − h, forward and backward, once for all targets that need it: that is why
batches of targets with common neighbours are cheap, and why C is submodular. `plan/price.py` extends this to other layers, sampled
plans, bytes and memory.

Two places where the paper is read, not copied. Equation 13 writes one k for hop and layer; taken literally it would give targets
the cost of layer 0, which is none, and never count the last layer, so hop k is layer K − k here, as its text says ("from Layer 1 to
Layer K"). Equation 12 has one β for inner layers where Equations 10 and 11 add up to two; it stays as printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.cohesive import batch_costs
from starling.kernels.csr import Csr
from starling.plan.calibration import Rates, interpolated

_LARGE_MATRIX = 4096
"""Numbers from which a matrix counts as large in the paper's constants."""


@dataclass(frozen=True)
class Constants:
    """Seconds of one number's worth of each operation (Table I); β depends on the numbers in the matrix."""

    alpha: float
    beta: Callable[[int], float]
    gamma: float
    eta: float
    lam: float


def _paper_beta(numbers: int) -> float:
    return 8e-9 if numbers >= _LARGE_MATRIX else 5.2e-8


PAPER = Constants(alpha=2e-9, beta=_paper_beta, gamma=2e-9, eta=2e-9, lam=1e-9)
"""What the paper measured (§IV-A)."""


def constants_of(rates: Rates) -> Constants:
    """The same of a calibrated machine."""
    return Constants(rates.alpha, lambda numbers: interpolated(rates.beta, numbers), rates.gamma, rates.eta, rates.lam)


@dataclass(frozen=True)
class GcnCost:
    """What a node costs in each layer of a GCN; `widths` are d_0 … d_K, features first and outputs last.

    Every method takes a degree |N_v| or an array of them.
    """

    widths: tuple[int, ...]
    constants: Constants = PAPER

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise InputError(f"Expected the widths of features and of at least one layer, each at least 1, got {self.widths}.")

    @property
    def layers(self) -> int:
        """K."""
        return len(self.widths) - 1

    def forward(self, degree: Any, layer: int) -> Any:
        """c_f(v, k), Equation 6: sum the neighbours' rows, multiply by W, activate. Nothing in layer 0."""
        if layer == 0:
            return 0.0 * degree
        c, (before, after) = self.constants, self._around(layer)
        return c.alpha * degree * before + c.beta(before * after) * after * before + c.gamma * after

    def gradient(self, degree: Any, layer: int) -> Any:
        """c_g(v, k), Equations 8 (last layer: from the loss) and 10 (from the neighbours' gradients). Nothing in layer 0."""
        if layer == 0:
            return 0.0 * degree
        c, (before, after) = self.constants, self._around(layer)
        came = c.lam * after + 0.0 * degree if layer == self.layers else c.alpha * degree * after
        return came + (c.eta + c.beta(before * after)) * after * before

    def weights(self, layer: int) -> float:
        """c_W(v, k), Equation 11: the node's share of the gradient of W."""
        c, (before, after) = self.constants, self._around(layer)
        return c.eta * after + c.beta(before * after) * after * before

    def backward(self, degree: Any, layer: int) -> Any:
        """c_b(v, k), Equation 12 as printed: inner layers have one β, where c_g + c_W have two."""
        if layer == 0:
            return 0.0 * degree
        c, (before, after) = self.constants, self._around(layer)
        beta = c.beta(before * after)
        if layer == self.layers:
            return (c.lam + c.eta) * after + (2 * beta + c.eta) * after * before + 0.0 * degree
        return c.alpha * degree * after + (beta + c.eta) * after * before + c.eta * after

    def of_layer(self, degree: Any, layer: int) -> Any:
        """c_f + c_b of a node in one layer."""
        return self.forward(degree, layer) + self.backward(degree, layer)

    def of_node(self, degree: Any) -> Any:
        """nc(v), §III-B: a node computed in every layer."""
        return sum(self.of_layer(degree, layer) for layer in range(1, self.layers + 1))

    def by_hop(self, degree: NDArray[Any]) -> NDArray[np.float64]:
        """[K, V]: what a node costs for being within so many hops of a target: c_f + c_b in layer K − hop."""
        given = np.asarray(degree, np.float64)
        return np.stack([self.of_layer(given, self.layers - hop) for hop in range(self.layers)])

    def by_distance(self, degree: NDArray[Any]) -> NDArray[np.float64]:
        """[K, V]: what a node adds to C(B) when its nearest target is so many hops away: layers 1 … K − distance."""
        return np.cumsum(self.by_hop(degree)[::-1], axis=0)[::-1].copy()

    def _around(self, layer: int) -> tuple[int, int]:
        return self.widths[layer - 1], self.widths[layer]


@dataclass(frozen=True, eq=False)
class BatchCosts:
    """C and J over one graph's in-neighbour lists."""

    lists: Csr
    cost: GcnCost

    @cached_property
    def by_distance(self) -> NDArray[np.float64]:
        """[K, V] as `GcnCost.by_distance`."""
        return self.cost.by_distance(np.diff(self.lists.offsets))

    def of_batch(self, targets: NDArray[Any]) -> float:
        """C(B), Equation 13."""
        labels = np.full(self.lists.rows, -1, np.int32)
        labels[targets] = 0
        return float(self.of_batches(labels).sum())

    def of_batches(self, batch: NDArray[np.int32]) -> NDArray[np.float64]:
        """C(B) of every batch; `batch` [V] is that of each node, −1 for nodes that are no target."""
        return batch_costs(self.lists.offsets, self.lists.neighbours, batch, self.by_distance)

    def of_epoch(self, batch: NDArray[np.int32]) -> float:
        """J(P) = Σ C(B), Equation 14."""
        return float(self.of_batches(batch).sum())


def gcn_widths(features: int, hidden: int, outputs: int, layers: int) -> tuple[int, ...]:
    """d_0 … d_K of a stack of layers."""
    return (features, *([hidden] * (layers - 1)), outputs)
