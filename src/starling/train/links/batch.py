"""One step of link prediction, ready to compute: a filled batch whose outputs are the ends of pairs, and the pairs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from starling.core.exchange import ALONE, Exchange
from starling.engine.fill import FilledBatch
from starling.nn.decoders import LinkModel
from starling.plan.links.pairs import Pairs
from starling.train.work import outputs_of


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkBatch(FilledBatch):
    """`exchange` gives rows of ends that others compute, after the own ones; `weight` is 1 / edges of the step over all workers."""

    pairs: Pairs
    exchange: Exchange = ALONE

    def pair_scores(self, model: nn.Module) -> Tensor:
        """The score of each target edge and of the pairs against it [P, 1 + K]."""
        assert isinstance(model, LinkModel)
        rows = self.exchange.pull(outputs_of(model.encoder, self)[self.outputs])
        pairs = self.pairs
        source, destination = (torch.from_numpy(ends).to(rows.device) for ends in (pairs.source, pairs.destination))
        relation = None if pairs.relation is None else torch.from_numpy(pairs.relation).to(rows.device)
        score = model.decoder.pairs(rows, source, destination, relation)
        slots = len(score) // pairs.edges - 1 if pairs.edges else 0
        return torch.cat([score[: pairs.edges, None], score[pairs.edges :].reshape(pairs.edges, slots)], 1)


def with_pairs(filled: FilledBatch, pairs: Pairs, total: int, exchange: Exchange = ALONE) -> LinkBatch:
    """A filled batch of seeds as one of pairs; `total` are the step's target edges over all workers."""
    given = {field.name: getattr(filled, field.name) for field in fields(FilledBatch)}
    weight = torch.full((pairs.edges,), 1 / max(total, 1), device=filled.x.device)
    return LinkBatch(**given | {"weight": weight, "share": float(total)}, pairs=pairs, exchange=exchange)
