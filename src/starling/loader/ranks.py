"""The processes of a script, as torchrun started them: a team of their own, formed once and left when the process ends."""

from __future__ import annotations

import atexit
import threading
from datetime import timedelta
from typing import Any

from starling.comm.switch import form_team
from starling.comm.team import Team
from starling.core.environment import ranks_in_environment

_MEETING = timedelta(seconds=300)
_lock = threading.Lock()
_team: Team | None = None


def team_of_script() -> Team:
    """This process among those of the script: by ``torch.distributed`` if it is set up, else by torchrun's environment, else alone.

    Workers of one host read one another's shards, so that messages are needed between hosts only.
    """
    global _team
    with _lock:
        if _team is None:
            rank, size = _place()
            if size == 1:
                _team = Team()
            else:
                _team = form_team(rank, size, _store())
                assert _team.mailbox is not None
                atexit.register(_team.mailbox.close)
        return _team


def _place() -> tuple[int, int]:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return ranks_in_environment()


def _store() -> Any:
    """Where the processes meet, under a name of our own."""
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if dist.is_initialized():
        from torch.distributed.distributed_c10d import _get_default_store

        store: Any = _get_default_store()
    else:
        store = next(rendezvous("env://", timeout=_MEETING))[0]
    return dist.PrefixStore("starling/loader", store)  # type: ignore[attr-defined]
