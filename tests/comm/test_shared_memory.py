"""Shared memory from close by: both ends in one process, the arena's blocks, limits, and what is left."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starling.comm.arena import Arena, Window
from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.ledger import Ledger
from starling.comm.link import Link, introduce, meet
from starling.comm.shared_memory import SharedMemoryMailbox
from starling.core.errors import StarlingError

PAGE = os.sysconf("SC_PAGE_SIZE")


def linked_pair(wait_limit: float = 20.0) -> tuple[SharedMemoryMailbox, SharedMemoryMailbox]:
    """Workers 0 and 1, both here."""
    doors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arenas = [Arena(peer, 2) for peer in (1, 0)]
    for rank in (0, 1):
        introduce(doors[rank], rank, arenas[rank])
    boxes = []
    for rank in (0, 1):
        peer, window = meet(doors[rank], 2)
        links = {peer: Link(peer, doors[rank], arenas[rank], window)}
        boxes.append(SharedMemoryMailbox(rank, 2, links, Ledger(2), wait_limit=wait_limit))
    return boxes[0], boxes[1]


@contextmanager
def pair(wait_limit: float = 20.0) -> Iterator[tuple[SharedMemoryMailbox, SharedMemoryMailbox]]:
    zero, one = linked_pair(wait_limit)
    with zero, one:
        yield zero, one


def held(box: SharedMemoryMailbox) -> int:
    return sum(link.arena.held for link in box._links.values())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_rows_are_read_where_they_were_written() -> None:
    with pair() as (zero, one):
        parcel = zero.parcel(1, (2, 3), torch.float32)
        parcel.fill_(7)
        zero.send(1, 5, parcel)
        with one.receive(0, 5, (2, 3), torch.float32) as rows:
            assert rows.tolist() == [[7.0] * 3] * 2
            parcel[1, 2] = 8  # against the rules, to show that it is the same memory
            assert rows[1, 2] == 8


def test_memory_is_used_again() -> None:
    """A thousand messages of 100 kB, each received before the next: one block serves them all."""
    with pair() as (zero, one):
        for number in range(1000):
            zero.send_copy(1, 0, torch.full((25_000,), float(number)))
            with one.receive(0, 0, (25_000,), torch.float32) as rows:
                assert rows[-1] == number
        assert held(zero) <= 100_000 + 2 * PAGE
        assert held(one) == 0


def test_memory_follows_what_is_in_flight() -> None:
    """Sizes at random, at most eight messages on their way: held memory stays near eight times the largest."""
    made = np.random.default_rng(0)
    with pair() as (zero, one):
        on_their_way: list[int] = []
        for _ in range(1000):
            on_their_way.append(int(made.integers(1, 20_000)))
            zero.send_copy(1, 0, torch.ones(on_their_way[-1]))
            while len(on_their_way) > made.integers(0, 8):
                count = on_their_way.pop(0)
                with one.receive(0, 0, (count,), torch.float32) as rows:
                    assert rows.sum() == count
        assert held(zero) <= 2 * 8 * 80_000


def test_memory_of_a_giant_is_given_back() -> None:
    with pair() as (zero, one):
        for count in (5_000_000, *([1000] * 200)):
            zero.send_copy(1, 0, torch.full((count,), 3.0))
            with one.receive(0, 0, (count,), torch.float32) as rows:
                assert rows[0] == rows[-1] == 3
        assert held(zero) <= 4 * PAGE


def test_a_message_is_kept_while_another_giant_passes() -> None:
    with pair() as (zero, one):
        zero.send_copy(1, 0, torch.zeros(1_000_000))
        zero.send_copy(1, 1, torch.full((1_000_000,), 4.0))
        with one.receive(0, 0, (1_000_000,), torch.float32), one.receive(0, 1, (1_000_000,), torch.float32) as kept:
            for _ in range(200):
                zero.send_copy(1, 2, torch.full((10,), 5.0))
                with one.receive(0, 2, (10,), torch.float32) as rows:
                    assert rows.tolist() == [5.0] * 10
            assert bool((kept == 4).all())


@given(st.lists(st.tuples(st.integers(1, 3000), st.booleans()), max_size=60))
def test_blocks_never_overlap(steps: list[tuple[int, bool]]) -> None:
    """Blocks are taken, and let go oldest first; each keeps the numbers written into it."""
    arena = Arena(1, 2)
    window = Window(arena.file, 2)
    living: list[tuple[int, torch.Tensor]] = []
    for number, (count, free_one) in enumerate(steps):
        if free_one and living:
            value, rows = living.pop(0)
            assert bool((rows == value).all())
            window.let_go(arena.start_of(rows), rows.nbytes)
        rows = arena.take((count,), torch.int64)
        assert rows.data_ptr() % 64 == 0
        rows.fill_(number)
        assert bool((window.rows(arena.start_of(rows), (count,), torch.int64) == number).all())
        living.append((number, rows))
    for value, rows in living:
        assert bool((rows == value).all())
    arena.close()


def test_the_lowest_gap_is_taken() -> None:
    arena = Arena(1, 2)
    window = Window(arena.file, 2)
    first, second, third = (arena.take((100,), torch.uint8) for _ in range(3))
    places = [arena.start_of(rows) for rows in (first, second, third)]
    assert places == [0, 192, 384]  # a line for the flag, two for a hundred bytes
    window.let_go(192, 100)
    assert arena.start_of(arena.take((129,), torch.uint8)) == 576
    assert arena.start_of(arena.take((128,), torch.uint8)) == 192
    arena.close()


def test_a_reader_keeps_no_pages_of_a_large_message_it_has_read() -> None:
    """They count as the sender's alone; the numbers are still there for whoever reads the block again."""
    arena = Arena(1, 2)
    window = Window(arena.file, 2)
    arena.take((32 << 20,), torch.uint8)  # of 64 MiB a reader keeps half for each of a team of two
    rows = arena.take((1 << 20,), torch.float32)
    rows.fill_(2.0)
    sender = _resident(arena.file)
    seen = window.rows(arena.start_of(rows), rows.shape, rows.dtype)
    assert float(seen.sum()) == 2 << 20
    assert _resident(arena.file) >= sender + rows.nbytes - 2 * PAGE
    window.let_go(arena.start_of(rows), rows.nbytes)
    assert _resident(arena.file) <= sender + 2 * PAGE
    assert float(seen.sum()) == 2 << 20
    arena.close()


