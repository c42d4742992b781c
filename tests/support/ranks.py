"""Run a function as every worker of a team of real processes; cheap, since they are forked from a server that has torch already.

    losses = run_ranks(4, train_a_little, graph)          # train_a_little(team, graph) -> result, in each of 4 processes

The function is given as itself (a module's function, not a closure) or as "module:function". It gets its team first. Results come
back by rank; the first error of any worker is raised here, with its traceback as a note. Nothing is left behind in either case.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team

Transport = Literal["auto", "gloo", "threads"]

_GRACE = 5.0
"""Seconds that workers have to end by themselves after one of them failed: most do, with an error that names the first."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "torch",
        "torch.distributed",
        "numba",
        "pytest",
        "hypothesis",
        "starling.comm.switch",
        "starling.kernels.parallel",
        "starling.train.trainer",
        __name__,
    ]
)


@dataclass(frozen=True)
class Outcome:
    """How one worker ended: with a result, with an error, or with neither, killed (`exit_code` < 0)."""

    result: Any = None
    error: BaseException | None = None
    exit_code: int | None = None
    at: float = 0.0

    @property
    def failed(self) -> bool:
        return self.error is not None or self.exit_code != 0


def run_ranks(
    size: int, function: str | Callable[..., Any], *args: Any, transport: Transport = "auto", deadline: float = 60.0
) -> list[Any]:
    """Results by rank of `function(team, *args)`, or the error of the worker that failed first."""
    if transport == "threads":
        from starling.comm.in_process import run_threads

        return run_threads(size, lambda team: _find(function)(team, *args))
    outcomes = try_ranks(size, function, *args, transport=transport, deadline=deadline)
    failed = sorted((outcome.at, rank) for rank, outcome in enumerate(outcomes) if outcome.failed)
    if failed:
        rank = failed[0][1]
        raise outcomes[rank].error or RuntimeError(f"worker {rank} ended with exit status {outcomes[rank].exit_code}")
    return [outcome.result for outcome in outcomes]


def try_ranks(
    size: int, function: str | Callable[..., Any], *args: Any, transport: Transport = "auto", deadline: float = 60.0
) -> list[Outcome]:
    """How each worker ended, for tests in which some are meant to fail; those still running at the deadline are killed."""
    place = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    job = pickle.dumps(args)
    processes: list[BaseProcess] = []
    answers: list[Connection] = []
    try:
        for rank in range(size):
            answer, child = _context.Pipe(duplex=False)
            process: BaseProcess = _context.Process(
                target=_work, args=(rank, size, store.port, transport, place, job, child), daemon=True
            )
            process.start()
            child.close()
            processes.append(process)
            answers.append(answer)
        return _gather(processes, answers, deadline)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for answer in answers:
            answer.close()


def meeting(team: Team) -> TCPStore:
    """A store for what a test's workers tell one another beside their messages, served by worker 0."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if team.rank == 0 else None
    port = int(team.all_lists(make_tag(Channel.SETUP, 0, 0), np.array([server.port if server else 0]))[0][0])
    return server or TCPStore("127.0.0.1", port, wait_for_workers=False, timeout=timedelta(seconds=20))


def _gather(processes: list[BaseProcess], answers: list[Connection], deadline: float) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    end = time.monotonic() + deadline
    while len(outcomes) < len(processes) and time.monotonic() < end:
        waiting = {answers[rank]: rank for rank in range(len(processes)) if rank not in outcomes}
        for answer in wait(list(waiting), max(end - time.monotonic(), 0.0)):
            assert isinstance(answer, Connection)
            rank = waiting[answer]
            outcomes[rank] = _read(answer, processes[rank])
            if outcomes[rank].failed:
                end = min(end, time.monotonic() + _GRACE)
    late = TimeoutError(f"still running after {deadline:g} s, or {_GRACE:g} s after another worker had failed")
    return [outcomes.get(rank, Outcome(error=late, at=end)) for rank in range(len(processes))]


def _read(answer: Connection, process: BaseProcess) -> Outcome:
    try:
        result, error, text, at = pickle.loads(answer.recv_bytes())
    except EOFError:
        process.join()
        return Outcome(exit_code=process.exitcode, at=time.monotonic())
    if text:
        error.add_note(text)
        return Outcome(error=error, at=at)
    return Outcome(result, exit_code=0, at=at)


def _work(rank: int, size: int, port: int, transport: Any, place: str, job: bytes, answer: Connection) -> None:
    """A worker's whole life."""
    from starling.comm.switch import form_team

    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)  # a worker that fails leaves its sockets to the kernel
    torch.set_num_threads(1)
    os.environ["STARLING_THREADS"] = "1"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        function, args = _find(place), pickle.loads(job)
        store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        team = form_team(rank, size, store, transport=transport, wait_limit=30.0)
        result = function(team, *args)
        team.close()
        if dist.is_initialized():
            dist.destroy_process_group()
        answer.send_bytes(pickle.dumps((result, None, "", time.monotonic())))
    except BaseException as error:
        at = time.monotonic()  # one clock for all processes: this test may come to read several answers at once
        text = f"on worker {rank}:\n{traceback.format_exc()}"
        try:
            pickle.loads(message := pickle.dumps((None, error, text, at)))
        except Exception:  # some errors cannot be made again from their arguments
            message = pickle.dumps((None, RuntimeError(str(error)), text, at))
        answer.send_bytes(message)


def _find(function: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Any = importlib.import_module(module)
    for step in name.split("."):
        found = getattr(found, step)
    return found  # type: ignore[no-any-return]
