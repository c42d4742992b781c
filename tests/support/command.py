"""Run the command line as a user does, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Finished:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def starling_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "starling", *map(str, arguments)]


def starling(*arguments: object, cwd: Path | None = None, stdin: str | None = None) -> Finished:
    """Run ``starling`` with these arguments."""
    done = subprocess.run(
        starling_command(*arguments), cwd=cwd, input=stdin, capture_output=True, text=True, timeout=240, check=False
    )
    return Finished(done.returncode, done.stdout, done.stderr)
