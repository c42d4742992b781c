"""Workers that are stopped, starved, done, or on a machine that is gone."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributed import HashStore, TCPStore  # type: ignore[attr-defined]

from starling.comm.heartbeat import Heartbeat
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Beat, Lost, Process, Watched, this_host
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from tests.support.ranks import meeting, run_ranks, try_ranks

SETUP = make_tag(Channel.SETUP, 0, 0)
RUNS = Process("S", worked=5, born=77)


def beat(count: int, host: str = "here", *, done: bool = False) -> Beat:
    return Beat(count, 1234, 77, host, "epoch 3", done)


def watched_since(now: float) -> Watched:
    watched = Watched(2, now)
    watched.hear(beat(1), now)
    return watched


def test_a_beat_survives_the_store() -> None:
    assert Beat.unpack(beat(3, done=True).pack().encode()) == beat(3, done=True)


def test_far_workers_are_judged_by_their_beats() -> None:
    watched = watched_since(100.0)
    watched.hear(beat(1), 109.0)  # the old one again
    assert watched.judge(None, False, 110.0, 10.0) is None
    lost = watched.judge(None, False, 110.5, 10.0)
    assert lost == Lost(2, "epoch 3", 10.5, "gives no sign of life")
    assert str(lost) == "Worker 2 gives no sign of life; it was last heard 10.5 s ago, in the phase 'epoch 3'."
    watched.hear(beat(2), 110.6)
    assert watched.judge(None, False, 120.0, 10.0) is None


def test_a_worker_that_never_came_is_lost_too() -> None:
    lost = Watched(1, 0.0).judge(None, False, 10.5, 10.0)
    assert lost is not None
    assert lost.phase == "starting"


def test_a_worker_that_is_done_may_be_silent_or_gone() -> None:
    watched = watched_since(0.0)
    watched.hear(beat(2, done=True), 1.0)
    assert watched.judge(None, True, 1000.0, 10.0) is None


def test_a_process_that_has_ended_is_lost_at_once() -> None:
    for process in (None, Process("Z", 5, 77), Process("S", 5, born=78)):  # gone, a zombie, another with its number
        lost = watched_since(0.0).judge(process, True, 1.0, 10.0)
        assert lost is not None
        assert "is gone" in lost.cause


def test_a_stopped_process_that_another_worker_kills_counts_as_stopped() -> None:
    watched = watched_since(0.0)
    assert watched.judge(Process("T", 5, 77), True, 9.0, 10.0) is None
    lost = watched.judge(Process("R", 5, 77), True, 10.5, 10.0)  # on its way out
    assert lost is not None
    assert lost.cause.startswith("is stopped")
    again = watched_since(0.0)
    assert again.judge(Process("T", 5, 77), True, 9.0, 10.0) is None
    again.hear(beat(2), 9.5)  # somebody let it go on
    lost = again.judge(RUNS, True, 20.0, 10.0)
    assert lost is not None
    assert lost.cause == "gives no sign of life"


def test_a_stopped_process_is_lost_at_the_deadline() -> None:
    watched, stopped = watched_since(0.0), Process("T", 5, 77)
    assert watched.judge(stopped, True, 9.0, 10.0) is None
    lost = watched.judge(stopped, True, 10.5, 10.0)
    assert lost is not None
    assert "is stopped" in lost.cause


def test_a_process_that_works_is_alive_though_its_beats_are_held_up() -> None:
    watched = watched_since(0.0)
    for second in range(1, 30):
        assert watched.judge(Process("R", worked=5 + second, born=77), True, second, 10.0) is None
    for second in range(30, 39):
        assert watched.judge(Process("S", worked=34, born=77), True, second, 10.0) is None
    assert watched.judge(Process("S", worked=34, born=77), True, 39.5, 10.0) is not None


def test_silence_while_the_watcher_slept_is_forgiven() -> None:
    watched = watched_since(0.0)
    watched.forgive(60.0)
    assert watched.judge(None, False, 65.0, 10.0) is None
    assert watched.judge(None, False, 70.5, 10.0) is not None


def test_linux_tells_about_processes() -> None:
    me = Process.look()
    assert me is not None
    assert me.state in "RS"
    assert Process.look(os.getpid()) is not None
    assert Process.look("no such process") is None
    assert this_host() == this_host() != ""


def test_a_machine_that_is_gone_is_noticed_and_its_process_left_alone() -> None:
    """The beat of another host bears this process's number, which must not be killed."""
    store, lost = HashStore(), queue.Queue[Lost]()
    me = Process.look()
    assert me is not None
    store.set("starling/beat/1", Beat(1, os.getpid(), me.born, "another host", "epoch 5").pack())
    with Heartbeat(store, 0, 2, Phase(), deadline=0.2, on_lost=lost.put):
        assert lost.get(timeout=20).phase == "epoch 5"


