"""Parts that each train on their own target edges: in-edges of their own nodes, told from pairs among what a part has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from starling.comm.tags import Channel
from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import PartsSource
from starling.engine.data.shelf import Shelf
from starling.engine.fill import Filler
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.row_table import RowTable
from starling.infer.part_by_part import PartInference
from starling.nn.decoders import LinkModel
from starling.nn.model import LayeredModel
from starling.plan.links.local_nodes import OwnNodes
from starling.plan.links.negatives import NegativeSampler, known_pairs
from starling.plan.links.strategy import DealTask, LinkStrategy
from starling.train.averaging.parts_work import Lessons, PartsWork
from starling.train.links.batch import LinkBatch, with_pairs
from starling.train.links.parts_scores import PartsScores, RowsOfParts
from starling.train.links.task import LinkTask
from starling.train.metrics import Score
from starling.train.results import Scores
from starling.train.team_evaluation import SCORING


@dataclass(frozen=True, eq=False)
class LinkLessons(Lessons):
    """Steps on the training edges of one part."""

    strategy: LinkStrategy
    filler: Filler

    @property
    def steps_per_epoch(self) -> int:
        """As many as the part's edges are dealt out over."""
        return self.strategy.steps_per_epoch

    def batch(self, epoch: int, step: int) -> LinkBatch:
        """A plan, filled, with its pairs."""
        plan = self.strategy.plan(epoch, step)
        return with_pairs(self.filler.fill(plan.batch), plan.pairs, plan.pairs.edges)


@dataclass(eq=False)
class LinkPartsWork(PartsWork):
    """A model weighs as much as its part has training edges; `source` has no others."""

    task: LinkTask
    training_edges: Sequence[int]
    held_out: PartsScores
    threads: int | None

    @property
    def sizes(self) -> Sequence[int]:
        """Training edges of every part."""
        return self.training_edges

    def _evaluate_in(self, folder: Path) -> LinkPartsEvaluation:
        return LinkPartsEvaluation(self.source, self.shelf, self.memory, folder, self.plan.device, self.task, self.held_out)

    def _made(self, part: PartSource) -> LinkLessons:
        plan, link, kinds = self.plan, self.task.settings, part.edge_tables.get("type")
        negatives = NegativeSampler(
            link.kind,
            link.count,
            part.owned,
            part.directed,
            known_pairs(part.incoming, part.position, self.threads),
            near=OwnNodes(part.position[: part.owned]),
            itself=self.task.against_itself,
        )
        task = DealTask(
            part.neighbour_source(),
            negatives,
            plan.layers,
            None if kinds is None else kinds.numpy(),
            plan.seed,
            link.target_share,
            self.threads,
            part.owned,
        )
        filler = Filler(part, seed=plan.seed, device=plan.device, reuse=plan.reuse)
        return LinkLessons(LinkStrategy(plan.strategy, plan.settings, task), filler)


class LinkPartsEvaluation:
    """Exact scores of held-out edges: rows of all nodes, layer by layer and part by part, then the edges of each part."""

    def __init__(
        self, source: PartsSource, shelf: Shelf, memory: int, folder: Path, device: str, task: LinkTask, held_out: PartsScores
    ) -> None:
        shelf.prepare(folder)
        self._source, self._memory, self._folder, self._width = source, memory, folder, task.outputs
        self._inference, self._held_out, self._evaluations = PartInference(source, shelf, memory, folder, device), held_out, 0

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split; the same numbers on every worker."""
        assert isinstance(model, LinkModel)
        assert isinstance(model.encoder, LayeredModel), "set-up has seen to it"
        self._evaluations += 1
        calls = Calls(self._evaluations, Channel.EVALUATE, SCORING)
        return self._held_out.of(self._rows(model.encoder, calls), model.decoder, calls)

    def _rows(self, encoder: LayeredModel, calls: Calls) -> RowsOfParts:
        """The rows of all nodes; each worker writes those of its own parts.

        Scoring ends with messages of everybody, so nobody writes the next rows while these are read.
        """
        parts, team = self._source.parts, self._source.team
        nodes, room = parts.manifest.nodes, self._memory // 4
        in_memory = team.size == 1 and 4 * nodes * self._width <= room
        table = RowTable(nodes, self._width, memory=room, path=None if in_memory else self._folder / "outputs.rows")
        for part, start, outputs in self._inference.outputs(encoder):
            table.write(parts.manifest.offsets[part.part] + start, outputs)
            del part, outputs  # before the next part is read
        team.all_lists(calls.next_tag(), np.empty(0, np.int64))  # everybody has written
        return RowsOfParts(table, parts.global_of_position)
