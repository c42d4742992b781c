"""Messages in the order in which they come, over links that tell only a thread that waits: a thread waits for each message.

A thread a message, and not one a peer: it would see the second message of a peer only after the first, and where several steps
compute at once the second may be what the first has to wait for.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from torch import Tensor

from starling.comm.ledger import Ledger


@dataclass(frozen=True, eq=False)
class _Arrival:
    """A message that is here, or why it will not come."""

    peer: int
    message: ExitStack
    rows: Tensor | None
    failure: BaseException | None = None


def as_they_come(coming: Mapping[int, AbstractContextManager[Tensor]], ledger: Ledger) -> Iterator[tuple[int, Tensor]]:
    """(peer, its message), whichever comes first; a message is to be read before the next is asked for."""
    if len(coming) == 1:
        for peer, message in coming.items():
            with message as rows:
                yield peer, rows
        return
    arrivals: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
    for peer, message in coming.items():
        waiting = threading.Thread(target=_wait, args=(peer, message, ledger, arrivals), name=f"waits-{peer}", daemon=True)
        waiting.start()
    for _ in coming:
        with ledger.time("waiting"):
            came = arrivals.get()
        with came.message:
            if came.failure is not None:
                raise came.failure
            assert came.rows is not None
            yield came.peer, came.rows
        del came  # not to be kept while the next is waited for


def _wait(peer: int, message: AbstractContextManager[Tensor], ledger: Ledger, arrivals: queue.SimpleQueue[_Arrival]) -> None:
    entered = ExitStack()
    try:
        with ledger.behind():  # the thread that asks counts the time
            rows = entered.enter_context(message)
    except BaseException as failure:  # whatever it is, it belongs to whoever asks
        arrivals.put(_Arrival(peer, entered, None, failure))
    else:
        arrivals.put(_Arrival(peer, entered, rows))
