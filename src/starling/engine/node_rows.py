"""What steps read of the nodes of a source: features that stay, or rows that are learnt."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.engine.features import Features
from starling.nn.inputs import LearntRows
from starling.nn.reuse import Constants


class NodeRows:
    """The rows of all nodes that a source has, a whole graph's or one worker's own; the base of every source."""

    features: Features

    @property
    def device(self) -> torch.device:
        """Where steps read them."""
        return torch.device("cpu")

    @property
    def x(self) -> Tensor:
        """The features of all nodes, in memory; for steps on the whole graph. The same object each time unless rows are learnt."""
        return self._all() if self.features.learnt else self._fixed_x

    @cached_property
    def _fixed_x(self) -> Tensor:
        return self._all()

    def _all(self) -> Tensor:
        return torch.from_numpy(self.features.all()).to(self.device)

    def constants(self, *, keep: bool) -> Constants | None:
        """`x` as rows whose aggregates are kept, for training and evaluation alike, or not; None where rows are learnt."""
        if self.features.learnt:
            return None
        return self._kept_constants if keep else Constants(self.x, keep=False)

    @cached_property
    def _kept_constants(self) -> Constants:
        return Constants(self.x)

    def step_rows(self, index: NDArray[Any] | None, *, repeats: bool = False) -> tuple[Tensor, LearntRows | None]:
        """What a step reads of these nodes (None: of all): features, and rows that are learnt, if there are such."""
        if index is None and not self.features.learnt:
            return self.x, None
        rows, learnt = self.features.step_rows(index, repeats=repeats)
        return torch.from_numpy(rows).to(self.device), learnt
