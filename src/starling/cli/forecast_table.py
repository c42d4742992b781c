"""The tables of a forecast, as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from starling.cli.output import print_facts
from starling.core.memory import format_bytes

if TYPE_CHECKING:
    from starling.plan.forecast.forecast import Plan
    from starling.plan.forecast.request import Answer

_NARROW = 100
"""Columns below which reasons get lines of their own."""


def print_answer(answer: Answer) -> None:
    """The graph, the plans, the choice, the command, and what was assumed."""
    facts, request = answer.subject.facts, answer.request
    print_facts(
        f"Forecast {answer.subject.path or 'of a graph in numbers'}",
        [
            ("nodes, edges", f"{facts.nodes:,}, {facts.edges:,}"),
            ("features, classes", f"{facts.features:,}, {facts.classes:,}; {facts.train:,} nodes to train on"),
            ("model", f"{request.model}, {request.layers} × {request.hidden}, {answer.model.weights:,} weights"),
            ("workers", _workers(answer)),
        ],
    )
    console = Console(highlight=False)
    console.print()
    console.print(_plans(answer, narrow=console.width < _NARROW))
    refused = [(number, plan) for number, plan in enumerate(answer.found.plans, 1) if not plan.fits]
    for number, plan in refused:
        console.print(f"{number}: {plan.why}.", style="dim")
    if answer.points:
        console.print()
        console.print(_points(answer))
    for note in answer.notes:
        console.print(f"Assumed {note}.", style="dim")
    if answer.command is not None:
        assert answer.found.recommended is not None
        best = answer.found.plans[answer.found.recommended]
        of_those = "and are exact or unbiased" if best.way.exact else "(all of them leave edges out, or average models)"
        console.print(
            f"\nRecommended: {answer.found.recommended + 1}, {best.way.words}: the shortest epoch of those that fit {of_those}."
        )
        print(f"Run with: {answer.command}")
        if request.network is not None and best.way.workers > 1:
            print("docs/launching.md tells how to start its workers on several machines.")


def _workers(answer: Answer) -> str:
    request = answer.request
    words = [f"{request.asked.workers}"]
    words += [f"{format_bytes(request.worker_memory)} each"] if request.worker_memory else []
    words += [request.network.words] if request.network else []
    return ", ".join(words)


def _plans(answer: Answer, *, narrow: bool) -> Table:
    table = Table(box=None, padding=(0, 1 if narrow else 2, 0, 0))
    table.add_column("", justify="right")
    table.add_column("\nplan", overflow="fold")
    for heading in ("memory\na worker", "sent\nan epoch", "time\nan epoch", "steps\nan epoch"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("\nfits", no_wrap=True)
    for place, plan in enumerate(answer.found.plans):
        best = place == answer.found.recommended
        style = "bold green" if best else "" if plan.fits else "dim"
        table.add_row(f"{'→ ' if best else ''}{place + 1}", *_cells(plan), style=style)
    return table


def _cells(plan: Plan) -> tuple[str, ...]:
    return (
        plan.way.words,
        format_bytes(plan.memory_bytes),
        format_bytes(plan.bytes_per_epoch) if plan.bytes_per_epoch else "–",
        seconds(plan.seconds_per_epoch),
        f"{plan.steps_per_epoch:,}",
        "yes" if plan.fits else "no",
    )


def _points(answer: Answer) -> Table:
    title = f"Simulated clusters, {answer.points[0].plan.way.strategy}, hybrid"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for heading in ("workers", "epoch", "speedup", "efficiency", "waiting", "memory", "sent"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in answer.points:
        plan = point.plan
        table.add_row(
            f"{point.workers:,}", seconds(plan.seconds_per_epoch), f"{point.speedup:.3g}", f"{point.efficiency:.0%}",
            f"{plan.waiting_share:.0%}", format_bytes(plan.memory_bytes) + ("" if plan.fits else " !"),
            format_bytes(plan.bytes_per_epoch), style="" if plan.fits else "dim",
        )  # fmt: skip
    return table


def seconds(value: float) -> str:
    """A time as people read it."""
    if value >= 7200:
        return f"{value / 3600:.1f} h"
    if value >= 120:
        return f"{value / 60:.1f} min"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
