"""The kinds of runs: how each is set up, what moves its weights, and how its epochs go by.

To add one: what `RunKind` asks for, and a line in `KINDS`. `fit` (trainer.py) knows of none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starling.comm.team import Team
from starling.train.averaging.loop import AveragingLoop, learn_by_part
from starling.train.averaging.setup import set_up_averaging
from starling.train.config import RunConfig
from starling.train.epochs import EpochLoop
from starling.train.journal import Journal
from starling.train.learning import Learning, learn_together
from starling.train.links.parts_setup import set_up_averaged_links
from starling.train.links.setup import set_up_links
from starling.train.setup import Setup, set_up


class Loop(Protocol):
    """The epochs of one run."""

    def epochs(self, after: int = 0) -> Generator[int]:
        """Train the epochs after those that are done, each written to the journal; the last one is evaluated.

        Gives the number of an epoch whenever the run could be left here and go on from `state`.
        """

    def state(self) -> Mapping[str, Any]:
        """What later epochs depend on beside the model, the same on every worker, or of the first alone."""

    def own_state(self) -> Mapping[str, Any]:
        """What is of this worker only."""

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Go on from what `state` gave at the first worker, and `own_state` here; the model was restored before."""


@dataclass(frozen=True)
class RunKind:
    """One kind of run, in the order in which it is begun."""

    asked: Callable[[RunConfig], bool]
    """Whether a config asks for it."""
    set_up: Callable[[RunConfig, Team], Setup]
    learn: Callable[[Setup, Team], Learning]
    loop: Callable[[Journal, Learning], Loop]


KINDS = {
    "averaged link prediction": RunKind(
        lambda config: config.task.name == "link" and config.sync.name == "average",
        set_up_averaged_links,
        learn_by_part,
        AveragingLoop,
    ),
    "link prediction": RunKind(lambda config: config.task.name == "link", set_up_links, learn_together, EpochLoop),
    "averaging": RunKind(lambda config: config.sync.name == "average", set_up_averaging, learn_by_part, AveragingLoop),
    "ordinary": RunKind(lambda _config: True, set_up, learn_together, EpochLoop),
}
"""The first that is asked for is it."""


def kind_of(config: RunConfig) -> RunKind:
    """The kind of run that a config asks for."""
    return next(kind for kind in KINDS.values() if kind.asked(config))
