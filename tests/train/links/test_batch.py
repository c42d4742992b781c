"""Scores of a step's pairs: shared nodes as pairs of their own, and no edge against itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import starling.train.links.batch as batch_module
from starling.core.exchange import ALONE
from starling.nn.decoders import DecoderName, LinkModel, make_decoder
from starling.plan.links.pairs import Pairs, SharedPairs
from starling.train.links.batch import LinkBatch

ROWS = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))


def scores_of(pairs: Pairs, name: DecoderName, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, LinkModel]:
    """Scores with `ROWS` as what the encoder gives."""
    model = LinkModel(nn.Identity(), make_decoder(name, 4, 3, seed=1))
    monkeypatch.setattr(batch_module, "outputs_of", lambda encoder, batch: ROWS)
    batch = LinkBatch.__new__(LinkBatch)
    for field, value in {"pairs": pairs, "exchange": ALONE, "outputs": torch.arange(6)}.items():
        object.__setattr__(batch, field, value)
    return batch.pair_scores(model), model


@pytest.mark.parametrize("name", ["dot", "distmult", "mlp"])
def test_shared_nodes_score_as_pairs_of_their_own(name: DecoderName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges 0 → 1 and 2 → 3 by relations 1 and 2; node 1 is the first one's own end, which makes room, so it does not count."""
    shared = SharedPairs(np.array([4, 1, 5]), kept=np.array([0, 3]), replaced=np.array([1, 2]))
    pairs = Pairs(2, np.array([0, 2]), np.array([1, 3]), np.array([1, 2]), shared)
    found, model = scores_of(pairs, name, monkeypatch)
    relation = torch.tensor([1, 2])

    def score(one: list[int], other: list[int]) -> list[float]:
        values: list[float] = model.decoder(ROWS[one], ROWS[other], relation).tolist()
        return values

    assert found.shape == (2, 4)
    columns = [score([0, 2], [1, 3]), score([0, 3], [4, 4]), score([0, 3], [1, 1]), score([0, 3], [5, 5])]
    columns[2][0] = -torch.inf
    np.testing.assert_allclose(found.detach(), np.array(columns).T, rtol=1e-5)


def test_no_edge_stands_against_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge from a node to itself meets itself where ends stand against themselves; another meets a pair of its own end."""
    pairs = Pairs(2, np.array([2, 0, 2, 0]), np.array([2, 1, 2, 0]), None)
    found, _ = scores_of(pairs, "dot", monkeypatch)
    assert found[0, 1] == -torch.inf
    assert found[1].tolist() == pytest.approx([float(ROWS[0] @ ROWS[1]), float(ROWS[0] @ ROWS[0])])
