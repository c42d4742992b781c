"""Flags that several verbs share, spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starling.core.memory import parse_budget

Output = Annotated[Path, typer.Option("--output", "-o", help="Directory to create.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if Starling wrote it earlier.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random choice.")]
Memory = Annotated[
    int,
    typer.Option("--memory", parser=parse_budget, metavar="SIZE", help="Resident memory to stay within, e.g. 512MiB or 2GiB."),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use; all cores by default.")]