def test_a_reader_keeps_the_pages_where_the_next_messages_will_lie() -> None:
    """Of a message across the bound, those before it."""
    arena = Arena(1, 4)
    window = Window(arena.file, 4)
    rows = arena.take((20 << 20,), torch.uint8)
    rows.fill_(1)
    sender = _resident(arena.file)
    assert int(window.rows(arena.start_of(rows), rows.shape, rows.dtype).sum()) == 20 << 20
    window.let_go(arena.start_of(rows), rows.nbytes)
    assert abs(_resident(arena.file) - sender - (16 << 20)) <= 2 * PAGE
    arena.close()


def _resident(file: int) -> int:
    """Bytes of a file in memory that this process has in its page table, once for each place it is mapped to."""
    inode, total, counts = str(os.fstat(file).st_ino), 0, False
    for words in map(str.split, Path("/proc/self/smaps").read_text().splitlines()):
        if len(words) >= 5 and "-" in words[0]:
            counts = words[4] == inode
        elif counts and words[0] == "Rss:":
            total += int(words[1]) << 10
    return total


def test_a_lack_of_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pair() as (zero, one):
        zero.send_copy(1, 0, torch.ones(4))
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(
            StarlingError, match=r"No memory for messages to worker 1: 4.0 KiB are in use, and .* \(No space left"
        ):
            zero.parcel(1, (1_000_000,), torch.float32)
        with one.receive(0, 0, (4,), torch.float32) as rows:  # what was sent is still good
            assert rows.sum() == 4


def test_more_than_the_machine_has_is_refused() -> None:
    arena = Arena(1, 2)
    with pytest.raises(StarlingError, match="No memory for messages to worker 1"):
        arena.take((os.sysconf("SC_PHYS_PAGES") * PAGE,), torch.uint8)
    assert arena.held == 0
    assert arena.start_of(arena.take((5,), torch.uint8)) == 0
    arena.close()


def test_no_addresses_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(StarlingError, match=r"worker 3 .*--transport gloo"):
        Arena(3, 4)


def test_a_message_of_another_size_is_refused() -> None:
    with pair() as (zero, one):
        zero.send_copy(1, 0, torch.ones(4))
        with (
            pytest.raises(StarlingError, match=r"Expected \(5,\) of torch.float32, 20 bytes, from worker 0, got 16"),
            one.receive(0, 0, (5,), torch.float32),
        ):
            pass


def test_only_parcels_are_sent() -> None:
    with pair() as (zero, _):
        with pytest.raises(ValueError, match="parcel"):
            zero.send(1, 0, torch.ones(4))
        with pytest.raises(ValueError, match="whole parcel"):
            zero.send(1, 0, zero.parcel(1, (4, 4), torch.float32)[:, 0])


def test_a_message_that_does_not_come() -> None:
    with (
        pair(wait_limit=0.05) as (zero, _),
        pytest.raises(WaitedInVain, match=r"Waited 0\.05 s in vain for message 7 of step 0"),
    ):
        zero.receive_list(1, 7)


def test_last_words_are_heard_and_then_the_line_is_dead() -> None:
    zero, one = linked_pair()
    with one:
        zero.send_copy(1, 0, torch.ones(3))
        one.send_copy(0, 0, torch.ones(3))  # never read, which makes the kernel report a reset
        zero.close()
        with one.receive(0, 0, (3,), torch.float32) as rows:
            assert rows.sum() == 3
        with pytest.raises(PeerLost, match="Worker 0 closed"):
            one.receive_list(0, 0)
        with pytest.raises(PeerLost, match="Worker 0 closed"):
            one.send_copy(0, 0, torch.ones(1))


def wait_in_threads(*waits: Callable[[], object]) -> list[object]:
    """What each call gave or raised."""
    results: list[object] = [None] * len(waits)

    def run(index: int) -> None:
        try:
            results[index] = waits[index]()
        except StarlingError as error:
            results[index] = type(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(waits))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_thread_watches_for_all_and_its_place_is_taken() -> None:
    """Three threads wait; the message of the last comes first, so whoever watches must pass it on and be replaced in the end."""
    with pair() as (zero, one):
        waiting = [lambda label=label: one.receive_list(0, label).tolist() for label in (1, 2, 3)]

        def send() -> None:
            for label in (3, 1, 2):
                zero.send_list(1, label, np.array([label]))

        assert wait_in_threads(*waiting, send) == [[1], [2], [3], None]


def test_everybody_who_waits_is_told_that_the_peer_is_gone() -> None:
    zero, one = linked_pair()
    with one:
        waiting = [lambda label=label: one.receive_list(0, label) for label in (1, 2, 3)]
        assert wait_in_threads(*waiting, zero.close) == [PeerLost] * 3 + [None]


def test_nothing_stays_open() -> None:
    gc.collect()  # what other tests left behind must not go while this one counts
    before = open_files()
    with pair() as (zero, one):
        zero.send_copy(1, 0, torch.ones(10))
        with one.receive(0, 0, (10,), torch.float32):
            assert open_files() > before
    del zero, one
    gc.collect()
    assert open_files() == before
