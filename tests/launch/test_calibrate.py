"""Measuring a machine: what is measured is a calibration, links are those of a team, threads those that were asked for."""

from __future__ import annotations

from typing import Any

import pytest

from starling.comm.in_process import run_threads
from starling.core.environment import core_count
from starling.launch import calibrate, measure_rates, measure_training, stopwatch
from starling.plan.calibration import Rates
from tests.support.rates import rates

FIXED = {"gcn": 1e-3 + 2 * 1e-4, "gat": 1e-3 + 2 * 3e-4}
"""What a step of two layers takes however small it is."""


def pretended_epoch(graph: Any, model: dict[str, Any], strategy: dict[str, Any], epochs: int) -> float:
    """Training on next to nothing takes what it must; any other three times what it should."""
    if model["hidden"] == 8:
        return 60 * (1e-3 + model["layers"] * (3e-4 if model["name"] == "gat" else 1e-4))
    return (FIXED[model["name"]] + 3 * 5e-3) * (1 if strategy["name"] == "global" else 2)


def test_all_rates_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch, "_SECONDS", {False: 0.0, True: 0.0})
    monkeypatch.setattr(measure_rates, "_MATRICES", ((16, 8), (64, 64)))
    monkeypatch.setattr(measure_rates, "_REACHES", (1 << 17, 1 << 20, 1 << 28))
    monkeypatch.setattr(measure_training, "_NODES", 400)
    monkeypatch.setattr(measure_training, "_EDGES", 3000)
    monkeypatch.setattr(measure_training, "_BATCH", 20)
    monkeypatch.setattr(measure_training, "_CASES", (("gcn", None), ("gat", "3,2")))
    monkeypatch.setattr(measure_training, "_epoch_seconds", pretended_epoch)
    monkeypatch.setattr(measure_training, "_price", lambda name, *_: FIXED[name] + 5e-3)
    found = measure_rates.measure_rates(quick=True)
    assert [point.at for point in found.spmm] == [1 << 17, 1 << 20], "the largest table is left out in a hurry"
    assert found.layer == pytest.approx(1e-4)
    assert found.attention == pytest.approx(3e-4)
    assert found.step == pytest.approx(1e-3)
    assert [point.at for point in found.narrow] == list(measure_rates._NARROW)
    assert found.edge > 0
    assert found.row > 0
    assert found.plan > 0
    assert found.read > 0
    assert found.overall == pytest.approx(3, rel=1e-3), "as much longer as we pretend"
    assert 1e8 < found.memory_bandwidth < 1e13
    assert found.alpha < 1e-6


def test_runs_count_by_what_is_priced_of_them() -> None:
    assert measure_training._weighted_median([5.0, 1.0, 1.2], [0.1, 0.6, 0.5]) == 1.2
    assert measure_training._weighted_median([5.0, 1.0, 1.2], [2.0, 0.6, 0.5]) == 5.0
    assert measure_training._weighted_median([3.0], [0.01]) == 3.0


def test_a_link_between_two_workers_is_measured() -> None:
    both = run_threads(2, lambda team: calibrate.link_of_workers(team, {"quick": True}))
    for found in both:
        assert 0 < found["latency"] < 0.1
        assert found["bandwidth"] > 1e6


def test_every_part_runs_in_processes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int | None, str]] = []

    def pretend(entry: str, spec: Any, *, workers: int, threads: int | None = None, transport: str = "auto") -> Any:
        asked.append((entry.partition(":")[2], workers, threads, transport))
        if "rates" in entry:
            return rates(threads or 1).model_dump()
        return {"latency": 1e-5, "bandwidth": 1e9}

    monkeypatch.setattr(calibrate, "run_workers", pretend)
    made = calibrate.calibrate(quick=True)
    assert [entry.threads for entry in made.rates] == sorted({1, core_count()})
    assert asked[-2:] == [("link_of_workers", 2, 1, "auto"), ("link_of_workers", 2, 1, "gloo")]
    assert [link.transport for link in made.links] == ["shared-memory", "gloo"]
    assert made.quick
    assert made.warning() is None
    assert all(isinstance(entry, Rates) for entry in made.rates)
