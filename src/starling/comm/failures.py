"""What goes wrong between workers: one is gone, or a message does not come."""

from __future__ import annotations

from starling.comm.tags import describe_tag
from starling.core.errors import StarlingError


class PeerLost(StarlingError):
    """A worker closed its connection: it failed, was killed, or left before its work was done."""

    def __init__(self, peer: int | None, tag: int) -> None:
        """`peer` is None where a link tells only that somebody is gone."""
        super().__init__(peer, tag)
        self.peer, self.tag = peer, tag

    def sentence(self) -> str:
        """Who is gone, and what it owed."""
        who = "Another worker" if self.peer is None else f"Worker {self.peer}"
        return f"{who} closed its connection before {describe_tag(self.tag)} had passed."


class WaitedInVain(StarlingError):
    """A message did not come within the limit, though its sender's connection is open."""

    def __init__(self, peer: int, tag: int, seconds: float) -> None:
        super().__init__(peer, tag, seconds)
        self.peer, self.tag, self.seconds = peer, tag, seconds

    def sentence(self) -> str:
        """What did not come, and from whom."""
        return f"Waited {self.seconds:g} s in vain for {describe_tag(self.tag)} of worker {self.peer}."
