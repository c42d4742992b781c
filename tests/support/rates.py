"""A calibration with round numbers, for tests that must not depend on the machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from starling.plan.calibration import Calibration, Link, Machine, Point, Rates, save_calibration


def rates(threads: int = 1) -> Rates:
    """Rates of one process; twice the threads are twice as fast."""
    return Rates(
        threads=threads,
        alpha=1e-9 / threads,
        beta=(Point(at=1024, seconds=2e-10 / threads), Point(at=1 << 20, seconds=1e-10 / threads)),
        narrow=(Point(at=1, seconds=4e-10 / threads), Point(at=15, seconds=2e-10 / threads)),
        gamma=1e-9 / threads,
        eta=1e-9 / threads,
        lam=1e-9 / threads,
        spmm=(Point(at=1 << 15, seconds=2e-10 / threads), Point(at=1 << 30, seconds=1e-9 / threads)),
        edge=1e-9 / threads,
        row=1e-8 / threads,
        softmax=1e-8 / threads,
        transpose=5e-9 / threads,
        plan=2e-8 / threads,
        read=1e-9 / threads,
        memory_bandwidth=1e10,
        layer=1e-4,
        attention=2e-4,
        step=5e-4,
    )


def calibration(machine: Machine | None = None, **changed: object) -> Calibration:
    """A machine of two cores, by default the one at hand."""
    return Calibration(
        measured=datetime(2026, 1, 2, tzinfo=UTC),
        machine=machine or Machine.here(),
        rates=(rates(1), rates(2)),
        links=(
            Link(transport="shared-memory", latency=2e-5, bandwidth=4e9),
            Link(transport="gloo", latency=5e-5, bandwidth=1e9),
        ),
        **changed,  # type: ignore[arg-type]
    )


def calibration_file(path: Path, machine: Machine | None = None) -> Path:
    """The same on disk."""
    return save_calibration(calibration(machine), path)
