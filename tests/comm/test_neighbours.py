"""Who counts as a neighbour: whoever can be reached through the kernel, and wants to be."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from starling.comm import neighbours
from starling.comm.neighbours import Neighbours, link_neighbours
from starling.core.errors import StarlingError


def link_all(wanted: list[bool]) -> list[Neighbours]:
    """Workers that are threads; a link works inside one process as well."""
    store, size = HashStore(), len(wanted)
    with ThreadPoolExecutor(size) as pool:
        waits = [pool.submit(link_neighbours, rank, size, store, wanted=wanted[rank], wait_limit=20.0) for rank in range(size)]
        return [wait.result() for wait in waits]


def peers_of(found: list[Neighbours]) -> list[set[int]]:
    peers = [set(each.links) for each in found]
    for each in found:
        for link in each.links.values():
            link.close()
    return peers


def test_all_of_a_host_are_linked() -> None:
    found = link_all([True] * 4)
    assert all(each.are_all for each in found)
    assert peers_of(found) == [{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}]


def test_who_wants_no_link_has_none() -> None:
    found = link_all([True, False, True])
    assert not any(each.are_all for each in found)
    assert peers_of(found) == [{2}, set(), {0}]


def test_addresses_that_nobody_here_listens_at_lead_to_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from another host: the address is known and means nothing."""
    real = neighbours._call
    monkeypatch.setattr(neighbours, "_call", lambda address, own: real(address + "x", own))
    assert peers_of(link_all([True, True])) == [set(), set()]


def test_other_users_are_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_user_of", lambda door: os.getuid() + 1)
    assert peers_of(link_all([True, True])) == [set(), set()]


def test_the_kernel_knows_the_user() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        assert neighbours._user_of(one) == os.getuid()


def test_a_worker_that_never_comes_is_named() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(StarlingError, match="Waited in vain for worker 0 to join"):
        link_neighbours(1, 2, store, wanted=True, wait_limit=1.0)
