"""How a worker failed, and how to say it in a sentence."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starling.comm.failures import PeerLost
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Lost
from starling.core.errors import InputError, StarlingError
from starling.core.outside import outside_cause

Kind = Literal["input", "raised", "lost", "silent", "gone", "stopped", "interrupted", "terminated"]


class WorkerError(StarlingError):
    """A worker ended a run; says which, what it was doing and why."""

    def __init__(self, rank: int, size: int, phase: str, what: str) -> None:
        self.rank, self.size, self.phase = rank, size, phase
        super().__init__(f"Worker {rank} of {size} ({phase}) {what.rstrip('.')}.")


class RunEnded(StarlingError):
    """The run is over, for a reason that somebody else tells."""


@dataclass(frozen=True)
class Report:
    """How a worker failed, told by itself or by a witness.

    `input`: the user's mistake. `raised`: an error of its own. `lost`: an error that another's end explains. `silent`: a peer got
    no sign of life. `gone`: a peer found that it had ended without a word. `stopped`: it was halted by a signal. `interrupted`:
    Ctrl-C. `terminated`: SIGTERM, which torchrun sends when another has failed. `moment` is on this machine's monotonic clock.
    """

    rank: int
    kind: Kind
    phase: str
    cause: str
    moment: float
    trace: str = ""
    peer: int | None = None
    """Whom it lost."""

    @classmethod
    def of(cls, error: BaseException, rank: int, phase: Phase) -> Report:
        """A worker's own report on what it raised."""
        return cls(
            rank,
            _kind(error),
            str(phase),
            _cause(error),
            time.monotonic(),
            "".join(traceback.format_exception(error)),
            error.peer if isinstance(error, PeerLost) else None,
        )

    @classmethod
    def on(cls, lost: Lost, rank: int, phase: Phase, silence: float) -> Report:
        """A worker's report on another that it gave up, after so many seconds of silence or because its process is gone.

        One that is gone had a reason, which it or the launcher knows better; so that is only why this worker ends.
        """
        if lost.rank is None or lost.seconds < silence:
            return cls(rank, "lost", str(phase), str(lost), time.monotonic(), peer=lost.rank)
        return cls(lost.rank, "silent", lost.phase, f"{lost.cause}, for {lost.seconds:.1f} s", time.monotonic())

    @classmethod
    def on_gone(cls, lost: Lost) -> Report:
        """A witness's report on another whose process has ended, and not for anybody else's sake."""
        assert lost.rank is not None
        cause = (
            "was killed or ended without a word: its process is gone. Its exit status is in torchrun's summary; a signal 9 that "
            "nobody sent means that the machine was out of memory: use more parts or machines"
        )
        return cls(lost.rank, "gone", lost.phase, cause, time.monotonic())

    @classmethod
    def on_silenced(cls, report: Report, phase: str) -> Report:
        """A witness's report, made of its own, on the peer it lost, which nobody has seen end."""
        assert report.peer is not None
        cause = f"was killed, cut off or ended without a word. Worker {report.rank} saw: {report.cause}"
        return cls(report.peer, "gone", phase, cause, report.moment, report.trace)

    @classmethod
    def on_termination(cls, rank: int, phase: Phase) -> Report:
        """A worker's own report on being told to end."""
        return cls(rank, "terminated", str(phase), "was told to end (SIGTERM)", time.monotonic())

    def error(self, size: int) -> StarlingError:
        """The report as an error. A user's mistake is the same on every worker, so nobody need know which found it."""
        if self.kind == "input":
            return InputError(self.cause)
        what = {
            "raised": f"failed: {self.cause}",
            "lost": f"had to stop: {self.cause}",
            "interrupted": "was interrupted (SIGINT)",
        }
        return WorkerError(self.rank, size, self.phase, what.get(self.kind, self.cause))


def _kind(error: BaseException) -> Kind:
    if isinstance(error, InputError):
        return "input"
    if isinstance(error, PeerLost | RunEnded):
        return "lost"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "raised"


def _cause(error: BaseException) -> str:
    """The error in a sentence; for one that was not meant for users, also where it came from."""
    if isinstance(error, StarlingError):
        return str(error)
    if isinstance(error, Exception) and (told := outside_cause(error)) is not None:
        return str(told)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
