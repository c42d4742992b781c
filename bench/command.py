"""Programs that a benchmark starts: what they answer, and one clear line when they fail."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kept_lines import Line, read_lines

STARLING = [sys.executable, "-m", "starling"]


class ProgramFailed(SystemExit):
    """A program ended with an error. Who does not catch it ends with one line that says which, and its last words."""

    def __init__(self, command: list[str], status: int, stderr: str) -> None:
        self.status, self.stderr = status, stderr
        self.last_line = (stderr.strip().splitlines() or ["(nothing on stderr)"])[-1]
        words = command[2:] if command[:3] == STARLING else command
        super().__init__(f"{' '.join(words[:2])} ended with status {status}: {self.last_line}")


def printed(*words: object, cwd: Path | None = None) -> str:
    """What a program prints."""
    command = [str(word) for word in words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if ended.returncode:
        raise ProgramFailed(command, ended.returncode, ended.stderr)
    return ended.stdout


def printed_lines(*words: object, cwd: Path | None = None) -> list[Line]:
    """The JSON lines among what a program prints."""
    return [json.loads(line) for line in printed(*words, cwd=cwd).splitlines() if line.startswith("{")]


def starling(*arguments: object) -> Any:
    """The answer of ``starling … --json``."""
    return json.loads(printed(*STARLING, *arguments, "--json"))


def trained(*arguments: object) -> tuple[Any, list[Line]]:
    """The answer of ``starling train …`` and a line an epoch, of a run directory that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        return starling("train", *arguments, "--run", run), read_lines(run / "metrics.jsonl")
