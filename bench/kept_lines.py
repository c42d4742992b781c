"""Raw results as JSON lines, one a run, written as soon as it is done: a benchmark may be stopped, and goes on where it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any, Protocol, TypeVar

Line = dict[str, Any]


class Keyed(Protocol):
    """A run whose key names it with all its settings, so that a line with another key is another run's."""

    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Keyed)


def read_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def append_line(path: Path, line: Line) -> None:
    """Keep a line, with the day and the commit that it is of."""
    with path.open("a") as file:
        file.write(json.dumps({**line, "day": date.today().isoformat(), "commit": _commit()}) + "\n")


def _commit() -> str:
    told = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def drop_lines(path: Path, measured_anew: Callable[[Line], bool]) -> None:
    """Make room for lines that will replace those for which `measured_anew` is true."""
    kept = [line for line in _lines_so_far(path) if not measured_anew(line)]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))


def resume(path: Path, runs: Iterable[R], do: Callable[[R], Line], show: str) -> dict[str, Line]:
    """Do the runs whose lines the file lacks, and append each; all its lines by key. `show` formats a line's fields for people."""
    done = {line["key"]: line for line in _lines_so_far(path)}
    for run in runs:
        if run.key not in done:
            done[run.key] = do(run)
            append_line(path, done[run.key])
            print(f"{run.key}  {show.format_map(done[run.key])}", flush=True)
    return done


def _lines_so_far(path: Path) -> list[Line]:
    return read_lines(path) if path.is_file() else []
