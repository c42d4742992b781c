"""Gradients summed in buckets are those summed at once, to the bit, and are on their way before the backward pass ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.train.buckets import GradientBuckets
from starling.train.parameters import learnt
from starling.train.sync import Gradients, GradientSync


def model_of(team: Team, unused: bool) -> nn.Module:
    draw = torch.Generator().manual_seed(7)
    model = nn.ModuleList([nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 1), nn.Linear(2, 2)])
    for weight in model.parameters():
        nn.init.normal_(weight, generator=draw)
    return model


def loss_of(model: Any, team: Team, unused: bool) -> Tensor:
    """The last layer is used by nobody; with `unused`, the middle one by the first worker alone."""
    x = torch.full((2, 4), 1.0 + team.rank)
    h = torch.tanh(model[0](x))
    if unused and team.rank:
        return (h.sum() ** 2) / (1 + team.rank)
    return model[2](torch.tanh(model[1](h))).square().sum()


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("bucket_bytes", [1, 64, 10**6])
def test_buckets_change_no_bit(unused: bool, bucket_bytes: int) -> None:
    def work(team: Team) -> None:
        plain, cut = model_of(team, unused), model_of(team, unused)
        loss = loss_of(plain, team, unused)
        loss.backward()  # type: ignore[no-untyped-call]
        expected = GradientSync(plain, team).reduce(Gradients(loss.detach(), [w.grad for w in learnt(plain)]), 0)
        buckets = GradientBuckets(cut, team, bucket_bytes)
        assert len(buckets) == {1: 8, 64: 2, 10**6: 1}[bucket_bytes]
        for step in (1, 2):
            cut.zero_grad()
            loss = loss_of(cut, team, unused)
            buckets.begin(step)
            loss.backward()  # type: ignore[no-untyped-call]
            total, sums = buckets.end(loss.detach())
            assert total == expected.loss
            for found, wanted in zip(sums, expected.of_weights, strict=True):
                assert (found is None) == (wanted is None)
                if found is not None and wanted is not None:
                    np.testing.assert_array_equal(found, wanted)
            assert sums[-1] is None  # nobody has a gradient of it
        buckets.close(wait=True)

    run_threads(3, work)


def test_a_bucket_leaves_while_others_are_made() -> None:
    """At the time the first layer's gradient is made, the last layer's is already summed for the other worker."""

    def work(team: Team) -> list[int]:
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        buckets = GradientBuckets(model, team, 1)
        begun: list[int] = []
        model[0].weight.register_post_accumulate_grad_hook(lambda _: begun.append(len(buckets._sums)))
        loss = model(torch.ones(1, 2)).sum()
        buckets.begin(0)
        loss.backward()
        buckets.end(loss.detach())
        buckets.close(wait=True)
        return begun

    assert run_threads(2, work) == [[1], [1]]
