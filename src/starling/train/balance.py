"""A run whose workers share out every batch by cost (``--balance-workers``), instead of computing each what it owns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.hybrid.balanced_fill import BalancedFiller
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.planning.balanced_steps import TeamBalanced, balance_batches
from starling.engine.hybrid.planning.steps import FixedBatches, TeamTask
from starling.engine.hybrid.planning.targets import fixed_batches
from starling.engine.hybrid.share.source import WorkerSource
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import Constants, GcnCost
from starling.plan.strategy import Strategy
from starling.train.config import RunConfig
from starling.train.grouping import constants_for
from starling.train.team_evaluation import TeamEvaluation
from starling.train.work import TeamWork


@dataclass(frozen=True, eq=False)
class BalanceRequest:
    """What a balanced run is made from, beside its source: labels of own rows, widths d_0 … d_K, whether sums are of raw input."""

    how: Strategy.Settings
    labels: NDArray[Any] | None
    widths: tuple[int, ...]
    raw: bool


def balanced_work(task: TeamTask, source: WorkerSource, request: BalanceRequest, filler: TeamFiller) -> TeamWork:
    """The work of one worker; `filler` is that of its own graph, for evaluation."""
    settings = request.how
    assert isinstance(settings, Cohesive.Settings), "checked when the run began"
    assert request.labels is not None
    batches = fixed_batches(task, settings, request.labels)
    cost = GcnCost(request.widths, _shared_constants(settings, request.widths, source))
    made = balance_batches(source, batches, task.layers, cost)
    strategy = TeamBalanced(task, made.shares, FixedBatches(batches, settings.keep))
    balanced = BalancedFiller(
        source,
        filler.whole,
        filler.seed,
        filler.reuse,
        sending=filler.sending,
        sources=made.sources,
        mirror_features=made.mirror_features,
        raw=request.raw,
    )
    return TeamWork(TeamEvaluation(source, balanced, task.layers), strategy)


def _shared_constants(how: Cohesive.Settings, widths: tuple[int, ...], source: WorkerSource) -> Constants:
    """The first worker's constants, everywhere: maps must be the same, and machines may have been measured differently."""
    sizes = [before * after for before, after in itertools.pairwise(widths)]
    told = np.zeros(4 + len(sizes))
    if source.team.rank == 0:
        c = constants_for(how)
        told[:] = [c.alpha, c.gamma, c.eta, c.lam, *(c.beta(numbers) for numbers in sizes)]
    alpha, gamma, eta, lam, *betas = source.total(told).tolist()
    return Constants(alpha, dict(zip(sizes, betas, strict=True)).__getitem__, gamma, eta, lam)


def check_balance(config: RunConfig, how: Strategy.Settings) -> None:
    """Refuse a run that has nothing to share out."""
    if not config.team.balance_workers:
        return
    if not isinstance(how, Cohesive.Settings):
        raise InputError(
            f"--balance-workers maps batches that stay the same to workers, got --strategy {config.strategy.name}. "
            "Pass --strategy cohesive."
        )
    if how.regroup_every:
        raise InputError("--balance-workers maps batches that stay the same, got regroup_every. Leave one out.")
    if config.team.workers == 1 or config.team.parallel != "hybrid" or config.team.boundary < 1:
        raise InputError("--balance-workers is for several workers of --parallel hybrid with --boundary 1.")
