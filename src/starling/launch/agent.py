"""torch's elastic agent, the one behind torchrun, as one function: start workers, wait, tell how they ended."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starling.core.errors import StarlingError

if TYPE_CHECKING:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

_HERE = "127.0.0.1"
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LOOK_EVERY = 0.1
_MOST_UNLUCKY = 16


def run_agent(command: Sequence[str], workers: int, logs: Path) -> dict[int, int]:
    """Run `workers` processes of ``python <command>``; exit statuses of those that failed, the first to fail first.

    A signal that ends this process is passed on to the workers, and becomes KeyboardInterrupt when they have ended.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, launch_agent

    store = meeting_place()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=uuid.uuid4().hex,
        rdzv_backend="static",
        rdzv_endpoint=f"{_HERE}:{store.port}",
        rdzv_configs={"rank": 0},
        local_addr=_HERE,
        max_restarts=0,
        monitor_interval=_LOOK_EVERY,
        logs_specs=DefaultLogsSpecs(log_dir=str(logs)),
    )
    with _handlers_given_back(), _silence("torch.distributed"):
        try:
            launch_agent(config, sys.executable, list(command))
        except ChildFailedError as error:
            return {rank: failure.exitcode for rank, failure in error.failures.items()}
        except SignalException as error:
            raise KeyboardInterrupt from error
        except OSError as error:
            raise StarlingError(f"Cannot start {workers} workers: {error.strerror or error}.") from error
    return {}


def meeting_place() -> TCPStore:
    """Where workers meet. The agent finds this store by its port, in this process; so the port is free, and stays ours.

    Torch remembers the ports of all stores that a process has had. One that comes again it takes for the old store's, which is
    gone, and would open a second time, in vain. So the store is looked for as the agent will, and another taken if need be.
    """
    from torch.distributed import DistNetworkError, TCPStore  # type: ignore[attr-defined]

    unlucky: list[TCPStore] = []  # kept, so that the next one has another port
    while True:
        store = TCPStore(_HERE, 0, is_master=True, wait_for_workers=False, multi_tenant=True)
        try:
            TCPStore(_HERE, store.port, is_master=True, wait_for_workers=False, multi_tenant=True)
        except DistNetworkError:
            if len(unlucky) == _MOST_UNLUCKY:
                raise
            unlucky.append(store)
        else:
            return store


@contextmanager
def _handlers_given_back() -> Iterator[None]:
    """The agent handles signals and never gives them back; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _silence(name: str) -> Iterator[None]:
    """Drop what a package logs: the agent's paragraphs about a failed worker would hide our sentence."""
    logger = logging.getLogger(name)
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before