def test_a_lost_process_is_told_of_before_it_is_killed() -> None:
    """Others would take the kill for the cause. One that has ended is nobody's to kill: its number may be another's by now."""
    store, lost, alive = HashStore(), queue.Queue[Lost](), []
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        seen = Process.look(process.pid)
        assert seen is not None
        store.set("starling/beat/1", Beat(1, process.pid, seen.born, this_host(), "epoch 5").pack())

        def told(what: Lost) -> None:
            alive.append(process.poll() is None)
            lost.put(what)

        with Heartbeat(store, 0, 2, Phase(), deadline=0.2, on_lost=told):
            assert lost.get(timeout=20).process == process.pid
            assert process.wait(20) == -signal.SIGKILL
    assert alive == [True]
    ended = Watched(1, 0.0).judge(None, True, 1.0, 10.0)
    assert ended is not None
    assert ended.process is None


def test_who_is_gone_is_known_to_any_thread() -> None:
    store = HashStore()
    heart = Heartbeat(store, 0, 3, Phase(), deadline=10.0)
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        seen = Process.look(process.pid)
        assert seen is not None
        here = Beat(1, process.pid, seen.born, this_host(), "epoch 5")
        store.set("starling/beat/1", here.pack())
        store.set("starling/beat/2", here.pack())
        assert heart.gone() == []
        assert heart.phase_of(1) == "epoch 5"
        store.set("starling/beat/2", replace(here, count=2, done=True).pack())
    assert [lost.rank for lost in heart.gone()] == [1]
    assert [lost.rank for lost in heart.gone(ask=False)] == [1]


def test_beats_go_on_while_the_store_is_waited_on() -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mine, lost = TCPStore("127.0.0.1", server.port, wait_for_workers=False), queue.Queue[Lost]()
    waiting = threading.Thread(target=mine.get, args=["something"])
    waiting.start()
    with Heartbeat(mine, 0, 1, Phase(), deadline=0.2, on_lost=lost.put):
        first = Beat.unpack(server.get("starling/beat/0")).count
        while Beat.unpack(server.get("starling/beat/0")).count < first + 3:
            time.sleep(0.01)
        server.set("something", "at last")
        waiting.join()
    assert Beat.unpack(server.get("starling/beat/0")).done
    assert lost.empty()


SERVE = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("may_vanish", [True, False])
def test_a_store_that_no_longer_answers_is_lost(may_vanish: bool) -> None:
    """Its connection stays open, as that of a machine without power does. One on this machine that is stopped is waited for."""
    lost, phase = queue.Queue[Lost](), Phase()
    phase.enter("epoch 2")
    with subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        store = TCPStore("127.0.0.1", int(server.stdout.readline()), wait_for_workers=False)
        store.set("starling/beat/1", beat(1, done=True).pack())
        heart = Heartbeat(store, 0, 2, phase, deadline=0.4, on_lost=lost.put, store_may_vanish=may_vanish).start()
        server.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        server.send_signal(signal.SIGCONT)
        before = Beat.unpack(store.get("starling/beat/0")).count
        while lost.empty() and Beat.unpack(store.get("starling/beat/0")).count < before + 3:  # it goes on
            time.sleep(0.01)
        heart.stop()
    told = [] if lost.empty() else [lost.get()]
    assert [(each.rank, each.phase) for each in told] == [(None, "epoch 2")] * may_vanish
    assert [*map(str, told)] == ["The store where the workers of this run meet has not answered for 0.4 s."] * may_vanish
    assert lost.empty()


