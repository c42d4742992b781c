"""How the gradients of many workers become one: the last stage of NN-TGAR, reduce."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team


class GradientSync:
    """Sums gradients over the team after each backward pass.

    Every worker's loss is its targets' share of the step's, so the sum is the gradient of one process.
    """

    def __init__(self, model: nn.Module, team: Team) -> None:
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self._team = team

    def reduce(self, loss: Tensor, step: int) -> float:
        """Replace gradients by their sums over all workers; gives the loss of the whole step."""
        if self._team.size == 1:
            return float(loss)
        team, weights = self._team, self._weights
        # A weight without a gradient here (a worker may have no edge of a kind) may have one elsewhere: count where it has.
        found = torch.tensor([weight.grad is not None for weight in weights], dtype=loss.dtype)
        given = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        with team.ledger.time("reducing"):
            mine = torch.cat([loss.detach().reshape(1), found, *(gradient.reshape(-1) for gradient in given)])
            total = team.all_sum(make_tag(Channel.GRADIENTS, step, 0), mine)
            counts, start = total[1 : 1 + len(weights)].tolist(), 1 + len(weights)
            for weight, count in zip(weights, counts, strict=True):
                summed = total[start : start + weight.numel()].view_as(weight)
                start += weight.numel()
                if count:
                    weight.grad = summed if weight.grad is None else weight.grad.copy_(summed)
        return float(total[0])
