"""What a worker says before it ends, by what the store and the processes of its host tell."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from torch.distributed import HashStore

from starling.comm.failures import PeerLost
from starling.comm.heartbeat import Heartbeat
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Beat, Process, this_host
from starling.core.errors import StarlingError
from starling.launch.inquest import Inquest
from starling.launch.reports import Report

SECONDS = 0.5
LOST_2 = "Worker 2 closed its connection before message 0 of step 0 (forward) had passed"


UNKNOWN = "Which worker was the first cannot be found out, since the store where all met does not answer."


def beat(store: Any, rank: int, *, host: str | None = None, process: int | None = None, done: bool = False) -> None:
    """A worker's last sign of life, by default of a process that lives: this one."""
    me = Process.look()
    assert me is not None
    number = os.getpid() if process is None else process
    store.set(f"starling/beat/{rank}", Beat(1, number, me.born, host or this_host(), f"epoch {rank}", done).pack())


@pytest.fixture(scope="module")
def ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def inquest(store: Any, rank: int = 1, size: int = 4) -> Inquest:
    """The part of one worker, which does not beat itself."""
    return Inquest(store, rank, Heartbeat(store, rank, size, Phase(), deadline=10.0), SECONDS)


def report(error: BaseException, rank: int = 1) -> Report:
    return Report.of(error, rank, Phase())


def said(told: Report | None) -> str:
    assert told is not None
    return str(told.error(4))


def test_only_the_first_tells() -> None:
    store = HashStore()
    assert not inquest(store).is_over()
    assert said(inquest(store, 3).to_tell(report(StarlingError("No space left."), 3))) == (
        "Worker 3 of 4 (starting) failed: No space left."
    )
    assert inquest(store).is_over()
    for error in (PeerLost(3, 0), StarlingError("Likewise.")):
        assert inquest(store).to_tell(report(error)) is None


@pytest.mark.parametrize("peer", [0, 2, None])
def test_whoever_is_gone_without_a_word_is_the_cause(ended: int, peer: int | None) -> None:
    """Even if it was worker 0 that was missed: it lives, or was done."""
    store = HashStore()
    beat(store, 0, done=True)
    beat(store, 2, process=ended)
    beat(store, 3)
    told = inquest(store).to_tell(report(PeerLost(peer, 0)))
    assert said(told).startswith("Worker 2 of 4 (epoch 2) was killed or ended without a word: its process is gone. ")


def test_one_that_was_told_to_end_looks_for_the_reason(ended: int) -> None:
    store = HashStore()
    for rank in (0, 2, 3):
        beat(store, rank)
    assert said(inquest(store).to_tell(Report.on_termination(1, Phase()))) == (
        "Worker 1 of 4 (starting) was told to end (SIGTERM)."
    )
    other = HashStore()
    beat(other, 3, process=ended)
    assert said(inquest(other).to_tell(Report.on_termination(1, Phase()))).startswith("Worker 3 of 4 (epoch 3) was killed")


def test_of_another_machine_only_the_connection_is_seen() -> None:
    store = HashStore()
    beat(store, 2, host="another")  # with the number of a process that lives here
    assert said(inquest(store).to_tell(report(PeerLost(2, 0)))) == (
        f"Worker 2 of 4 (epoch 2) was killed, cut off or ended without a word. Worker 1 saw: {LOST_2}."
    )


def test_its_neighbour_is_given_time_to_tell() -> None:
    store = HashStore()
    beat(store, 2, host="another")
    neighbour = threading.Timer(SECONDS / 10, lambda: inquest(store, 3).to_tell(report(StarlingError("That was me."), 3)))
    neighbour.start()
    assert inquest(store).to_tell(report(PeerLost(2, 0))) is None
    neighbour.join()


class _GoneStore(HashStore):
    """Answers while the run goes well; then raises, or never answers, as torch does if the store's machine has gone."""

    gone, waits = False, False

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self._answer()
        return super().multi_get(keys)

    def check(self, keys: list[str]) -> bool:
        self._answer()
        return super().check(keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        self._answer()
        return super().compare_set(key, expected, desired)

    def clone(self) -> _GoneStore:
        return self

    def _answer(self) -> None:
        if self.gone and self.waits:
            threading.Event().wait()
        if self.gone:
            raise RuntimeError("Connection reset by peer")


@pytest.mark.parametrize("waits", [False, True])
def test_without_the_store_a_worker_says_what_it_knows(ended: int, waits: bool) -> None:
    store = _GoneStore()
    beat(store, 2, process=ended)
    beat(store, 3, host="another")
    heartbeat = Heartbeat(store, 1, 4, Phase(), deadline=10.0)
    assert heartbeat.gone() == []  # it had not been heard before: the next look is at its process
    store.gone, store.waits = True, waits
    alone = Inquest(store, 1, heartbeat, SECONDS)
    assert said(alone.to_tell(report(PeerLost(2, 0)))) == (
        f"Worker 1 of 4 (starting) had to stop: {LOST_2}. Worker 2 has ended on this machine, last heard in the phase 'epoch 2'. "
        f"{UNKNOWN}"
    )
    assert said(alone.to_tell(report(PeerLost(3, 0)))).endswith(
        f"ended on this machine, last heard in the phase 'epoch 2'. Worker 3 was last heard in the phase 'epoch 3'. {UNKNOWN}"
    )
    assert said(alone.to_tell(report(StarlingError("No space left.")))) == "Worker 1 of 4 (starting) failed: No space left."


def test_one_worker_has_nobody_to_ask() -> None:
    store = HashStore()
    alone = Inquest(store, 0, None, SECONDS)
    assert said(alone.to_tell(Report.on_termination(0, Phase()))).endswith("was told to end (SIGTERM).")
