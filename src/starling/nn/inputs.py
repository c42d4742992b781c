"""Input rows of a step: features, which stay as they are, and rows that are learnt, as embeddings of nodes without features.

Batches are made ahead of training, features included. A row that is learnt moves with every step, so it is read when its step
begins: a batch carries a `LearntRows`, which says whose rows those are, and knows where they live.

    x = input_rows(batch.x, batch.learnt)    # FilledBatch.inputs() does this
    loss_of(model(views, x)).backward()
    batch.learnt.update()                    # each row's gradient goes to its owner, who moves the row (EmbeddingTable.step)

Learnt columns stand beside features (after them), or learnt rows stand in for the missing features of some nodes: those of types
without features, say. In one process, in a team that computes a step together, and over the key-value store it is the same: only
where rows are read, and where gradients go, differs (`engine/embeddings/`, `engine/data/embeddings.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class LearntRows(ABC):
    """The rows of a table of embeddings that one step reads."""

    places: Tensor | None = None
    """Which of the step's input rows these are, int64; None: all of them, in order, and then they stand beside the features."""

    def __init__(self) -> None:
        self._leaf: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """What is held for them until they are read."""
        return 0 if self.places is None else self.places.nbytes

    def read(self) -> Tensor:
        """The rows as they are now, float32 [n, D]; gradients are gathered in the tensor that is returned."""
        self._leaf = self._read().requires_grad_()
        return self._leaf

    def update(self) -> None:
        """After the backward pass: give every row's gradient to its owner, who moves the row. No gradient counts as zeros."""
        leaf, self._leaf = self._leaf, None
        assert leaf is not None, "rows are read before they are updated"
        self._update(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad)

    @abstractmethod
    def _read(self) -> Tensor:
        """The rows, in memory nobody else writes to before `_update`."""

    @abstractmethod
    def _update(self, gradient: Tensor) -> None:
        """Hand the gradient in; every worker of a team does so in every step, also one without rows."""


def input_rows(features: Tensor, learnt: LearntRows | None) -> Tensor:
    """What a model reads: features [n, F], learnt columns beside them [n, F + D], or learnt rows in place of zeros [n, F ≥ D]."""
    if learnt is None:
        return features
    rows = learnt.read().to(features.device)
    if learnt.places is not None:
        places = learnt.places.to(features.device)
        filled = torch.cat([rows, features[places, rows.shape[1] :]], 1)  # what follows stays: zeros, or a node's type
        return features.index_copy(0, places, filled)
    return rows if features.shape[1] == 0 else torch.cat([features, rows], 1)
