"""How well a model does, by torchmetrics, over blocks of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.team import Team
from starling.core.errors import InputError, StarlingError, nearest
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.row_table import RowTable

if TYPE_CHECKING:
    from torchmetrics import Metric

TaskKind = Literal["classification", "multilabel", "regression", "link"]

_BLOCK = 1 << 16


@dataclass(frozen=True)
class MetricEntry:
    """A line of the table: which way is better, and the torchmetrics object for a number of outputs."""

    higher_is_better: bool
    make: Callable[[int], Metric]


def _classes(name: str, **settings: Any) -> Callable[[int], Metric]:
    def make(classes: int) -> Metric:
        from torchmetrics import classification

        made: Metric = getattr(classification, f"Multiclass{name}")(num_classes=max(classes, 2), **settings)
        return made

    return make


def _labels(name: str, **settings: Any) -> Callable[[int], Metric]:
    def make(labels: int) -> Metric:
        from torchmetrics import classification

        made: Metric = getattr(classification, f"Multilabel{name}")(num_labels=labels, **settings)
        return made

    return make


def _error(name: str) -> Callable[[int], Metric]:
    def make(outputs: int) -> Metric:
        import torchmetrics

        made: Metric = getattr(torchmetrics, name)()
        return made

    return make


METRICS: dict[TaskKind, dict[str, MetricEntry]] = {
    "classification": {
        "accuracy": MetricEntry(True, _classes("Accuracy", average="micro")),
        "micro-f1": MetricEntry(True, _classes("F1Score", average="micro")),
        "macro-f1": MetricEntry(True, _classes("F1Score", average="macro")),
        "auc": MetricEntry(True, _classes("AUROC")),
    },
    "multilabel": {
        "micro-f1": MetricEntry(True, _labels("F1Score", average="micro")),
        "macro-f1": MetricEntry(True, _labels("F1Score", average="macro")),
        "accuracy": MetricEntry(True, _labels("Accuracy", average="micro")),
        "auc": MetricEntry(True, _labels("AUROC")),
    },
    "regression": {
        "mae": MetricEntry(False, _error("MeanAbsoluteError")),
        "mse": MetricEntry(False, _error("MeanSquaredError")),
    },
}
"""The first of each task is its default."""


@dataclass(frozen=True)
class Score:
    """A metric by name, ready to be taken of any rows."""

    task: TaskKind
    name: str
    outputs: int

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is a better one."""
        return METRICS[self.task][self.name].higher_is_better

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value beats the best so far."""
        return than is None or (value > than if self.higher_is_better else value < than)

    def of(self, outputs: RowTable, y: NDArray[Any], rows: NDArray[Any]) -> float | None:
        """The metric over these nodes; None where there are none."""
        if len(rows) == 0:
            return None
        metric = self.new_metric()
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            metric.update(*_pair(self.task, torch.from_numpy(outputs.rows(block)), torch.from_numpy(y[block])))
        return _value(metric)

    def over_team(self, team: Team, calls: Calls, given: Tensor, wanted: Tensor) -> float | None:
        """The metric over the nodes of all workers, `given` and `wanted` being this one's; the same number on each."""
        tally = Tally(self)
        tally.add(given, wanted)
        return tally.over_team(team, calls)

    def new_metric(self) -> Metric:
        """The metric, nothing counted yet."""
        return METRICS[self.task][self.name].make(self.outputs)


class Tally:
    """A metric under way: a worker adds its nodes block by block, and at the end everybody's are joined."""

    def __init__(self, score: Score) -> None:
        self._score, self._metric, self._count = score, score.new_metric(), 0
        self._needs_all = any(isinstance(state, list) for state in self._metric.metric_state.values())
        self._kept: list[tuple[Tensor, Tensor]] = []

    def add(self, given: Tensor, wanted: Tensor) -> None:
        """Count some nodes: outputs and labels."""
        self._count += len(given)
        if self._needs_all:
            self._kept.append((given, wanted))
        elif len(given):
            self._metric.update(*_pair(self._score.task, given, wanted))

    def over_team(self, team: Team, calls: Calls) -> float | None:
        """The metric over the nodes of all workers, the same number on each; None where there are none."""
        counts = [int(count[0]) for count in team.all_lists(calls.next_tag(), np.array([self._count]))]
        if sum(counts) == 0:
            return None
        if self._needs_all:
            mine = (torch.cat(blocks) for blocks in zip(*self._kept, strict=True))
            given, wanted = (everybodys_rows(team, calls.next_tag(), values, counts) for values in mine)
            self._metric.update(*_pair(self._score.task, given, wanted))
            return _value(self._metric)
        for name, state in self._metric.metric_state.items():
            assert isinstance(state, Tensor)
            setattr(self._metric, name, team.all_sum(calls.next_tag(), state))
        return _value(self._metric)


def _value(metric: Metric) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class without nodes in a split is no reason to alarm anybody
        return float(f"{float(metric.compute()):.7g}")  # it is a float32: more digits would be noise


def everybodys_rows(team: Team, tag: int, values: Tensor, counts: list[int]) -> Tensor:
    """Rows of all workers, in the order of ranks."""
    values = values.contiguous()
    coming = team.receive_each(tag, {p: (counts[p], *values.shape[1:]) for p in team.peers if counts[p]}, values.dtype)
    for peer in team.peers:
        if len(values):
            team.links.send_copy(peer, tag, values)
            team.ledger.sent(peer, values.nbytes)
    parts = {team.rank: values} | {peer: rows.clone() for peer, rows in coming}
    return torch.cat([parts[worker] for worker in sorted(parts)])


def _pair(task: TaskKind, given: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and labels as torchmetrics takes them."""
    check_finite(given)
    if task == "classification":
        return given.softmax(1), wanted.long()
    if task == "multilabel":
        return given.sigmoid(), wanted.long()
    return given.reshape(-1), wanted.float().reshape(-1)


def check_finite(given: Tensor) -> None:
    """Stop at outputs that are no numbers: a metric of them would say something all the same."""
    if not torch.isfinite(given).all():
        raise StarlingError(
            "The model's outputs have become inf or nan, so there is nothing to score. Lower --lr, pass --clip 1, or look for "
            "extreme features."
        )


def make_score(task: TaskKind, name: str | None, outputs: int) -> Score:
    """The metric of a name, or the task's own."""
    known = METRICS[task]
    if name is not None and name not in known:
        raise InputError(f"There is no metric '{name}' for {task}. {nearest(name, known)}")
    return Score(task, name or next(iter(known)), outputs)
