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
