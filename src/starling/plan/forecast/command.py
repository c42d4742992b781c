"""The command that runs a plan, as a person would type it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from starling.plan.forecast.forecast import Plan

_MIB = 1 << 20


@dataclass(frozen=True)
class Told:
    """What the user said that the command must say again."""

    path: Path | None
    """None: bare numbers; the command names a graph to be made."""
    is_parts: bool
    model: str
    layers: int
    hidden: int
    dropout: float = 0.0
    seed: int = 0
    threads: int | None = None
    even_edges: bool = False
    """A cut with edges evened out was assumed."""


def train_flags(plan: Plan) -> dict[str, str]:
    """The flags of `starling train` that make it run this plan."""
    way = plan.way
    flags = {"--strategy": way.strategy}
    if way.batch_size is not None and way.strategy == "mini":
        flags["--batch-size"] = str(way.batch_size)
    if way.fanouts is not None and way.strategy == "mini":
        flags["--fanouts"] = ",".join(map(str, way.fanouts))
    if way.batches is not None:
        flags["--batches"] = str(way.batches)
    if not way.alone:
        flags["--workers"] = str(way.workers)
        flags["--parallel"] = way.parallel
    if way.sync != "gradient":
        flags["--sync"] = way.sync
    if way.boundary < 1:
        flags["--boundary"] = f"{way.boundary:g}"
    if plan.memory.budget is not None:
        flags["--memory"] = f"{-(-plan.memory.budget // _MIB)}MiB"  # rounded up: below its features `global` is refused
    return flags


def command_line(plan: Plan, told: Told) -> str:
    """One command; a graph that must be cut into other parts than workers, or otherwise than by default, is partitioned first."""
    way, path = plan.way, told.path or Path("graph")
    before = ""
    if not told.is_parts and (way.in_turn or (told.even_edges and way.workers > 1)):
        parts = path.with_name(f"{path.name}-parts{way.parts}")
        words = ["starling", "partition", str(path), "-p", str(way.parts), "-o", str(parts)]
        words += ["--balance", "edges"] if told.even_edges else []
        before = shlex.join(words + (["--seed", str(told.seed)] if told.seed else [])) + " && "
        path = parts
    words = ["starling", "train", str(path), "--model", told.model, "--layers", str(told.layers), "--hidden", str(told.hidden)]
    if told.model == "sgc":
        words = words[:-2]
    words += ["--dropout", f"{told.dropout:g}"] if told.dropout else []
    words += ["--seed", str(told.seed)] if told.seed else []
    words += ["--threads", str(told.threads)] if told.threads is not None else []
    for flag, value in train_flags(plan).items():
        words += [flag, value]
    return before + shlex.join(words)