def test_a_store_that_vanishes_while_a_worker_leaves_is_lost_too() -> None:
    """The last beat waits for it."""
    lost = queue.Queue[Lost]()
    with subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        store = TCPStore("127.0.0.1", int(server.stdout.readline()), wait_for_workers=False)
        store.set("starling/beat/1", beat(1, done=True).pack())
        heart = Heartbeat(store, 0, 2, Phase(), deadline=0.4, on_lost=lost.put, store_may_vanish=True).start()
        server.send_signal(signal.SIGSTOP)
        time.sleep(0.1)  # a turn is a tenth of the deadline
        leaving = threading.Thread(target=heart.stop)
        leaving.start()
        time.sleep(1.2)
        server.send_signal(signal.SIGCONT)
        leaving.join()
    assert lost.get_nowait().rank is None


def stop_one(team: Team) -> str:
    lost = queue.Queue[Lost]()
    store, phase = meeting(team), Phase()
    phase.enter(f"phase of {team.rank}")
    with Heartbeat(store, team.rank, team.size, phase, deadline=1.0, on_lost=lost.put):
        if team.rank == 1:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGSTOP)
        first = lost.get(timeout=30)
        assert first.rank == 1
        team.links.send_list(2 - team.rank, SETUP, np.arange(1))  # neither leaves before the other knows
        team.links.receive_list(2 - team.rank, SETUP)
        return f"{first.phase}: {first.cause.partition(' (')[0]}"


def test_a_stopped_worker_is_killed_and_named_by_all_others() -> None:
    outcomes = try_ranks(3, stop_one, deadline=40.0)
    assert outcomes[1].exit_code == -signal.SIGKILL
    for rank in (0, 2):
        cause = outcomes[rank].result
        assert cause.startswith("phase of 1: is "), outcomes[rank].error  # stopped, or gone if the other was quicker


def finish_one_by_one(team: Team) -> int:
    """Worker 1 is done at once, the others stay for several deadlines; all stay to the end in which worker 0 serves the store."""
    lost: list[Lost] = []
    store = meeting(team)
    with Heartbeat(store, team.rank, team.size, Phase(), deadline=1.0, on_lost=lost.append):
        time.sleep(0.1 if team.rank == 1 else 2.5)
    store.add("left", 1)
    while team.rank == 0 and store.add("left", 0) < team.size:
        time.sleep(0.01)
    return len(lost)


def test_nobody_is_lost_who_was_only_quicker() -> None:
    assert run_ranks(3, finish_one_by_one) == [0, 0, 0]


def lose_the_store(team: Team) -> str:
    lost = queue.Queue[Lost]()
    store = meeting(team)
    with Heartbeat(store, team.rank, team.size, Phase(), deadline=1.0, on_lost=lost.put):
        team.all_sum(make_tag(Channel.SUMS, 0, 0), torch.ones(1))
        if team.rank == 0:
            os._exit(7)
        first = lost.get(timeout=30)
    return str(first)


def test_a_lost_store_is_noticed() -> None:
    outcomes = try_ranks(2, lose_the_store, deadline=40.0)
    assert outcomes[0].exit_code == 7
    assert "The store where the workers of this run meet" in outcomes[1].result or "Worker 0 is gone" in outcomes[1].result


def test_without_listener_a_lost_worker_ends_the_process() -> None:
    outcomes = try_ranks(1, end_by_default, deadline=30.0)
    assert outcomes[0].exit_code == 1


def end_by_default(team: Team) -> None:
    store = HashStore()
    store.set("starling/beat/1", beat(1, "another host").pack())
    with Heartbeat(store, 0, 2, Phase(), deadline=0.2):
        time.sleep(30)


@pytest.mark.parametrize("size", [1, 2])
def test_stop_is_prompt_and_final(size: int) -> None:
    store = HashStore()
    heart = Heartbeat(store, 0, size, Phase(), deadline=100.0).start()
    heart.stop()
    assert Beat.unpack(store.get("starling/beat/0")).done
