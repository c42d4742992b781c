"""What a worker's time and traffic went into: the four parts of GraphTheta's Figure 4, bytes by peer, rows by layer.

Time is counted where it is spent: `waiting` is time blocked on a message that is not there yet, `communication` packing and
copying, `reducing` everything about gradients between workers; `compute` is what is left of the epoch.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

Kind = Literal["communication", "waiting", "reducing"]


@dataclass(frozen=True)
class Fetched:
    """Rows of features that the key-value store gave: read on this host, taken from the cache, or brought from other hosts."""

    near: int = 0
    cached: int = 0
    far: int = 0
    far_bytes: int = 0

    @property
    def hit_rate(self) -> float | None:
        """The share of other hosts' rows that the cache had; None where none was asked for."""
        asked = self.cached + self.far
        return self.cached / asked if asked else None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {**vars(self), "hit_rate": self.hit_rate}


@dataclass(frozen=True)
class Accounts:
    """An epoch of one worker."""

    compute: float
    communication: float
    waiting: float
    reducing: float
    bytes_to: tuple[int, ...]
    """Bytes sent to each worker."""
    rows_by_layer: tuple[int, ...]
    """Rows that came from other workers, by layer, forward."""
    fetched: Fetched = Fetched()
    """What the key-value store did."""

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """From a record that holds what `to_json` gave, and perhaps more."""
        fetched = Fetched(**{name: count for name, count in told["fetched"].items() if name != "hit_rate"})
        numbers = {field.name: told[field.name] for field in fields(cls) if field.name != "fetched"}
        lists = {name: tuple(told[name]) for name in ("bytes_to", "rows_by_layer")}
        return cls(**(numbers | lists), fetched=fetched)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        lists = {"bytes_to": list(self.bytes_to), "rows_by_layer": list(self.rows_by_layer)}
        return {**vars(self), **lists, "fetched": self.fetched.to_json()}


@dataclass
class Ledger:
    """Counts from one `close` to the next; threads may write at the same time. Inner kinds are not counted twice."""

    size: int
    while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered by a thread around its waiting for a message: where several steps compute at once, others may meanwhile."""
    _seconds: Counter[str] = field(default_factory=Counter)
    _bytes: Counter[int] = field(default_factory=Counter)
    _rows: Counter[int] = field(default_factory=Counter)
    _fetched: Counter[str] = field(default_factory=Counter)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _here: threading.local = field(default_factory=threading.local)

    @contextmanager
    def time(self, kind: Kind) -> Iterator[None]:
        """Count the block's time as this kind; time of blocks inside it counts as theirs."""
        outer: float = getattr(self._here, "inside", 0.0)
        self._here.inside = 0.0
        began = time.monotonic()
        try:
            with self.while_waiting() if kind == "waiting" else nullcontext():
                yield
        finally:
            spent = time.monotonic() - began
            if not getattr(self._here, "behind", False):
                with self._lock:
                    self._seconds[kind] += spent - self._here.inside
            self._here.inside = outer + spent

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Count no time of this thread: it works behind the one that computes, whose time is shared out here."""
        self._here.behind = True
        try:
            yield
        finally:
            self._here.behind = False

    def sent(self, peer: int, count: int) -> None:
        """Count bytes sent to a peer."""
        with self._lock:
            book: Counter[int] | None = getattr(self._here, "apart", None)
            (self._bytes if book is None else book)[peer] += count

    @contextmanager
    def apart(self) -> Iterator[Counter[int]]:
        """Count the bytes that this thread sends in the block by themselves: a step prepared ahead may be another epoch's."""
        self._here.apart = book = Counter[int]()
        try:
            yield book
        finally:
            self._here.apart = None

    def came(self, layer: int, rows: int) -> None:
        """Count rows that came from others for a layer."""
        with self._lock:
            self._rows[layer] += rows

    def fetched(self, **counts: int) -> None:
        """Count rows and bytes that the key-value store gave (`Fetched`)."""
        with self._lock:
            self._fetched.update(counts)

    def close(self) -> Accounts:
        """What happened since the last time; counting begins anew."""
        now = time.monotonic()
        with self._lock:
            seconds, sent, rows, whole = self._seconds, self._bytes, self._rows, now - self._began
            self._seconds, self._bytes, self._rows, self._began = Counter(), Counter(), Counter(), now
            fetched, self._fetched = self._fetched, Counter()
        other = {kind: seconds[kind] for kind in ("communication", "waiting", "reducing")}
        layers = max(rows, default=-1) + 1
        return Accounts(
            compute=max(whole - sum(other.values()), 0.0),
            **other,
            bytes_to=tuple(sent[peer] for peer in range(self.size)),
            rows_by_layer=tuple(rows[layer] for layer in range(layers)),
            fetched=Fetched(**fetched),
        )
