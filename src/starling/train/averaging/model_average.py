"""The mean of many models, weighted: W = Σ αᵢ Wᵢ with αᵢ = training nodes of part i / all training nodes (CATGNN §3.3).

Models are added in the order of parts, whoever trained them: the first worker adds its own and hands the sum to the second, and so
on; the last one tells everybody. That takes as many messages one after another as there are workers, and gives the same bits for
any number of them. Sums are made in float64, in which n · w of a float32 w is exact: the mean of one model is that model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from starling.comm.team import Team


def flatten(values: Iterable[Tensor]) -> Tensor:
    """Tensors of any kinds and shapes as one vector."""
    return torch.cat([value.detach().reshape(-1).cpu() for value in values])


@torch.no_grad()
def unflatten(flat: Tensor, into: Sequence[Tensor]) -> None:
    """Write a flat vector back into tensors like those it was made from; whole numbers are rounded."""
    pieces = torch.split(flat, [value.numel() for value in into])
    for value, piece in zip(into, pieces, strict=True):
        value.copy_((piece if value.is_floating_point() else piece.round()).view(value.shape))


def carried(model: nn.Module) -> list[Tensor]:
    """All that a model hands on: weights, then buffers such as batch norm's statistics."""
    return [*model.parameters(), *model.buffers()]


class ModelSum:
    """The models of a round, to be averaged; `length` numbers each.

    The first worker adds its models as they come; others keep theirs, 4 bytes a weight and part, until it is their turn.
    """

    def __init__(self, team: Team, length: int) -> None:
        self._team, self._sum = team, torch.zeros(length, dtype=torch.float64)
        self._waiting: list[tuple[int, Tensor]] = []

    def add(self, weight: int, values: Tensor) -> None:
        """The model of this worker's next part, with its training nodes as weight."""
        if self._team.rank == 0:
            self._sum += weight * values.double()
        else:
            self._waiting.append((weight, values))

    def mean(self, tag: int, total: int) -> Tensor:
        """Σ weight · values / total over the models of all workers, the same bits on each; everybody asks, models or none."""
        if total <= 0:
            raise ValueError("a mean needs a positive total weight")
        team, last, shape = self._team, self._team.size - 1, tuple(self._sum.shape)
        if team.rank > 0:
            with team.links.receive(team.rank - 1, tag, shape, torch.float64) as before:
                self._sum.copy_(before)
        for weight, values in self._waiting:
            self._sum += weight * values.double()
        for peer in range(last) if team.rank == last else [team.rank + 1]:
            team.links.send_copy(peer, tag, self._sum)
            team.ledger.sent(peer, self._sum.nbytes)
        if team.rank < last:
            with team.links.receive(last, tag, shape, torch.float64) as whole:
                self._sum.copy_(whole)
        return self._sum / total
