from __future__ import annotations

import os

import pytest

from starling.core.environment import (
    Place,
    computing_threads,
    core_count,
    place_in_run,
    set_worker_threads,
    thread_count,
    wait_without_spinning,
)
from starling.core.errors import InputError


def test_without_the_variable_it_is_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STARLING_THREADS", raising=False)
    assert thread_count() == len(os.sched_getaffinity(0))


def test_where_affinity_is_unknown_it_is_the_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STARLING_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count() == 1


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARLING_THREADS", "7")
    assert thread_count() == 7


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "1.5", "²", " 2"])
def test_anything_else_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARLING_THREADS", text)
    with pytest.raises(InputError, match=f"whole number of at least 1, got '{text}'"):
        thread_count()


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
POOLS = ("STARLING_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def test_a_worker_learns_its_place_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert place_in_run() == Place(rank=5, size=8, local_rank=1, local_size=4)
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(
        InputError, match=r"Expected LOCAL_RANK in the environment of a worker, got ''\. Start workers with torchrun"
    ):
        place_in_run()


@pytest.mark.parametrize(("asked", "variable", "expected"), [(3, "2", 3), (None, "2", 2), (None, None, None)])
def test_threads_of_a_worker(
    asked: int | None, variable: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in POOLS:
        monkeypatch.setenv(name, "99")
    if variable is None:
        monkeypatch.delenv("STARLING_THREADS")
        expected = max(1, core_count() // 2)
    else:
        monkeypatch.setenv("STARLING_THREADS", variable)
    assert set_worker_threads(asked, workers=2) == expected
    assert [os.environ[name] for name in POOLS] == [str(expected)] * len(POOLS)
    assert thread_count() == expected


def test_a_worker_has_at_least_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in POOLS:
        monkeypatch.setenv(name, "99")
    monkeypatch.delenv("STARLING_THREADS")
    assert set_worker_threads(None, workers=10_000) == 1
    with pytest.raises(InputError, match="Expected at least 1 thread for each worker, got 0"):
        set_worker_threads(0, workers=1)


def test_waiting_threads_sleep_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_without_spinning()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    wait_without_spinning()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


@pytest.mark.parametrize("before", [None, "7"])
def test_threads_of_this_process_for_a_while(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("STARLING_THREADS", raising=False)
    if before is not None:
        monkeypatch.setenv("STARLING_THREADS", before)
    torchs = torch.get_num_threads()
    with computing_threads(3):
        assert (thread_count(), torch.get_num_threads()) == (3, 3)
    assert os.environ.get("STARLING_THREADS") == before
    assert torch.get_num_threads() == torchs
    with computing_threads(None):
        assert os.environ.get("STARLING_THREADS") == before
        assert torch.get_num_threads() == (torchs if before is None else int(before)), "the variable governs torch too"
    assert torch.get_num_threads() == torchs
