"""What a worker computes where models are averaged: each of its parts by itself, and an exact evaluation of all of them."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import PartsSource, column, open_parts_source
from starling.engine.data.shelf import Shelf
from starling.engine.fill import FilledBatch, Filler
from starling.engine.hybrid.exchange import Calls
from starling.engine.source import SPLITS, SourceRequest
from starling.infer.part_by_part import PartInference
from starling.nn.model import LayeredModel
from starling.plan.cluster import Cluster
from starling.plan.find_clusters import STORED, find_clusters, refuse_no_clusters, stored_clusters
from starling.plan.mini import Mini
from starling.plan.registry import make_strategy
from starling.plan.strategy import Strategy
from starling.store.shard_layout import CLUSTER_TABLE
from starling.train.metrics import Score, Tally
from starling.train.results import Scores

_SCORING = 1 << 12
"""Messages of an evaluation from this number on belong to its scores."""


@dataclass(frozen=True)
class PartsPlan:
    """How each part is trained on: the strategy and its settings, the model's layers, and the seed of all choices."""

    strategy: str
    settings: Strategy.Settings
    layers: int
    seed: int
    device: str
    reuse: bool
    cluster_memory: int

    @property
    def batch_size(self) -> int | None:
        """Targets of a mini-batch, where one was asked for."""
        return self.settings.batch_size if isinstance(self.settings, Mini.Settings) else None


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
        calls = Calls(self._evaluations, Channel.EVALUATE, _SCORING)
        return Scores(*(tallies[name].over_team(self._source.team, calls) for name in SPLITS))


def evaluate_part_by_part(path: Path, team: Team, request: SourceRequest, memory: int, device: str) -> PartsEvaluation:
    """An evaluation within `memory` bytes, with a scratch folder of its own that goes when it is closed."""
    source = open_parts_source(path, team, request)
    folder = Path(tempfile.mkdtemp(prefix="starling-evaluation-")) if team.rank == 0 else None
    told = team.all_lists(source.calls.forward(), np.frombuffer(str(folder or "").encode(), np.uint8))[0]
    place = Path(told.astype(np.uint8).tobytes().decode())
    found = PartsEvaluation(source, Shelf(source, memory // 2), memory // 2, place, device)
    if folder is not None:
        found.own(folder)
    return found


@dataclass(frozen=True)
class Share:
    """One of an epoch's `rounds`, by number: the steps from one averaging to the next."""

    number: int
    rounds: int

    def of(self, steps: int) -> range:
        """Which of a part's steps these are; a part with fewer steps than rounds has none in some."""
        return range(self.number * steps // self.rounds, (self.number + 1) * steps // self.rounds)


@dataclass(frozen=True, eq=False)
class Lessons:
    """Steps on one part: its own nodes, their neighbours in the part and its halo, nothing else."""

    strategy: Strategy
    filler: Filler

    def steps(self, share: Share) -> range:
        """The steps of a share of an epoch."""
        return share.of(self.strategy.steps_per_epoch)

    def batches(self, epochs: range, share: Share) -> Iterator[FilledBatch]:
        """The filled batches of a share of each of some epochs."""
        for epoch in epochs:
            for step in self.steps(share):
                yield self.filler.fill(self.strategy.plan(epoch, step))


@dataclass(eq=False)
class PartsWork:
    """A worker's parts, in turn."""

    source: PartsSource
    shelf: Shelf
    plan: PartsPlan
    memory: int
    """Of evaluation, beside the parts themselves."""
    _lessons: dict[int, Lessons] = field(default_factory=dict, init=False)
    _clusters: dict[int, NDArray[Any]] = field(default_factory=dict, init=False)
    _evaluation: PartsEvaluation | None = field(default=None, init=False)

    @property
    def trained(self) -> Sequence[int]:
        """Own parts with training nodes; a part without has a model of weight zero, which need not be trained."""
        return [part for part in self.source.mine if self.source.train_sizes[part]]

    @property
    def steps_per_epoch(self) -> int:
        """A round goes from part to part."""
        return max(1, len(self.trained))

    def begin(self, folder: Path) -> None:
        """Make ready, with a folder for scratch files that all workers see."""
        _check_shared(folder, self.source)
        self._evaluation = PartsEvaluation(self.source, self.shelf, self.memory, folder, self.plan.device)

    def lessons(self, part: PartSource) -> Lessons:
        """How to train on one part: made when it has its turn, and kept where parts stay in memory."""
        if part.part in self._lessons:
            return self._lessons[part.part]
        plan = self.plan
        found = Lessons(self._strategy(part), Filler(part, seed=plan.seed, device=plan.device, reuse=plan.reuse))
        if not self.shelf.comes_and_goes:
            self._lessons[part.part] = found
        return found

    def _strategy(self, part: PartSource) -> Strategy:
        """The strategy on one part; a batch is at most as large as the part has training nodes."""
        plan, train, settings = self.plan, part.splits["train"], self.plan.settings
        if isinstance(settings, Mini.Settings) and settings.batch_size is not None:
            settings = settings.model_copy(update={"batch_size": min(settings.batch_size, len(train))})
        clusters = self._clusters_of(part, settings) if isinstance(settings, Cluster.Settings) else None
        return make_strategy(plan.strategy, settings, part.neighbour_source(), train, plan.layers, plan.seed, clusters=clusters)

    def _clusters_of(self, part: PartSource, settings: Cluster.Settings) -> NDArray[Any]:
        """Clusters of a part's own nodes, found the first time it has its turn; halo nodes are in none."""
        if part.part not in self._clusters:
            if settings.method == STORED:
                found = self._stored_clusters(part, settings)
            else:
                found = find_clusters(part.edge_stream(), settings, seed=self.plan.seed, memory=self.plan.cluster_memory)
                found[part.owned :] = -1
            self._clusters[part.part] = found
        return self._clusters[part.part]

    def _stored_clusters(self, part: PartSource, settings: Cluster.Settings) -> NDArray[Any]:
        parts = self.source.parts
        refuse_no_clusters(parts.path, parts.manifest.node_tables, settings)
        found = np.full(part.nodes, -1, np.int32)
        found[: part.owned] = stored_clusters(column(parts.shard(part.part), CLUSTER_TABLE), parts.manifest.nodes)
        return found

    def scores(self, model: nn.Module, score: Score) -> Scores:
        """The metric on each split, from exact outputs; the same numbers on every worker."""
        assert self._evaluation is not None, "it has begun"
        return self._evaluation.scores(model, score)


def _check_shared(folder: Path, source: PartsSource) -> None:
    """Refuse a folder that is not one and the same for all workers; everybody asks.

    Rows of a layer pass from worker to worker through its files. A folder of the same name on another machine would give zeros.
    """
    mark = folder / "mark"
    if source.team.rank == 0:
        mark.write_bytes(uuid.uuid4().bytes)
    mine = mark.read_bytes() if source.team.rank == 0 else b""
    told = source.team.all_lists(source.calls.forward(), np.frombuffer(mine, np.uint8))[0]
    if not mark.is_file() or mark.read_bytes() != told.astype(np.uint8).tobytes():
        raise InputError(
            f"Workers that average models share scratch files in the run directory, and worker {source.team.rank} does not see "
            f"{folder} of worker 0. Pass a --run directory that all machines share, or --sync gradient."
        )
