from __future__ import annotations

import os

import pytest

from starling.core.environment import thread_count
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
