"""Versions of weights: worked out by hand, kept as long as a step may ask for them, read without a copy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from starling.train.parameters import Parameters, Replica


def one_weight(*, kept: int, clip: float = 0.0) -> Parameters:
    """A single number that starts at 1 and moves by half its gradient."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    return Parameters(model, torch.optim.SGD(model.parameters(), lr=0.5), clip=clip, kept=kept)


def test_versions_by_hand() -> None:
    parameters = one_weight(kept=2)
    for gradient in (1.0, 2.0, -4.0):
        parameters.update([torch.tensor([[gradient]])])
    assert parameters.newest == 3
    assert [float(parameters.version(number)[0]) for number in (1, 2, 3)] == [0.5, -0.5, 1.5]
    with pytest.raises(KeyError):
        parameters.version(0)


def test_the_newest_alone_is_the_model_itself() -> None:
    parameters = one_weight(kept=0)
    parameters.update([torch.tensor([[1.0]])])
    (weight,) = parameters.version(1)
    assert weight is next(parameters.model.parameters())
    with pytest.raises(KeyError):
        parameters.version(0)


def test_gradients_are_clipped_and_gone_afterwards() -> None:
    parameters = one_weight(kept=1, clip=1.0)
    parameters.update([torch.tensor([[-10.0]])])
    assert float(parameters.version(1)[0]) == pytest.approx(1.5)
    assert next(parameters.model.parameters()).grad is None


def test_a_weight_without_a_gradient_stays() -> None:
    parameters = one_weight(kept=1)
    parameters.update([None])
    assert (parameters.newest, float(parameters.version(1)[0])) == (1, 1.0)


def test_a_replica_points_to_a_version_and_leaves_the_model_alone() -> None:
    parameters = one_weight(kept=1)
    parameters.update([torch.tensor([[1.0]])])
    replica = Replica(parameters.model)
    model = replica.read(parameters.version(0))
    assert next(model.parameters()).data_ptr() == parameters.version(0)[0].data_ptr()
    model(torch.ones(1, 1)).sum().backward()
    assert next(parameters.model.parameters()).grad is None
    assert next(replica.read(parameters.version(1)).parameters()).grad is None
    assert model(torch.ones(1, 1)).tolist() == [[0.5]]


def test_buffers_come_back_to_the_model() -> None:
    model = nn.BatchNorm1d(2)
    replica = Replica(model)
    replica.model(torch.tensor([[0.0, 1.0], [4.0, 1.0]]))
    assert model.running_mean is not None
    assert model.running_mean.tolist() == [0.0, 0.0]
    replica.give_buffers(model)
    assert model.running_mean.tolist() == pytest.approx([0.2, 0.1])
