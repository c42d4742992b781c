from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from starling.core.errors import InputError
from starling.launch.worker import find_entry, read_spec

WORKER = [sys.executable, "-m", "starling.launch.worker"]
LIGHT = """
import sys
import starling.launch.worker
print(*(name for name in ("numpy", "numba", "torch") if name in sys.modules))
"""

TERMINATED = """
import argparse, ctypes, os, signal, time
from starling.core.environment import Place
from starling.launch.worker import _Worker
options = argparse.Namespace(deadline=15.0, transport="auto", device="cpu")
worker = _Worker(Place(1, 4, 1, 4), options)
worker.phase.enter("epoch 3, step 2")
worker.heed_termination()
hears, tells = os.pipe()
child = os.fork()
if child == 0:
    os.write(tells, b".")  # Python drops signals that come while it forks
    time.sleep(60)
    os._exit(0)
os.read(hears, 1)
os.kill(child, signal.SIGTERM)
print(os.waitpid(child, 0)[1], flush=True)
locked, c = ctypes.create_string_buffer(64), ctypes.CDLL(None)
c.pthread_mutex_lock(locked)
c.pthread_mutex_lock(locked)  # for ever: no Python handler runs meanwhile
"""


def test_an_entry_is_found() -> None:
    assert find_entry("json:dumps") is json.dumps


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("json", "Expected the work of a worker as package.module:function, got 'json'"),
        (":dumps", "package.module:function"),
        ("json:", "package.module:function"),
        ("json:no_such", "The module json has no function 'no_such'"),
        ("json:__name__", "no function '__name__'"),
        ("no_such_package.module:run", "There is no module 'no_such_package'"),
        ("json.no_such:run", "There is no module 'json.no_such'"),
    ],
)
def test_an_entry_that_is_not_there(entry: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_entry(entry)


def test_a_module_that_lacks_another_is_not_the_users_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_entry.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        find_entry("broken_entry:run")


@pytest.mark.parametrize("text", ["", "[1]", "{", "\ud800"])
def test_a_spec_that_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(InputError, match=r"spec\.json"):
        read_spec(path)
    with pytest.raises(InputError, match=r"missing\.json"):
        read_spec(tmp_path / "missing.json")


def test_a_worker_that_nobody_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    done = subprocess.run([*WORKER, "a:b", "spec.json"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("starling: Expected RANK in the environment of a worker, got ''. Start workers with torchrun")
    assert done.stderr.count("\n") == 1


def test_a_worker_speaks_before_it_ends_by_a_signal() -> None:
    """Even in a call that lets no Python run. Its children, forked, end by the signal as ever, without a word."""
    with subprocess.Popen(
        [sys.executable, "-c", TERMINATED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert os.waitstatus_to_exitcode(int(worker.stdout.readline())) == -signal.SIGTERM
        worker.terminate()
        _, told = worker.communicate(timeout=60)
    assert worker.returncode == 128 + signal.SIGTERM
    assert told == "starling: Worker 1 of 4 (epoch 3, step 2) was told to end (SIGTERM).\n"


def test_threads_are_decided_before_anything_heavy_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
