"""Learnt rows of parts that train in turn: whose steps move them, and when others get to see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from starling.comm.team import Team
from starling.engine.data.part_embeddings import EmbeddedPartFeatures
from starling.train.averaging.parts_work import PartsWork
from starling.train.setup import Setup


class RowTurns:
    """Moves rows with the steps of the part that owns them, and shows them once all parts have had their turn.

    Steps of an optimiser are counted for each part: a worker that has several would else count for one those of the others.
    Where no rows are learnt there is nothing to do.
    """

    def __init__(self, setup: Setup, team: Team) -> None:
        assert isinstance(setup.work, PartsWork)
        features = setup.work.source.part_features
        self._features = features if isinstance(features, EmbeddedPartFeatures) else None
        self._team, self._settings, self._rate = team, setup.config.embedding, setup.config.optimizer.lr
        self.steps: defaultdict[int, int] = defaultdict(int)
        """That each own part has made."""

    def begin(self, folder: Path, tag: int) -> None:
        """Show the rows that the run begins with, or goes on with, in a folder that all workers see."""
        if self._features is not None:
            self._features.shown.begin(folder)
            self.show(tag)

    def moved_by(self, part: int, rate: float) -> Callable[[int, float], None]:
        """What to do after each step on a part: move its rows, at this learning rate of weights."""

        def move(_step: int, _loss: float) -> None:
            if self._features is not None:
                table = self._features.table
                table.steps = self.steps[part]
                table.step(self._settings.rate(rate, self._rate))
                self.steps[part] = table.steps

        return move

    def show(self, tag: int) -> None:
        """Let all parts see the rows as they are now; everybody asks, after the turns of all parts."""
        if self._features is not None:
            self._features.show()
            self._team.all_lists(tag, np.empty(0, np.int64))  # nobody reads before all have written
