"""Weighted means of models: worked out by hand, exact for one model, the same bits for any number of workers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.hybrid.share.worker_graph import parts_of_worker
from starling.train.averaging.model_average import ModelSum, carried, flatten, unflatten

TAG = make_tag(Channel.GRADIENTS, 1, 0)


def averaged(models: list[tuple[int, torch.Tensor]], workers: int) -> list[torch.Tensor]:
    """What each worker gets when models are dealt to workers in order."""

    def work(team: Team) -> torch.Tensor:
        total = ModelSum(team, len(models[0][1]))
        for number in parts_of_worker(team.rank, team.size, len(models)):
            total.add(*models[number])
        return total.mean(TAG, sum(weight for weight, _ in models))

    return run_threads(workers, work)


def test_a_mean_by_hand() -> None:
    """(3 · [1, 10] + 1 · [5, −2] + 0 · [7, 7]) / 4 = [8, 28] / 4."""
    models = [(3, torch.tensor([1.0, 10.0])), (1, torch.tensor([5.0, -2.0])), (0, torch.tensor([7.0, 7.0]))]
    for workers in (1, 2, 3):
        for mean in averaged(models, workers):
            assert mean.tolist() == [2.0, 7.0]


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 10**6))
@settings(max_examples=25, deadline=None)
def test_any_number_of_workers_gives_the_same_bits(seed: int, parts: int, most: int) -> None:
    draw = np.random.default_rng(seed)
    models = [
        (int(weight), torch.from_numpy((draw.normal(size=7) * 10.0 ** draw.integers(-8, 8, 7)).astype(np.float32)))
        for weight in draw.integers(1, most + 1, parts)
    ]
    alone = averaged(models, 1)[0]
    expected = sum(weight * values.double().numpy() for weight, values in models) / sum(weight for weight, _ in models)
    np.testing.assert_allclose(alone.numpy(), expected, rtol=1e-12, atol=1e-12)
    for workers in {min(parts, 2), min(parts, 4)}:
        for mean in averaged(models, workers):
            assert torch.equal(mean, alone)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 2**29 - 1))
def test_the_mean_of_one_model_is_that_model(value: float, weight: int) -> None:
    (mean,) = averaged([(weight, torch.tensor([value]))], 1)
    assert mean.float().item() == value


def test_a_worker_without_models_takes_part() -> None:
    def work(team: Team) -> torch.Tensor:
        total = ModelSum(team, 1)
        if team.rank == 1:
            total.add(2, torch.tensor([3.0]))
        return total.mean(TAG, 2)

    assert [mean.item() for mean in run_threads(3, work)] == [3.0, 3.0, 3.0]


def test_no_weight_at_all_is_no_mean() -> None:
    with pytest.raises(ValueError, match="positive total"):
        ModelSum(Team(), 1).mean(TAG, 0)


def test_weights_and_buffers_go_there_and_back() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[1].num_batches_tracked.fill_(5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flat = flatten(carried(model))
    assert len(flat) == 2 * 3 + 3 + 3 + 3 + 3 + 3 + 1
    unflatten(flat * 2, carried(model))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name] * 2)
