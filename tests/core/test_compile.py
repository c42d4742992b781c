from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled


@compiled
def wait_for(flag: NDArray[np.int64], answer: NDArray[np.int64], turns: int) -> int:
    """Say hello, then spin until the other side answers."""
    flag[0] = 1
    for turn in range(turns):
        if answer[0] == 1:
            return turn
        flag[1] = turn  # a write the compiler must not move out of the loop
    return -1


def test_a_kernel_runs_without_the_gil() -> None:
    flag, answer = np.zeros(2, np.int64), np.zeros(2, np.int64)
    wait_for(np.zeros(2, np.int64), np.ones(2, np.int64), 1)  # compiled here, not in the race
    turns: list[int] = []
    spinning = threading.Thread(target=lambda: turns.append(wait_for(flag, answer, 10**10)))
    spinning.start()
    # If the kernel held the GIL, this thread would not run again before it had given up.
    while flag[0] == 0 and spinning.is_alive():
        pass
    answer[0] = 1
    spinning.join()
    assert turns[0] >= 0
