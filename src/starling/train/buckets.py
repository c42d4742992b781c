"""Gradients summed in buckets while the backward pass is still making others.

Weights are dealt to buckets from the last to the first, which is about the order in which a backward pass reaches them. A bucket
whose gradients are all there is summed over the team by a thread, after the buckets before it: all workers sum in the same order,
so none waits for a bucket that another keeps back, and every number is added in the order of ranks, as without buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import torch
from torch import Tensor, nn

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.train.flights import ThreadLane
from starling.train.parameters import learnt

BUCKET_BYTES = 1 << 18


class GradientBuckets:
    """The buckets of one model. A step is `begin`, the backward pass, `end`."""

    def __init__(self, model: nn.Module, team: Team, bucket_bytes: int = BUCKET_BYTES) -> None:
        self._team, self._weights = team, learnt(model)
        self._buckets = _dealt(self._weights, bucket_bytes)
        self._bucket_of = {id(self._weights[k]): number for number, bucket in enumerate(self._buckets) for k in bucket}
        self._reducer: ThreadLane | None = None
        self._sums: list[Future[Tensor]] = []
        self._step, self._missing = 0, list[int]()
        self._hooks: list[Any] = []

    def __len__(self) -> int:
        return len(self._buckets)

    def begin(self, step: int) -> None:
        """A backward pass is about to begin."""
        if self._reducer is None:
            self._reducer = ThreadLane("reduce buckets")
            for weight in self._weights:
                self._hooks.append(weight.register_post_accumulate_grad_hook(self._made))  # type: ignore[no-untyped-call]
        self._step, self._sums = step, []
        self._missing = [len(bucket) for bucket in self._buckets]

    def end(self, loss: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """The backward pass is done: sums of the loss and of every gradient, None for weights that nobody has a gradient of."""
        self._missing = [0] * len(self._buckets)
        self._send_whole_buckets()
        with self._team.ledger.time("reducing"):
            total = self._team.all_sum(make_tag(Channel.GRADIENTS, self._step, 0), loss)
            sums: list[Tensor | None] = [None] * len(self._weights)
            for bucket, done in zip(self._buckets, self._sums, strict=True):
                found, *gradients = torch.split(done.result(), [len(bucket), *(self._weights[k].numel() for k in bucket)])
                for k, count, gradient in zip(bucket, found.tolist(), gradients, strict=True):
                    sums[k] = gradient.view_as(self._weights[k]) if count else None
        return total, sums

    def close(self, *, wait: bool) -> None:
        """Let go of the model and end the thread."""
        for hook in self._hooks:
            hook.remove()
        if self._reducer is not None:
            self._reducer.close(wait=wait)

    def _made(self, weight: Tensor) -> None:
        self._missing[self._bucket_of[id(weight)]] -= 1
        self._send_whole_buckets()

    def _send_whole_buckets(self) -> None:
        """Sum the next buckets whose gradients are there; what is missing at the end counts as zero."""
        while len(self._sums) < len(self._buckets) and self._missing[len(self._sums)] <= 0:
            assert self._reducer is not None, "a step has begun"
            number = len(self._sums)
            flat = self._flat(self._buckets[number])
            tag = make_tag(Channel.GRADIENTS, self._step, number + 1)
            self._sums.append(self._reducer.submit(lambda flat=flat, tag=tag: self._summed(tag, flat)))  # type: ignore[misc]

    def _summed(self, tag: int, flat: Tensor) -> Tensor:
        with self._team.ledger.behind():
            return self._team.all_sum(tag, flat)

    def _flat(self, bucket: Sequence[int]) -> Tensor:
        """Which weights have gradients, then the gradients."""
        weights = [self._weights[k] for k in bucket]
        found = torch.tensor([float(weight.grad is not None) for weight in weights])
        return torch.cat([found, *(_gradient(weight).reshape(-1) for weight in weights)])


def _gradient(weight: nn.Parameter) -> Tensor:
    return torch.zeros_like(weight) if weight.grad is None else weight.grad


def _dealt(weights: Sequence[nn.Parameter], bucket_bytes: int) -> list[list[int]]:
    buckets: list[list[int]] = []
    room = 0
    for k in reversed(range(len(weights))):
        if not buckets or room <= 0:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(k)
        room -= weights[k].nbytes
    return buckets
