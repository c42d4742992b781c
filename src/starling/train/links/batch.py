"""One step of link prediction, ready to compute: a filled batch whose outputs are the ends of pairs, and the pairs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from starling.core.exchange import ALONE, Exchange
from starling.engine.fill import FilledBatch
from starling.nn.decoders import Decoder, LinkModel
from starling.plan.links.pairs import Pairs, SharedPairs
from starling.train.outputs import outputs_of


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkBatch(FilledBatch):
    """`exchange` gives rows of ends that others compute, after the own ones; `weight` is 1 / edges of the step over all workers."""

    pairs: Pairs
    exchange: Exchange = ALONE

    def pair_scores(self, model: nn.Module) -> Tensor:
        """The score of each target edge and of the pairs against it [P, 1 + K]; −∞ of those that are the edge itself."""
        assert isinstance(model, LinkModel)
        rows = self.exchange.pull(outputs_of(model.encoder, self)[self.outputs])
        pairs = self.pairs
        source, destination = (torch.from_numpy(ends).to(rows.device) for ends in (pairs.source, pairs.destination))
        relation = None if pairs.relation is None else torch.from_numpy(pairs.relation).to(rows.device)
        score = model.decoder.pairs(rows, source, destination, relation)
        slots = len(score) // pairs.edges - 1 if pairs.edges else 0
        edge_itself = _as_edge(source, pairs.edges, slots) & _as_edge(destination, pairs.edges, slots)
        against = score[pairs.edges :].reshape(pairs.edges, slots).masked_fill(edge_itself, -torch.inf)
        scores = [score[: pairs.edges, None], against]
        if pairs.shared is not None:
            scores.append(
                _against_shared(model.decoder, rows, pairs.shared, None if relation is None else relation[: pairs.edges])
            )
        return torch.cat(scores, 1)


def _as_edge(ends: Tensor, edges: int, slots: int) -> Tensor:
    """Whether the end of each pair against an edge [P, K] is the edge's own."""
    return ends[edges:].reshape(edges, slots) == ends[:edges, None]


def _against_shared(decoder: Decoder, rows: Tensor, shared: SharedPairs, relation: Tensor | None) -> Tensor:
    """Scores [P, S] of each edge's kept end with all shared nodes, as one product of matrices where the decoder has one."""
    node, kept, replaced = (torch.from_numpy(ends).to(rows.device) for ends in (shared.node, shared.kept, shared.replaced))
    score = decoder.against(rows.index_select(0, kept), rows.index_select(0, node), relation)
    return score.masked_fill(node == replaced[:, None], -torch.inf)


def with_pairs(filled: FilledBatch, pairs: Pairs, total: int, exchange: Exchange = ALONE) -> LinkBatch:
    """A filled batch of seeds as one of pairs; `total` are the step's target edges over all workers."""
    given = {field.name: getattr(filled, field.name) for field in fields(FilledBatch)}
    weight = torch.full((pairs.edges,), 1 / max(total, 1), device=filled.x.device)
    return LinkBatch(**given | {"weight": weight, "share": float(total)}, pairs=pairs, exchange=exchange)
