"""Exact scores of nodes, all parts in turn: what is in memory is one part, or as many as fit."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import torch
from torch import nn

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.parts_source import PartsSource, open_parts_source
from starling.engine.data.shelf import Shelf
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.source import SPLITS, SourceRequest
from starling.infer.part_by_part import PartInference
from starling.nn.model import LayeredModel
from starling.train.metrics import Score, Tally
from starling.train.results import Scores
from starling.train.team_evaluation import SCORING


class PartsEvaluation:
    """Exact scores of all parts, one in memory at a time; `folder` is for scratch files that all workers see."""

    def __init__(self, source: PartsSource, shelf: Shelf, memory: int, folder: Path, device: str) -> None:
        shelf.prepare(folder)
        self._source, self._evaluations = source, 0
        self._inference = PartInference(source, shelf, memory, folder, device)
        self._remove: weakref.finalize[..., PartsEvaluation] | None = None

    def own(self, folder: Path) -> None:
        """Remove a folder that was made for this when it is closed, or at the latest when nobody has it any more."""
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def close(self) -> None:
        """Remove a folder that was made for this."""
        if self._remove is not None:
            self._remove()

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split, from exact outputs; the same numbers on every worker."""
        if not isinstance(model, LayeredModel):
            raise InputError(
                "Evaluation part by part runs one layer at a time. Make the model a LayeredModel, or raise --memory."
            )
        assert self._source.y is not None, "a task checks that there are labels"
        self._evaluations += 1
        tallies = {name: Tally(score) for name in SPLITS}
        for tally in tallies.values():  # a worker without nodes of a split says so
            tally.add(torch.empty(0, score.outputs), torch.from_numpy(self._source.y[:0]))
        for part, start, outputs in self._inference.outputs(model):
            assert part.y is not None
            for name, rows in part.splits.items():
                begin, end = np.searchsorted(rows, [start, start + len(outputs)])
                mine = rows[begin:end]
                tallies[name].add(torch.from_numpy(outputs[mine - start]), torch.from_numpy(part.y[mine]))
            del part, outputs  # before the next part is read
        calls = Calls(self._evaluations, Channel.EVALUATE, SCORING)
        return Scores(*(tallies[name].over_team(self._source.team, calls) for name in SPLITS))


def evaluate_part_by_part(path: Path, team: Team, request: SourceRequest, memory: int, device: str) -> PartsEvaluation:
    """An evaluation within `memory` bytes, with a scratch folder of its own that goes when it is closed."""
    source = open_parts_source(path, team, request)
    folder = Path(tempfile.mkdtemp(prefix="starling-evaluation-")) if team.rank == 0 else None
    told = team.all_lists(source.calls.next_tag(), np.frombuffer(str(folder or "").encode(), np.uint8))[0]
    place = Path(told.astype(np.uint8).tobytes().decode())
    found = PartsEvaluation(source, Shelf(source, memory // 2), memory // 2, place, device)
    if folder is not None:
        found.own(folder)
    return found
