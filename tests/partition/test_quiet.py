from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes
from starling.partition.quiet import printing_to_stderr
library = ctypes.CDLL(None)
print("before")
with printing_to_stderr():
    library.puts(b"from a library")
library.puts(b"after")
library.fflush(None)
"""


def test_what_a_library_prints_goes_to_standard_error() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "before\nafter\n"
    assert done.stderr == "from a library\n"
