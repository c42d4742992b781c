"""Steps of small arrays take more than their arrays; plans that were run stay within what is predicted now."""

from __future__ import annotations

import pytest

from starling.core.allocator import KEPT_ARRAY_BYTES
from starling.plan.forecast.activations import step_bytes
from starling.plan.forecast.facts import facts_of_numbers
from starling.plan.forecast.holes import KEPT_TIMES, held_step_bytes, small_share
from starling.plan.forecast.memory import BASE_BYTES, WORKER_BYTES, Memory
from starling.plan.forecast.model import forecast_model
from starling.plan.forecast.sizes import global_sizes

MIB = 1 << 20


def test_arrays_below_the_threshold_by_hand() -> None:
    # two sage layers of 100 rows, 8 columns between them, 2 classes: 100 × 8 out of the first and into the second, 100 × 2 out
    facts = facts_of_numbers(100, 500, 4, classes=2, train=50)
    model, step = forecast_model("sage", facts, hidden=8), global_sizes(facts, 2).safe
    assert small_share(model, step, 3200) == 1
    assert small_share(model, step, 3199) == 800 / (3200 + 3200 + 800)
    assert small_share(model, step, 799) == 0


@pytest.mark.parametrize(("nodes", "times"), [(100_000, KEPT_TIMES), (1_000_000, 1.0)])
def test_large_arrays_are_given_back(nodes: int, times: float) -> None:
    facts = facts_of_numbers(nodes, 10 * nodes, 32, classes=1, train=nodes)
    model, step = forecast_model("sage", facts, hidden=128), global_sizes(facts, 2).safe
    assert (nodes * 128 * 4 <= KEPT_ARRAY_BYTES) == (times > 1)
    held = held_step_bytes(model, step, kept_sums=True, exact=True)
    assert held == pytest.approx(times * step_bytes(model, step, kept_sums=True), rel=0.02)


@pytest.mark.parametrize(
    ("workers", "held", "step", "measured"),
    [
        (1, 85, 88, 834),  # blocks, sage 2 × 128
        (1, 45, 117, 859),  # skewed, gin 2 × 64
        (1, 55, 291, 1137),  # blocks, gat 2 × 128
        (1, 80, 391, 1879),  # sparse, sage 3 × 64
        (4, 35, 151, 1096),  # sparse, sage 2 × 256, evaluated every epoch; 962 to 1,046 in runs of 4 to 60 epochs else
    ],
)
def test_runs_that_took_more_than_was_predicted(workers: int, held: float, step: float, measured: float) -> None:
    """`global` of bench/results/forecast.json and single runs, in MiB: what was held beside the step, its arrays, and the peak."""
    base = BASE_BYTES + (WORKER_BYTES if workers > 1 else 0)
    before = Memory(base, held * MIB, 0, 0, 0, 0, step * MIB, 0, 0)
    now = Memory(base, held * MIB, 0, 0, 0, 0, KEPT_TIMES * step * MIB, 0, 0)
    assert before.total < measured * MIB < now.total
