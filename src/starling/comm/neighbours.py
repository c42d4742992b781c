"""Find the workers on this host and link up with them.

Every worker listens at a UNIX address of its own, made of random bits, which lives in the kernel and not in a directory, and tells
all others of it. That a connection comes about is the proof that both run under one kernel, so neither host names, which
containers share, nor boot ids, which cloned machines share, need be believed.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starling.comm.arena import Arena
from starling.comm.link import Link, introduce, meet
from starling.core.errors import StarlingError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

_NOWHERE = ""


@dataclass(frozen=True)
class Neighbours:
    """The workers of this host."""

    links: dict[int, Link]
    are_all: bool
    """Whether every pair of the team is linked, on this host or another."""


def link_neighbours(rank: int, size: int, store: Store, *, wanted: bool, wait_limit: float) -> Neighbours:
    """Link up with every other worker of this host that wants to; all workers call this at about the same time."""
    links: dict[int, Link] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.settimeout(wait_limit)
        address = _listen(listener, size) if wanted and sys.platform == "linux" else _NOWHERE
        store.set(f"address/{rank}", address)
        doors = {peer: door for peer in range(rank) if (door := _call(_ask(store, f"address/{peer}"), address))}
        store.set(f"called/{rank}", " ".join(map(str, doors)))
        called = [_ask(store, f"called/{peer}").split() for peer in range(size)]
        try:
            for peer, door in doors.items():
                door.settimeout(wait_limit)
                introduce(door, rank, arena := Arena(peer, size))
                links[peer] = Link(peer, door, arena, meet(door, size)[1])
            for _ in range(sum(str(rank) in numbers for numbers in called)):
                door = _answer(listener, wait_limit)
                peer, window = meet(door, size)
                introduce(door, rank, arena := Arena(peer, size))
                links[peer] = Link(peer, door, arena, window)
        except OSError as error:
            raise StarlingError(f"Worker {rank} could not link up with others of its host: {error}.") from error
    return Neighbours(links, are_all=all(len(numbers) == peer for peer, numbers in enumerate(called)))


def _listen(listener: socket.socket, size: int) -> str:
    address = f"starling-{os.urandom(16).hex()}"
    listener.bind(f"\0{address}")
    listener.listen(size)
    return address


def _call(address: str, own: str) -> socket.socket | None:
    """A connection to the worker that listens there; None if it is on another host, is another user's, or wants none."""
    if _NOWHERE in (address, own):
        return None
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        door.connect(f"\0{address}")
    except OSError:
        door.close()
        return None
    if _user_of(door) != os.getuid():
        door.close()
        return None
    return door


def _answer(listener: socket.socket, wait_limit: float) -> socket.socket:
    """The next caller of this user; a stranger's call is not answered."""
    while True:
        door, _ = listener.accept()
        door.settimeout(wait_limit)
        if _user_of(door) == os.getuid():
            return door
        door.close()


def _user_of(door: socket.socket) -> int:
    """The user at the other end, as the kernel knows it."""
    credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    user: int = struct.unpack("iII", credentials)[1]
    return user


def _ask(store: Store, key: str) -> str:
    """What another worker has written, as soon as it has."""
    try:
        return store.get(key).decode()
    except RuntimeError as error:
        raise StarlingError(f"Waited in vain for worker {key.rpartition('/')[2]} to join the team.") from error
