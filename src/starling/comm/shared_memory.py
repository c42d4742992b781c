"""Messages between workers of one host: rows stay where their sender wrote them, and the receiver reads them there.

A message costs a note of twenty bytes through a UNIX socket, which also wakes the receiver; its rows are never copied, packed or
sent. A reader that is slow only means that its sender takes more memory.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.ledger import Ledger
from starling.comm.link import Link, Note
from starling.comm.mailbox import Mailbox
from starling.core.errors import StarlingError


class SharedMemoryMailbox(Mailbox):
    """A worker's end of its links to others on this host."""

    def __init__(self, rank: int, size: int, links: Mapping[int, Link], ledger: Ledger, *, wait_limit: float = 600.0) -> None:
        self.rank, self.size, self.ledger = rank, size, ledger
        self._links, self._wait_limit = dict(links), wait_limit
        self._inbox = _Inbox(list(links.values()))

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory that the peer maps too."""
        if math.prod(shape) == 0:
            return torch.empty(tuple(shape), dtype=dtype)
        return self._links[peer].arena.take(shape, dtype)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        """Tell the peer where the parcel lies; nothing is sent if there are no numbers, since the receiver knows the shape."""
        if parcel.numel():
            self._post(peer, tag, self._links[peer].arena.start_of(parcel), parcel.nbytes)

    @contextmanager
    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> Iterator[Tensor]:
        """The sender's own rows, until the block is left."""
        if math.prod(shape) == 0:
            yield torch.empty(tuple(shape), dtype=dtype)
            return
        with self._read(*self._take([peer], tag), shape, dtype) as rows:
            yield rows

    def receive_any(self, tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """Whoever's note is here, or comes first."""
        left = {peer: shape for peer, shape in shapes.items() if math.prod(shape)}
        for peer in shapes.keys() - left.keys():
            yield peer, torch.empty(tuple(shapes[peer]), dtype=dtype)
        while left:
            peer, note = self._take(list(left), tag)
            with self._read(peer, note, left.pop(peer), dtype) as rows:
                yield peer, rows

    @contextmanager
    def _read(self, peer: int, note: Note, shape: Sequence[int], dtype: torch.dtype) -> Iterator[Tensor]:
        """The rows that a note is of, until the block is left."""
        expected, window = math.prod(shape) * dtype.itemsize, self._links[peer].window
        try:
            if note.bytes != expected:
                raise StarlingError(
                    f"Expected {tuple(shape)} of {dtype}, {expected} bytes, from worker {peer}, got {note.bytes} bytes."
                )
            yield window.rows(note.start, shape, dtype)
        finally:
            window.let_go(note.start, note.bytes)

    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        """Send a copy; a list of none is a note alone."""
        if len(values) == 0:
            self._post(peer, tag, 0, 0)
        else:
            self.send_copy(peer, tag, torch.from_numpy(values))

    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        """Take a copy."""
        _, note = self._take([peer], tag)
        if note.bytes == 0:
            return np.empty(0, np.int64)
        window = self._links[peer].window
        values: NDArray[np.int64] = window.rows(note.start, (note.bytes // 8,), torch.int64).numpy().copy()
        window.let_go(note.start, note.bytes)
        return values

    def close(self) -> None:
        """Hang up; peers can still read what they were sent."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _post(self, peer: int, tag: int, start: int, count: int) -> None:
        try:
            self._links[peer].post(Note(tag, start, count))
        except OSError as error:
            raise PeerLost(peer, tag) from error

    def _take(self, peers: Sequence[int], tag: int) -> tuple[int, Note]:
        with self.ledger.time("waiting"):
            return self._inbox.take(peers, tag, self._wait_limit)


class _Inbox:
    """Notes that have come, by sender and tag. Of the threads that wait, one watches the sockets and sorts notes for all.

    When it has what it came for, another takes its place; so there is no thread in between, and a message wakes its receiver.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._holes: defaultdict[tuple[int, int], deque[Note]] = defaultdict(deque)
        self._gone: set[int] = set()
        self._changed = threading.Condition()
        self._watched = False
        self._links = {link.door.fileno(): link for link in links}
        self._poll = select.poll()
        for number in self._links:
            self._poll.register(number, select.POLLIN)

    def take(self, peers: Sequence[int], tag: int, limit: float) -> tuple[int, Note]:
        """The next note of this tag that one of these peers has sent, and who it is."""
        end = time.monotonic() + limit
        with self._changed:
            while (found := next((peer for peer in peers if self._holes.get((peer, tag))), None)) is None:
                left = end - time.monotonic()
                for peer in peers:
                    if peer in self._gone:
                        raise PeerLost(peer, tag)
                if left <= 0:
                    raise WaitedInVain(peers[0], tag, limit)
                if self._watched:
                    self._changed.wait(left)
                else:
                    self._watch(left)
            hole = self._holes[found, tag]
            note = hole.popleft()
            if not hole:
                del self._holes[found, tag]
            return found, note

    def _watch(self, seconds: float) -> None:
        """Wait for notes and sort them, with the lock open meanwhile."""
        self._watched = True
        come: list[tuple[int, Note | None]] = []
        self._changed.release()
        try:
            for number, _ in self._poll.poll(math.ceil(min(seconds, 3600.0) * 1000)):
                link = self._links[number]
                come += [(link.peer, note) for note in link.notes()]
        finally:
            self._changed.acquire()
            self._sort(come)
            self._watched = False
            self._changed.notify_all()

    def _sort(self, come: list[tuple[int, Note | None]]) -> None:
        for peer, note in come:
            if note is None:
                self._gone.add(peer)
                number = next(number for number, link in self._links.items() if link.peer == peer)
                self._poll.unregister(number)
                del self._links[number]
            else:
                self._holes[peer, note.tag].append(note)
