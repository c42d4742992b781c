"""The only file that reads environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starling.core.errors import InputError

_THREADS = "STARLING_THREADS"


def thread_count() -> int:
    """Threads a kernel may use: STARLING_THREADS, else the cores this process may run on."""
    text = os.environ.get(_THREADS)
    if text is None:
        return core_count()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"Expected STARLING_THREADS to be a whole number of at least 1, got '{text}'.")
    return int(text)


def core_count() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def cache_folder() -> Path:
    """Where a user's programs keep what they can make again: XDG_CACHE_HOME, else ~/.cache; Starling's own folder in it."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "starling"


def prefer_huge_pages() -> None:
    """Ask torch for 2 MiB pages, unless the user has decided; must come before torch is imported.

    Neighbour rows are read at random, and with small pages a quarter of that time goes into looking up addresses.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def wait_without_spinning() -> None:
    """Let torch's threads sleep where they wait for one another, unless the user has decided; must come before torch is imported.

    By default they spin, which takes the core from whoever they wait for as soon as anything else runs here: sampling in the
    background, a second worker, another program. An epoch on a small graph then took ten times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@dataclass(frozen=True)
class Place:
    """A worker's place among all of them and among those of its machine, as torchrun and its kin tell every process they start."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def place_in_run() -> Place:
    """The place of this process in a run of several."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    given = {name: os.environ.get(name, "") for name in names}
    for name, text in given.items():
        if not text.isdecimal():
            raise InputError(
                f"Expected {name} in the environment of a worker, got '{text}'. Start workers with torchrun, or with "
                "starling train --workers."
            )
    return Place(*map(int, given.values()))


def ranks_in_environment() -> tuple[int, int]:
    """This process's rank and how many there are, by torchrun's variables; a process that was started alone is the first of one."""
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise InputError(f"Expected RANK below WORLD_SIZE in the environment, got '{rank}' and '{size}'. Start with torchrun.")
    return int(rank), int(size)


def set_worker_threads(threads: int | None, workers: int) -> int:
    """Give this process its share of the machine's cores: what was asked for, STARLING_THREADS, or an equal share.

    Must come before NumPy and torch are imported, since their libraries read it then. torchrun sets OMP_NUM_THREADS to 1 where the
    user did not, so that variable cannot be told from a wish and is set here like the others.
    """
    if threads is not None and threads < 1:
        raise InputError(f"Expected at least 1 thread for each worker, got {threads}.")
    count = threads or (thread_count() if _THREADS in os.environ else max(1, core_count() // workers))
    for name in (_THREADS, "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(count)
    return count


@contextmanager
def computing_threads(threads: int | None) -> Iterator[None]:
    """Compute in this process with so many threads, kernels and torch alike, until the block is left.

    None: with STARLING_THREADS where the user has set it, else as before.
    """
    if threads is None:
        if _THREADS not in os.environ:
            yield
            return
        threads = thread_count()
    import torch

    kernels, torchs = os.environ.get(_THREADS), torch.get_num_threads()
    os.environ[_THREADS] = str(threads)
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(torchs)
        if kernels is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = kernels


def silence_torch_warnings() -> None:
    """Keep torch's C++ side from writing about peers that are gone, unless the user wants it; must come before torch is imported.

    What happened is told in one sentence, by whoever knows the cause.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def talk_over_loopback() -> None:
    """Let Gloo use the loopback interface, unless the user names another; right where all workers are on one machine.

    By itself Gloo takes the address that the host's name stands for, which may be none or one that the network can reach.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
