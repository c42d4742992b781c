"""One worker's link to another on the same host: memory for rows each way, and a socket for the notes that say where they lie."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from starling.comm.arena import Arena, Window

_NOTE = struct.Struct("<IQQ")
_FAREWELL = 5.0


@dataclass(frozen=True)
class Note:
    """What travels over the socket for each message."""

    tag: int
    start: int
    bytes: int


class Link:
    """A connected pair's one end. Notes arrive in the order they were sent, and outlive their sender."""

    def __init__(self, peer: int, door: socket.socket, arena: Arena, window: Window) -> None:
        self.peer, self.arena, self.window, self.door = peer, arena, window, door
        door.setblocking(False)
        self._outbox: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._postman: threading.Thread | None = None

    def post(self, note: Note) -> None:
        """Send a note without waiting: if the socket is full, a thread does the waiting. OSError if the peer is gone."""
        packed = _NOTE.pack(note.tag, note.start, note.bytes)
        with self._lock:
            if not self._outbox:
                try:
                    self.door.send(packed)
                    return
                except BlockingIOError:
                    self._postman = threading.Thread(target=self._empty_outbox, name=f"outbox-{self.peer}", daemon=True)
                    self._postman.start()
            self._outbox.append(packed)

    def _empty_outbox(self) -> None:
        room = select.poll()
        room.register(self.door, select.POLLOUT)
        while True:
            room.poll()
            with self._lock:
                try:
                    while self._outbox:
                        self.door.send(self._outbox[0])
                        self._outbox.popleft()
                    return
                except BlockingIOError:
                    continue
                except OSError:  # the peer is gone: whoever waits for it, or sends to it again, will be told
                    self._outbox.clear()
                    return

    def notes(self) -> Iterator[Note | None]:
        """The notes that have come; None when there will be no more."""
        while True:
            try:
                packed = self.door.recv(_NOTE.size)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # the peer left without reading everything; what it sent is still to be had
            except OSError:
                packed = b""
            if not packed:
                yield None
                return
            yield Note(*_NOTE.unpack(packed))

    def close(self) -> None:
        """Hang up, when the last notes are out, or their reader has had a few seconds to make room for them."""
        if self._postman is not None:
            self._postman.join(_FAREWELL)
        self.door.close()
        self.arena.close()


def introduce(door: socket.socket, rank: int, arena: Arena) -> None:
    """Tell the other end who this is, and where it will find messages."""
    socket.send_fds(door, [struct.pack("<I", rank)], [arena.file])


def meet(door: socket.socket, size: int) -> tuple[int, Window]:
    """Wait for the other end's introduction: its rank, and a window to its messages, one of a team of `size`."""
    text, files, _, _ = socket.recv_fds(door, 4, 1)
    if len(files) != 1:
        raise ConnectionError("the other end left without a word")
    try:
        return struct.unpack("<I", text)[0], Window(files[0], size)
    finally:
        os.close(files[0])
