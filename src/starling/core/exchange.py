"""What a model may ask of other workers, without knowing that there are any.

Rows of a local graph are ordered: first the rows this worker owns, then mirrors of rows that others own. A layer gives the owned
rows and gets what it needs back. In one process there are no mirrors and every operation is the identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Exchange(Protocol):
    """Differentiable traffic between the workers that compute one graph together; every worker makes the same calls in order."""

    spread: bool
    """True where in-edges of one row lie with several workers (a vertex-cut), so that aggregates are partial until pushed."""

    @property
    def workers(self) -> int:
        """How many compute the graph together."""

    def pull(self, rows: Tensor) -> Tensor:
        """Owned rows [owned, …] → rows of every local source [sources, …]; gradients flow back to the owners."""

    def push_sum(self, partial: Tensor) -> Tensor:
        """Partial sums of all local destinations → whole sums of the owned ones [outputs, …]."""

    def push_max(self, partial: Tensor) -> Tensor:
        """Partial maxima of all local destinations → whole maxima of the owned ones; the gradient goes to one winner."""

    def push_softmax(self, partial: Tensor, log_sum: Tensor, node_columns: int) -> Tensor:
        """Softmax-weighted sums over the edges here, with their log-sums [rows, H] → over all edges of the owned destinations.

        Head h's columns are the h-th of H equal stretches of the first `node_columns`, and of the others.
        """

    def all_sum(self, values: Tensor) -> Tensor:
        """The sum of `values` over all workers, on each of them (batch norm's statistics)."""


class Alone:
    """The exchange of a single process: nothing to do."""

    spread, workers = False, 1

    def pull(self, rows: Tensor) -> Tensor:
        """All sources are owned."""
        return rows

    def push_sum(self, partial: Tensor) -> Tensor:
        """All in-edges are here."""
        return partial

    def push_max(self, partial: Tensor) -> Tensor:
        """All in-edges are here."""
        return partial

    def push_softmax(self, partial: Tensor, log_sum: Tensor, node_columns: int) -> Tensor:
        """All in-edges are here."""
        return partial

    def all_sum(self, values: Tensor) -> Tensor:
        """There is nobody to add."""
        return values


ALONE: Exchange = Alone()
