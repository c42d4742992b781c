from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys
import numpy as np
if sys.argv[1] == "keep":
    from starling.core.allocator import keep_freed_memory
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(6 << 20)
before = faults()
for _ in range(4):
    np.ones(6 << 20)  # 48 MiB
print(faults() - before)
"""


def faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)


def test_freed_arrays_are_used_again_without_new_pages() -> None:
    kept, given_back = faults("keep"), faults("default")
    assert given_back >= 4 * 24  # 48 MiB in pages of 2 MiB, each time anew
    assert kept < given_back / 4


HOLES = """
import sys
import numpy as np
from starling.core.allocator import freed_bytes, keep_freed_memory, release_freed_memory
from starling.core.memory import rss_bytes
keep_freed_memory()
arrays = [np.ones(1 << 20) for _ in range(32)]  # 8 MiB each
del arrays[:-1]  # the last one holds the heap's end
before = rss_bytes()
release_freed_memory(int(sys.argv[1]))
print(before - rss_bytes(), freed_bytes())
"""


def test_holes_are_given_back_where_they_are_large() -> None:
    """31 arrays of 8 MiB are free, below one that is not."""

    def given_back(at_least: int) -> tuple[int, int]:
        done = subprocess.run([sys.executable, "-c", HOLES, str(at_least)], capture_output=True, text=True, check=True)
        released, free = done.stdout.split()
        return int(released), int(free)

    size = 31 << 23
    assert given_back(0)[0] > 0.9 * size
    assert given_back(size // 2)[0] > 0.9 * size
    released, free = given_back(2 * size)
    assert released < 0.1 * size
    assert size <= free < 1.2 * size
