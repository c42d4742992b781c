"""Who lives, judged by signs: a beat that advances, a process of this host that works. Bookkeeping without clocks or threads."""

from __future__ import annotations

import json
import os
import platform
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_STOPPED, _ENDED = "Tt", "ZX"


@dataclass(frozen=True)
class Process:
    """What Linux tells about a process of this host."""

    state: str
    """R runs, S sleeps, T is stopped, Z has ended; see proc(5)."""
    worked: int
    """Processor time so far, in ticks."""
    born: int
    """When it began, in ticks since the machine did: with its number, this names one process for ever."""

    @classmethod
    def look(cls, number: int | str = "self") -> Process | None:
        """None if there is none."""
        try:
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return cls(fields[0], int(fields[11]) + int(fields[12]), int(fields[19]))


@dataclass(frozen=True)
class Beat:
    """A worker's sign of life, as it stands in the store."""

    count: int
    process: int
    born: int
    host: str
    phase: str
    done: bool = False
    """Nothing more is to come, and nothing is wrong."""

    def is_of(self, process: Process | None) -> bool:
        """Whether this process, seen under the number that the beat names, is the one that beat, and has not ended."""
        return process is not None and process.state not in _ENDED and process.born == self.born

    def pack(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def unpack(cls, text: bytes) -> Beat:
        """From text."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Lost:
    """A worker that is given up, or (`rank` None) the store where all of them meet."""

    rank: int | None
    phase: str
    """What it was doing when it was last heard."""
    seconds: float
    """How long ago that was."""
    cause: str
    process: int | None = None
    """Its number, if it is on this host and still there."""
    born: int = 0
    """When that process began; its number may be another's by now."""

    def kill(self) -> None:
        """End what is left of it: a stopped process would stay for ever, and does not hear anything milder."""
        seen = None if self.process is None else Process.look(self.process)
        if self.process is not None and seen is not None and seen.born == self.born:
            with suppress(OSError):
                os.kill(self.process, signal.SIGKILL)

    def __str__(self) -> str:
        if self.rank is None:
            return f"The store where the workers of this run meet {self.cause}."
        return f"Worker {self.rank} {self.cause}; it was last heard {self.seconds:.1f} s ago, in the phase '{self.phase}'."


def this_host() -> str:
    """Where process numbers mean the same: this boot of this machine, and the container's own numbering."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


class Watched:
    """One worker, as the others see it."""

    def __init__(self, rank: int, now: float) -> None:
        self.rank, self.beat = rank, Beat(-1, 0, 0, "", "starting")
        self._since, self._worked, self._stopped = now, -1, False

    def hear(self, beat: Beat, now: float) -> None:
        """A beat was read; only one that has advanced is a sign of life."""
        if beat.count > self.beat.count:
            self.beat, self._since, self._stopped = beat, now, False

    def forgive(self, seconds: float) -> None:
        """The watcher itself slept so long; the silence meanwhile means nothing."""
        self._since += seconds

    def judge(self, process: Process | None, here: bool, now: float, deadline: float) -> Lost | None:
        """Whether to give the worker up; `process` is what was seen of it *before* its beat was read, if it is `here`.

        A process of this host that works is alive, even if its beats are held up by a long call that keeps Python's lock.
        """
        if self.beat.done:
            return None
        if here:
            if process is None or not self.beat.is_of(process):
                return self._lost(now, "is gone: its process has ended without a word")
            if process.worked > self._worked >= 0:
                self._since, self._stopped = now, False
            # remembered, since a stopped process that another worker has just killed looks like a running one for a moment
            self._stopped = self._stopped or process.state in _STOPPED
            self._worked = process.worked
        cause = "is stopped (SIGSTOP, or a debugger)" if self._stopped else "gives no sign of life"
        if now - self._since <= deadline:
            return None
        lost = self._lost(now, cause)
        return replace(lost, process=self.beat.process, born=self.beat.born) if here else lost

    def _lost(self, now: float, cause: str) -> Lost:
        return Lost(self.rank, self.beat.phase, now - self._since, cause)
