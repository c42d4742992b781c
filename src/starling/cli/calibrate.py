"""``starling calibrate``: measure this machine, for the cost model and forecasts."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starling.cli.flags import Json, Quiet
from starling.cli.output import print_facts, print_json
from starling.cli.progress import progress
from starling.core.memory import format_bytes

if TYPE_CHECKING:
    from starling.plan.calibration import Calibration


def calibrate(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; by default the user's own, which forecasts read.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure each operation for a shorter time.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how fast this machine adds, multiplies, gathers neighbours and sends messages; save it with today's date.

    Leave the machine alone meanwhile: whatever else runs makes it look slow.
    """
    from starling.launch.calibrate import calibrate as measure
    from starling.plan.calibration import calibration_place, save_calibration

    calibration_place(output)
    began = time.monotonic()
    with_progress = progress(quiet=quiet or json)
    calibration = measure(quick=quick, progress=with_progress)
    path = save_calibration(calibration, output)
    if warning := calibration.busy_warning():
        print(f"starling: {warning}", file=sys.stderr)
    seconds = round(time.monotonic() - began, 1)
    if json:
        print_json({"output": str(path), "seconds": seconds, **calibration.model_dump(mode="json")})
    else:
        _print(calibration, path, seconds)


def _print(calibration: Calibration, path: Path, seconds: float) -> None:
    machine = calibration.machine
    facts: list[tuple[str, object]] = [
        ("machine", f"{machine.processor}, {machine.cores} cores, {format_bytes(machine.memory_bytes)}"),
        ("date", f"{calibration.measured:%Y-%m-%d %H:%M} UTC{', in a hurry' if calibration.quick else ''}"),
    ]
    for rates in calibration.rates:
        with_threads = "1 thread" if rates.threads == 1 else f"{rates.threads} threads"
        facts += [
            (with_threads, "nanoseconds a number"),
            ("  α add, γ activate", f"{1e9 * rates.alpha:.3f}, {1e9 * rates.gamma:.3f}"),
            ("  η scale, λ loss", f"{1e9 * rates.eta:.3f}, {1e9 * rates.lam:.3f}"),
            ("  β multiply-add", ", ".join(f"{1e9 * point.seconds:.4f}" for point in rates.beta)),
            ("    by numbers in a matrix", ", ".join(f"{point.at:,}" for point in rates.beta)),
            ("  with few columns", ", ".join(f"{1e9 * point.seconds:.3f}" for point in rates.narrow)),
            ("    by columns", ", ".join(f"{point.at:,}" for point in rates.narrow)),
            ("  neighbours' rows", ", ".join(f"{1e9 * point.seconds:.3f}" for point in rates.spmm)),
            ("    spread over", ", ".join(format_bytes(point.at) for point in rates.spmm)),
            ("  an edge, a row of them", f"{1e9 * rates.edge:.2f}, {1e9 * rates.row:.1f}"),
            ("  memory", f"{format_bytes(rates.memory_bandwidth)}/s"),
            ("  a layer, of attention", f"{1e6 * rates.layer:.0f} µs, {1e6 * rates.attention:.0f} µs"),
            ("  a step", f"{1e6 * rates.step:.0f} µs"),
            ("  training over all this", f"{rates.overall:.2f} times"),
        ]
    for link in calibration.links:
        facts.append((f"link by {link.transport}", f"{1e6 * link.latency:.0f} µs, {format_bytes(link.bandwidth)}/s"))
    print_facts(f"Wrote {path}", [*facts, ("time", f"{seconds} s")])
