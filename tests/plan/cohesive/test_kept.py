"""Plans of fixed batches are made once, within a budget, until the targets are grouped anew."""

from __future__ import annotations

import numpy as np

from starling.plan.batch import BatchPlan, Block
from starling.plan.cohesive.kept import KeptPlans
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.strategy import PlanTask
from tests.plan.sources import draw_graph, in_words_of_positions

ROWS, EDGES = 3, 5


def plan_of(number: int) -> BatchPlan:
    block = Block(np.array([0, EDGES]), np.zeros(EDGES, np.int32), np.arange(EDGES), ROWS)
    return BatchPlan(1, number, np.arange(ROWS), (block,), np.zeros(1, np.int32), np.zeros(1, np.int32))


def never() -> BatchPlan:
    raise AssertionError("this plan was made before")


def test_a_plan_is_made_once_and_anew_after_regrouping() -> None:
    kept = KeptPlans[BatchPlan](1 << 20, lambda plan: 1.0)
    first, second = (kept.plan(0, number, lambda n=number: plan_of(n)) for number in (4, 5))
    assert second is not first
    assert kept.plan(0, 4, never) is first
    assert kept.plan(0, 5, never) is second
    assert kept.plan(1, 4, lambda: plan_of(4)) is not first, "other targets"


def test_what_does_not_fit_is_made_each_time() -> None:
    kept = KeptPlans[BatchPlan](150, lambda plan: 100.0)
    first, second = kept.plan(0, 0, lambda: plan_of(0)), kept.plan(0, 1, lambda: plan_of(1))
    assert kept.plan(0, 0, lambda: plan_of(0)) is first
    assert kept.plan(0, 1, lambda: plan_of(1)) is not second


def test_kept_plans_are_those_made_anew() -> None:
    graph = draw_graph(60, 200, seed=3).source
    labels = (np.arange(graph.rows) % 4 * 8).astype(np.int64)
    task = PlanTask(graph, np.arange(0, graph.rows, 2), 2, seed=5, clusters=labels)
    keeping, anew = (Cohesive(Cohesive.Settings(keep=keep, regroup_every=2), task) for keep in (1 << 20, 0))
    for epoch in range(1, 6):
        for step in range(keeping.steps_per_epoch):
            one, other = keeping.plan(epoch, step), anew.plan(epoch, step)
            assert in_words_of_positions(one, graph) == in_words_of_positions(other, graph)
            assert (one.epoch, one.step) == (epoch, step)
