"""The directory of a run, where workers and launcher leave what the others must know: phases, reports, the result.

The launcher reads it after a worker is gone, so nothing in it needs a worker's help; all is JSON, nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starling.comm.phase import Phase
from starling.launch.reports import Report

DONE = "done"
"""The phase of a worker that has finished; one that is gone in any other phase has failed."""

_STATUS_BYTES = 512


@dataclass(frozen=True)
class Status:
    """A worker's process and what it was doing last."""

    process: int
    phase: str


class Desk:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec, self.result, self.logs = folder / "spec.json", folder / "result.json", folder / "logs"

    def file_report(self, report: Report, by: str) -> None:
        """Leave a report."""
        write_whole(self.folder / f"report-{by}-{report.kind}-{report.rank}.json", asdict(report))

    def reports(self) -> list[Report]:
        """All reports so far, in order of time."""
        found = [Report(**json.loads(path.read_text())) for path in self.folder.glob("report-*.json")]
        return sorted(found, key=lambda report: report.moment)

    def has_reports(self) -> bool:
        """Whether anybody has failed."""
        return any(self.folder.glob("report-*.json"))

    def phase(self, rank: int) -> Phase:
        """The phase of this process, worker `rank`, which the launcher can read at any time."""
        return _SharedPhase(self._status_file(rank))

    def status(self, rank: int) -> Status | None:
        """What a worker left about itself; None if it never came so far."""
        try:
            return Status(**json.loads(self._status_file(rank).read_text()))
        except (OSError, ValueError):
            return None  # not there yet, or half-written by a process that was killed

    def _status_file(self, rank: int) -> Path:
        return self.folder / f"status-{rank}"


class _SharedPhase(Phase):
    """A phase that is in a file too: one small write each time it changes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        self.enter("starting")

    def enter(self, name: str) -> None:
        """A new phase begins."""
        super().enter(name)
        text = json.dumps({"process": os.getpid(), "phase": name[: _STATUS_BYTES // 8]})
        os.pwrite(self._file, text.ljust(_STATUS_BYTES).encode(), 0)


def write_whole(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file that others see whole or not at all."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    partial.write_text(json.dumps(document))
    partial.replace(path)
