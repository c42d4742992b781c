"""What moves the weights of a run: its optimiser, the schedule of its rate, and how gradients become updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch.optim import Optimizer

from starling.comm.team import Team
from starling.core.environment import thread_count
from starling.core.errors import InputError
from starling.train.optimizers import Schedule, make_optimizer
from starling.train.parameters import Parameters
from starling.train.setup import Setup
from starling.train.sync import Updates


@dataclass(frozen=True, eq=False)
class Learning:
    """Inside its block steps may be under way in threads of their own."""

    optimizer: Optimizer
    schedule: Schedule
    updates: Updates

    def __enter__(self) -> Self:
        self.updates.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self.updates.__exit__(*failure)


def learn_together(setup: Setup, team: Team) -> Learning:
    """All workers move the same weights, by the sum of their gradients."""
    optimizer = make_optimizer(setup.model, setup.config.optimizer)
    return Learning(optimizer, schedule_of(setup, optimizer), updates_of(setup, optimizer, team))


def schedule_of(setup: Setup, optimizer: Optimizer) -> Schedule:
    """The learning rate of every epoch, turned at `optimizer`."""
    config = setup.config
    return Schedule(optimizer, config.schedule, config.run.epochs, higher_is_better=setup.task.score.higher_is_better)


def updates_of(setup: Setup, optimizer: Optimizer, team: Team) -> Updates:
    """How gradients of a team become updates, at once or some steps late."""
    config, sync = setup.config, setup.config.sync
    if sync.staleness and setup.work.steps_per_epoch == 1:
        raise InputError(
            f"--staleness {sync.staleness} lets the steps of an epoch overlap, and here an epoch is one step. Pass --strategy mini "
            "or cluster, with less in a step than all, or leave it out."
        )
    parameters = Parameters(setup.model, optimizer, clip=config.optimizer.clip, kept=sync.staleness)
    threads = config.team.threads or thread_count()
    return Updates(parameters, team, staleness=sync.staleness, in_flight=sync.in_flight, threads=threads)
