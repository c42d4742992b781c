"""Memory by hand, and what must always hold of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.plan.forecast.activations import pass_bytes, step_bytes
from starling.plan.forecast.cut import assumed_cut, whole
from starling.plan.forecast.facts import facts_of_numbers
from starling.plan.forecast.memory import BASE_BYTES, MARGIN, Memory
from starling.plan.forecast.model import TENSORS, forecast_model
from starling.plan.forecast.process_memory import process_memory
from starling.plan.forecast.sizes import StepSize, cluster_sizes, global_sizes, mini_sizes
from starling.plan.forecast.team_memory import worker_memory
from starling.plan.forecast.ways import Way
from starling.plan.model_work import LayerSize

FACTS = facts_of_numbers(10_000, 80_000, 64, classes=8, train=5_000, edge_features=6, relations=3)
AMPLE = 1 << 40


def test_a_step_of_one_sage_layer_by_hand() -> None:
    # 10 rows, 4 columns in, 2 out, sums kept: forward 10 × 2 outputs, which stay; then the loss of 5 targets, 4 × 5 × 2, beside
    # a gradient of all outputs, 10 × 2; backward twice the outputs
    model = forecast_model("sage", facts_of_numbers(10, 30, 4, classes=2, train=5), layers=1)
    step = StepSize((LayerSize(10, 10, 30),), 5, 1, whole=True)
    assert step_bytes(model, step, kept_sums=True) == 4 * (20 + 20 + 40)


def test_a_pass_without_gradients_by_hand() -> None:
    # the second layer is narrower, so rows are multiplied first: 10 × 2 twice, and its sums, beside the first one's 10 × 8
    model = forecast_model("sage", facts_of_numbers(10, 90, 4, classes=2, train=5), layers=2, hidden=8)
    assert pass_bytes(model, LayerSize(10, 10, 300), kept_sums=True) == 4 * (80 + 20 + 20 + 20)


def test_the_peak_is_the_largest_moment() -> None:
    assert Memory(100, 10, 5, 1, 0, 0, 50, 20, 30).total == int(100 + MARGIN * (16 + 50))
    assert Memory(100, 10, 5, 1, 0, 0, 0, 0, 300).total == int(100 + MARGIN * 300)


@pytest.mark.parametrize("name", sorted(TENSORS))
@pytest.mark.parametrize("workers", [1, 4])
def test_more_takes_more(name: str, workers: int) -> None:
    way = Way("global", "hybrid", "gradient", workers, workers)

    def total(nodes: int = 10_000, edges: int = 80_000, features: int = 64, hidden: int = 64, layers: int = 2) -> int:
        facts = facts_of_numbers(nodes, edges, features, classes=8, train=nodes // 2, edge_features=6, relations=3)
        model = forecast_model(name, facts, hidden=hidden, layers=layers)
        cut = whole(facts).safe if workers == 1 else assumed_cut(facts, workers).safe
        return worker_memory(facts, model, way, global_sizes(facts, layers).safe, cut, AMPLE).total

    small = total()
    assert small > BASE_BYTES
    assert total(nodes=20_000) > small
    assert total(features=128) > small
    assert total(edges=160_000) >= small
    if name != "sgc":
        assert total(hidden=128) > small
        assert total(layers=3) > small


def test_workers_share_the_memory() -> None:
    facts = facts_of_numbers(1_000_000, 8_000_000, 128, classes=16, train=500_000)
    model, step = forecast_model("sage", facts), global_sizes(facts, 2).safe
    needs = []
    for workers in (2, 4, 8, 16):
        way = Way("global", "hybrid", "gradient", workers, workers)
        needs.append(worker_memory(facts, model, way, step, assumed_cut(facts, workers).safe, AMPLE).total)
    assert needs == sorted(needs, reverse=True)


@given(st.integers(600, 4000))
def test_a_process_within_a_limit_says_its_budget(limit_mib: int) -> None:
    """What `mini` may leave on disk, it does; the budget it asks for never makes it exceed a limit that it says it keeps."""
    facts = facts_of_numbers(200_000, 1_000_000, 256, classes=8, train=20_000)
    model, step = forecast_model("sage", facts), mini_sizes(facts, (5, 5), 128).safe
    limit = limit_mib << 20
    memory, ample = process_memory(facts, model, "mini", step, limit), process_memory(facts, model, "mini", step, AMPLE)
    assert memory.budget is not None
    assert memory.total <= max(limit, ample.total)
    assert memory.features in (0.0, 4.0 * 200_000 * 256)
    if memory.features:
        assert memory.features <= memory.budget / 2


def test_groups_are_found_in_memory_of_their_own() -> None:
    facts = facts_of_numbers(100_000, 20_000_000, 16, classes=4, train=50_000)
    model, step = forecast_model("gcn", facts), cluster_sizes(facts, 2).safe
    way = Way("cluster", "hybrid", "gradient", 2, 2)
    needed = 150 * 100_000 + 100 * 20_000_000
    alone = process_memory(facts, model, "cluster", step, AMPLE)
    assert alone.loading > needed
    assert process_memory(facts, model, "mini", step, AMPLE).loading < needed
    shared = worker_memory(facts, model, way, step, assumed_cut(facts, 2).safe, AMPLE)
    assert shared.budget == needed, "more than a run takes unasked, so the command must ask"


def test_counts_of_cohesive_batches_are_within_the_budget() -> None:
    """`refine` refuses a budget below 4 bytes × batches × (layers − 1) × nodes, so the command must ask for as much."""
    facts = facts_of_numbers(200_000, 2_000_000, 32, classes=8, train=120_000)
    model = forecast_model("gcn", facts, layers=4, hidden=32)
    step = replace(mini_sizes(facts, ("all",) * 4, 1024).safe, steps=117)
    counts = 4 * 117 * 3 * 200_000
    alone = process_memory(facts, model, "cohesive", step, 2 << 30)
    assert alone.budget is not None
    assert alone.budget >= counts
    assert alone.loading >= counts
    fewer = process_memory(facts, model, "cohesive", replace(step, steps=2), 2 << 30)
    assert fewer.loading < alone.loading


@given(st.integers(900, 1100))
def test_global_never_misses_a_limit_by_what_its_own_budget_takes(limit_mib: int) -> None:
    """Evaluation in blocks gets what is left, and 4 bytes a node beside it, which are not taken twice."""
    facts = facts_of_numbers(200_000, 1_000_000, 32, classes=8, train=20_000)
    model, step = forecast_model("sage", facts, hidden=32), global_sizes(facts, 2).safe
    limit = limit_mib << 20
    memory = process_memory(facts, model, "global", step, limit)
    held = memory.graph + memory.features + memory.weights
    needed = BASE_BYTES + MARGIN * (held + max(memory.step, memory.features + 4 * 200_000))
    assert memory.total <= max(limit, needed)
