from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

CHILD = """
import sys, time
from starling.launch.lifeline import die_with_parent
die_with_parent(int(sys.argv[1]))
print("alive", flush=True)
time.sleep(60)
"""
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(os.getpid())], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        parent.kill()
        parent.wait()
    try:
        child.wait(20)
    except psutil.TimeoutExpired:
        child.kill()
        pytest.fail("the child outlived its parent")


def test_a_child_of_a_parent_that_is_gone_already_ends() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "1"], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
