"""``starling demo``: the whole way of a graph, on one that Starling makes itself."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from starling.core.errors import InputError

_STEPS = (
    ("Make a graph: 50,000 nodes in 20 communities, about a million edges.",
     "generate dcsbm --nodes 50000 --edges 1000000 --classes 20 --features 64 --seed 0 -o {place}/made"),
    ("Write it as the files you might have.", "export {place}/made -o {place}/files --format csv"),
    ("Read such files in, streaming.",
     "import {place}/files/edges.csv --nodes {place}/files/nodes.csv -o {place}/graph"),
    ("Look at what came in, and check every byte.", "inspect {place}/graph --verify"),
    ("Cut it into four parts for four workers.", "partition {place}/graph -p 4 -o {place}/parts"),
    ("Train a GraphSAGE model of two layers on them, by two workers.",
     "train {place}/parts --workers 2 --model sage --hidden 64 --epochs 30 --evaluate-every 5 --seed 0 --run {place}/run"),
    ("Predict every node's class.", "infer {place}/run -o {place}/predictions.csv"),
)  # fmt: skip


_REACHED = ("metric", "train", "val", "test", "seconds", "peak_rss_bytes")


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the demo's directories go.")] = Path("demo"),
    force: Annotated[bool, typer.Option("--force", help="Run again over an earlier demo.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and all else to standard error.")] = False,
) -> None:
    """Run Starling from end to end on a built-in graph, showing each command."""
    if output.exists() and not force:
        raise InputError(f"{output} exists already. Pass --force to run the demo again, or -o for another place.")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot make the directory {output}: {error.strerror}. Choose another place with -o.") from error
    if (output / "run" / "config.toml").is_file():  # a run is never overwritten, not even with --force
        shutil.rmtree(output / "run")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        commands = _run_all(output, force)
    reached = json.loads((output / "run" / "summary.json").read_text())
    if as_json:
        print(json.dumps({"output": str(output), "commands": commands, **{name: reached[name] for name in _REACHED}}))
    else:
        print(f"\nDone: {reached['test']:.1%} of the test nodes are classified rightly. Everything is in {output}/.")


def _run_all(output: Path, force: bool) -> list[str]:
    """All steps, each shown before it is run; the command lines."""
    from starling.cli.main import run

    lines = []
    for number, (why, command) in enumerate(_STEPS, start=1):
        line = command.format(place=shlex.quote(str(output)))
        again = ["--force"] if force and " -o " in command else []
        print(f"\n{number}. {why}\n$ starling {line}\n")
        if status := run([*shlex.split(line), *again]):
            print(f"The demo stopped at step {number}.", file=sys.stderr)
            raise typer.Exit(status)
        lines.append(f"starling {line}")
    return lines
