"""What ``starling train`` prints at the end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from starling.cli.output import memory_line, print_facts, show
from starling.core.memory import format_bytes

if TYPE_CHECKING:
    from starling.train.results import TrainResult


def _team_facts(result: TrainResult) -> list[tuple[str, object]]:
    if result.workers == 1:
        return []
    return [
        ("workers", f"{result.workers}, {result.parallel}, {result.sync}"),
        ("sent an epoch", format_bytes(result.bytes_sent_per_epoch)),
        *([] if result.cache_hit_rate is None else [("rows in the cache", f"{result.cache_hit_rate:.0%} of other hosts'")]),
        ("a step keeps", f"{format_bytes(result.held_bytes)}; (3 n_in + n_bd) d is {format_bytes(result.formula_bytes)}"),
    ]


def print_result(result: TrainResult) -> None:
    """The facts of a run, and what to do next."""
    scores = {name: value for name, value in vars(result.scores).items() if value is not None}
    facts: list[tuple[str, object]] = [
        ("strategy", result.strategy),
        *_team_facts(result),
        *([("embeddings", f"{result.embeddings:,} learnt numbers a node")] if result.embeddings else []),
        ("epochs", f"{result.epochs:,}, the best was {result.best_epoch:,}"),
        (result.metric, ", ".join(f"{name} {show(value)}" for name, value in scores.items())),
        ("final loss", result.final_loss),
        ("an epoch", f"{result.epoch_seconds_median:.3g} s"),
        ("time", f"{result.seconds:.1f} s"),
        memory_line(result.peak_rss_bytes),
    ]
    print_facts(f"Trained {result.run}", facts)
    print(f"Predict with: starling infer {shlex.quote(str(result.run))} -o predictions.csv")
