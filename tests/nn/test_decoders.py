"""Decoders: their formulas, and that a node against many candidates scores as pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from starling.nn.decoders import DecoderName, DistMult, Dot, Mlp, make_decoder

NAMES: list[DecoderName] = ["dot", "distmult", "mlp"]


def test_formulas_by_hand() -> None:
    s, d = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]])
    assert Dot()(s, d).tolist() == [1.0]
    decoder = DistMult(2, 3)
    with torch.no_grad():
        decoder.relation.copy_(torch.tensor([[1.0, 1.0], [0.5, 2.0], [0.0, 1.0]]))
    assert decoder(s, d, torch.tensor([1])).tolist() == [1 * 0.5 * 3 + 2 * 2 * -1]
    assert decoder(s, d, torch.tensor([2])).tolist() == [-2.0]
    mlp = Mlp(2, 0)
    with torch.no_grad():
        mlp.product.relation.fill_(1)
        mlp.hidden.weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))
        mlp.hidden.bias.copy_(torch.tensor([0.0, 1.0]))
        mlp.out.weight.copy_(torch.tensor([[2.0, 10.0]]))
        mlp.out.bias.fill_(0.5)
    assert mlp(s, d).tolist() == [2 * (3 - 2) + 10 * 0 + 0.5]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relations", [0, 4])
def test_against_many_is_pair_by_pair(name: DecoderName, relations: int) -> None:
    draw = torch.Generator().manual_seed(1)
    decoder = make_decoder(name, 6, relations, seed=3)
    kept, candidates = torch.randn(5, 6, generator=draw), torch.randn(7, 6, generator=draw)
    relation = torch.arange(5) % relations if relations else None
    scores = decoder.against(kept, candidates, relation)
    for b in range(5):
        one = None if relation is None else relation[b : b + 1].expand(7)
        torch.testing.assert_close(scores[b], decoder(kept[b].expand(7, 6), candidates, one))
        torch.testing.assert_close(scores[b], decoder(candidates, kept[b].expand(7, 6), one))
    assert decoder.against(kept[:0], candidates, None if relation is None else relation[:0]).shape == (0, 7)


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = [weight.detach().numpy() for weight in make_decoder("mlp", 4, 2, seed=5).parameters()]
    torch.manual_seed(2)
    again = [weight.detach().numpy() for weight in make_decoder("mlp", 4, 2, seed=5).parameters()]
    other = [weight.detach().numpy() for weight in make_decoder("mlp", 4, 2, seed=6).parameters()]
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relations", [0, 4])
def test_pairs_by_number_score_and_learn_as_rows_do(name: DecoderName, relations: int) -> None:
    """Also the gradients of rows and relations, some named often and some never."""
    found = []
    for by_number in (True, False):
        rows = torch.from_numpy(np.random.default_rng(5).normal(size=(9, 6)).astype(np.float32)).requires_grad_()
        decoder = make_decoder(name, 6, relations, seed=3)
        source, destination = (torch.from_numpy(np.random.default_rng(k).integers(0, 8, 50)) for k in (0, 1))
        relation = torch.from_numpy(np.random.default_rng(3).integers(0, 3, 50)) if relations else None
        score = (
            decoder.pairs(rows, source, destination, relation)
            if by_number
            else decoder(rows[source], rows[destination], relation)
        )
        (score * torch.from_numpy(np.random.default_rng(4).normal(size=50)).float()).sum().backward()
        found.append([score.detach(), rows.grad, *(weight.grad for weight in decoder.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert found[0][1] is not None
    assert (found[0][1][8] == 0).all()
    decoder = make_decoder(name, 6, relations, seed=3)
    none = torch.empty(0, dtype=torch.int64)
    empty = decoder.pairs(torch.zeros(0, 6, requires_grad=True), none, none, none if relations else None)
    assert empty.shape == (0,)
    empty.sum().backward()


def test_relations_begin_at_either_sign_and_one_alone_as_the_dot_product() -> None:
    many = make_decoder("distmult", 50, 40, seed=1).state_dict()["relation"]
    assert float(many.var()) == pytest.approx(1, abs=0.1)
    assert float(many.mean()) == pytest.approx(0, abs=0.1)
    alone = make_decoder("distmult", 50, 0, seed=1).state_dict()["relation"]
    assert float(alone.min()) >= 0.5
    assert float(alone.max()) <= 1.5
