"""How the gradients of many workers become one, and when they become weights: the last stage of NN-TGAR, reduce.

    for loss in updates.run(steps): ...

Every worker adds the same numbers and makes the same updates in the same order, so all hold the same weights, bit for bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.train.buckets import GradientBuckets
from starling.train.flights import CallersLane, Flights, Lane, ThreadLane
from starling.train.parameters import Parameters, Replica, Weights, learnt
from starling.train.slots import Slots

Step = Callable[[nn.Module], Tensor]
"""One step of training: from a model to this worker's share of the loss."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """What a backward pass gives: the loss, and for each weight that is learnt a gradient, or None where it has none."""

    loss: Tensor
    of_weights: Sequence[Tensor | None]


class GradientSync:
    """Sums gradients over the team after each backward pass.

    Every worker's loss is its targets' share of the step's, so the sum is the gradient of one process.
    """

    def __init__(self, model: nn.Module, team: Team) -> None:
        self._weights, self._team = learnt(model), team

    def reduce(self, given: Gradients, step: int) -> Gradients:
        """Sums of loss and gradients over all workers, the same bits on each."""
        if self._team.size == 1:
            return given
        team, weights, loss = self._team, self._weights, given.loss
        # A weight without a gradient here (a worker may have no edge of a kind) may have one elsewhere: count where it has.
        found = torch.tensor([gradient is not None for gradient in given.of_weights], dtype=loss.dtype).to(loss.device)
        mine = [
            torch.zeros_like(weight) if gradient is None else gradient
            for weight, gradient in zip(weights, given.of_weights, strict=True)
        ]
        with team.ledger.time("reducing"):
            flat = torch.cat([loss.reshape(1), found, *(gradient.reshape(-1) for gradient in mine)])
            total = team.all_sum(make_tag(Channel.GRADIENTS, step, 0), flat)
            sums = torch.split(total[1 + len(weights) :], [weight.numel() for weight in weights])
            counts = total[1 : 1 + len(weights)].tolist()
        summed = [part.view_as(weight) if count else None for part, weight, count in zip(sums, weights, counts, strict=True)]
        return Gradients(total[0], summed)


class Updates:
    """Computes steps and moves the weights: step t reads version t − staleness, so so many updates may still be under way.

    With staleness 0 everything happens in the caller's thread, one thing after the other. Otherwise gradients are reduced and
    applied in a thread of their own, in the order of steps, and up to `in_flight` steps compute at once, each in its thread, on its
    replica of the model. Which version a step reads never depends on time: results are those of in_flight 1, to the bit.
    """

    def __init__(self, parameters: Parameters, team: Team, *, staleness: int = 0, in_flight: int = 1, threads: int = 1) -> None:
        if in_flight > staleness + 1:
            raise ValueError(f"{in_flight} steps at once need a staleness of {in_flight - 1}, got {staleness}")
        model = parameters.model
        if in_flight > 1:
            _check_no_buffers(model)
        self._parameters, self._team, self._staleness = parameters, team, staleness
        self._sync, self._slots, self._flights = GradientSync(model, team), Slots(threads), Flights(in_flight)
        self._reducer: Lane = ThreadLane("reduce") if staleness else CallersLane()
        # Buckets are summed beside the backward pass, by another thread: what lies on devices is exchanged in one order.
        in_order = team.device.type != "cpu"
        buckets = GradientBuckets(model, team) if team.size > 1 and not staleness and not in_order else None
        self._buckets = buckets if buckets is not None and len(buckets) > 1 else None  # one bucket is there when all are
        self._replicas = [Replica(model) for _ in range(in_flight)] if staleness else []
        self._step = 0

    def run(self, steps: Iterable[Step]) -> Iterator[float]:
        """Compute the steps of an epoch in order; gives each one's loss when its update is made. At the end none is under way."""
        first, updates = self._parameters.newest, deque[Future[float]]()
        for step in steps:
            weights = self._parameters.version(max(first, self._step - self._staleness))
            gradients = self._flights.start(self._step, partial(self._compute, self._step, step, weights))
            del step  # it holds a batch
            updates.append(self._reducer.submit(partial(self._update, self._step, gradients)))
            self._step += 1
            while len(updates) > self._staleness:
                yield updates.popleft().result()
            self._flights.wait_for_room(self._step)  # before the next batch is asked for: it takes memory
        while updates:
            yield updates.popleft().result()
        if self._replicas:
            self._replicas[0].give_buffers(self._parameters.model)

    def reread(self) -> None:
        """The model was written to from outside, between two epochs: go on with what it holds."""
        self._parameters.reread()
        for replica in self._replicas:
            replica.take_buffers(self._parameters.model)

    def _compute(self, number: int, step: Step, weights: Weights) -> Gradients:
        """Forward and backward, with the given weights."""
        if self._replicas:
            model = self._replicas[number % len(self._replicas)].read(weights)
        else:
            model = self._parameters.model
        with self._slots.held(number):
            loss = step(model)
            if self._buckets is not None:
                self._buckets.begin(number)
            loss.backward()  # type: ignore[no-untyped-call]
        if self._buckets is not None:
            return Gradients(*self._buckets.end(loss.detach()))
        return Gradients(loss.detach(), [weight.grad for weight in learnt(model)])

    def _update(self, number: int, gradients: Future[Gradients]) -> float:
        """Reduce and apply; waits for the step to have been computed."""
        given = gradients.result()
        with self._slots.held(number):
            total = given if self._buckets is not None else self._sync.reduce(given, number)
            self._parameters.update(total.of_weights)
        return float(total.loss)

    def __enter__(self) -> Self:
        self._team.ledger.while_waiting = self._slots.given_up
        return self

    def __exit__(self, *failure: Any) -> None:
        # After a failure other steps may wait for messages that never come; alone, they end by themselves.
        wait = failure[0] is None or self._team.size == 1
        self._flights.close(wait=wait)
        self._reducer.close(wait=wait)
        if self._buckets is not None:
            self._buckets.close(wait=wait)
        self._team.ledger.while_waiting = nullcontext


def _check_no_buffers(model: nn.Module) -> None:
    """Refuse what steps hand on to one another beside weights: steps at once would do so in any order."""
    name = next((name for name, _ in model.named_buffers()), None)
    if name is not None:
        raise InputError(
            f"Steps change the model's buffer '{name}' one after the other, as batch norm does with its statistics, so they cannot "
            "be in flight together. Pass --in-flight 1, or another norm (--set model.norm=layer)."
        )
