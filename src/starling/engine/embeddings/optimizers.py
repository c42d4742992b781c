"""Sparse optimisers: how the touched rows of an embedding table move, and what they remember of each row.

All are those of torch for sparse gradients. `sgd` and `adagrad` remember nothing, or the sum of squares. `adam` is
torch.optim.SparseAdam: rows that a step does not touch keep their moments (they are not decayed meanwhile), and the corrections
1 − βᵗ take t as the number of steps of the run, not of the row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from starling.kernels.sparse_steps import adagrad_step, adam_step, sgd_step

SparseName = Literal["sgd", "adagrad", "adam"]
Rows = NDArray[np.float32]


class SparseOptimizer(ABC):
    """Moves rows; `state` names the numbers remembered of each, all zero at first."""

    state: tuple[str, ...] = ()

    @abstractmethod
    def step(
        self, rows: Rows, remembered: dict[str, Rows], index: NDArray[Any], gradient: Rows, rate: float, number: int
    ) -> None:
        """Move the rows of `index`, each named once, in step `number` of the run (from 1)."""


class SparseSGD(SparseOptimizer):
    """w ← w − rate · g."""

    def step(
        self, rows: Rows, remembered: dict[str, Rows], index: NDArray[Any], gradient: Rows, rate: float, number: int
    ) -> None:
        """Plain descent."""
        sgd_step(rows, index, gradient, rate)


class SparseAdagrad(SparseOptimizer):
    """s ← s + g²; w ← w − rate · g / (√s + 10⁻¹⁰)."""

    state = ("squares",)
    epsilon = 1e-10

    def step(
        self, rows: Rows, remembered: dict[str, Rows], index: NDArray[Any], gradient: Rows, rate: float, number: int
    ) -> None:
        """The more a number has moved, the less it moves."""
        adagrad_step(rows, remembered["squares"], index, gradient, rate, self.epsilon)


class SparseAdam(SparseOptimizer):
    """m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; w ← w − rate · √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + 10⁻⁸)."""

    state = ("mean", "square")
    betas, epsilon = (0.9, 0.999), 1e-8

    def step(
        self, rows: Rows, remembered: dict[str, Rows], index: NDArray[Any], gradient: Rows, rate: float, number: int
    ) -> None:
        """By means of gradients over the roots of their mean squares."""
        corrected = rate * math.sqrt(1 - self.betas[1] ** number) / (1 - self.betas[0] ** number)
        adam_step(rows, remembered["mean"], remembered["square"], index, gradient, corrected, self.betas, self.epsilon)


SPARSE_OPTIMIZERS: dict[SparseName, type[SparseOptimizer]] = {
    "sgd": SparseSGD,
    "adagrad": SparseAdagrad,
    "adam": SparseAdam,
}
