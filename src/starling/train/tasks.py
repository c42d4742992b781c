"""What is learnt: how many outputs a model has, and the loss of some targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from starling.core.errors import InputError, nearest
from starling.core.manifest import Labels, Record
from starling.engine.source import GraphSource
from starling.train.metrics import Score, TaskKind, make_score

LabelKind = Literal["single", "multi", "real"]


class TaskSettings(Record):
    """What to learn, and how to score it."""

    name: str | None = None
    """By default what the labels are: classification, multilabel or regression."""
    metric: str | None = None
    class_weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """`balanced`: training nodes / (classes · training nodes of the class)."""


class Task(ABC):
    """A loss over targets. `weight` says how much each target counts; the loss is Σ weight · loss / Σ weight."""

    kind: TaskKind
    label_kind: LabelKind

    def __init__(self, outputs: int, score: Score) -> None:
        self.outputs, self.score = outputs, score

    def loss(self, given: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
        """The mean loss of targets: outputs [T, outputs], labels [T] or [T, outputs]."""
        each, own = self._each(given, wanted)
        weight = own if weight is None else weight if own is None else weight * own
        return each.mean() if weight is None else (each * weight).sum() / weight.sum().clamp(min=1e-12)

    @abstractmethod
    def _each(self, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
        """The loss of each target [T], and the task's own weight of each."""


class Classification(Task):
    """One class a node: cross-entropy, with class weights."""

    kind: TaskKind = "classification"
    label_kind: LabelKind = "single"

    def __init__(self, outputs: int, score: Score, class_weight: Tensor | None = None) -> None:
        super().__init__(outputs, score)
        self.class_weight = class_weight

    def _each(self, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
        each = functional.cross_entropy(given, wanted, reduction="none")
        return each, None if self.class_weight is None else self.class_weight.to(given.device)[wanted]


class Multilabel(Task):
    """Any number of classes a node: binary cross-entropy of each, averaged."""

    kind: TaskKind = "multilabel"
    label_kind: LabelKind = "multi"

    def _each(self, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
        return functional.binary_cross_entropy_with_logits(given, wanted.to(given.dtype), reduction="none").mean(1), None


class Regression(Task):
    """Real numbers: squared error, averaged over a node's numbers."""

    kind: TaskKind = "regression"
    label_kind: LabelKind = "real"

    def _each(self, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
        return (given - wanted.to(given.dtype).reshape(given.shape)).square().mean(1), None


TASKS: dict[str, type[Task]] = {kind.kind: kind for kind in (Classification, Multilabel, Regression)}


def make_task(settings: TaskSettings, source: GraphSource) -> Task:
    """The task the settings or the labels ask for; refuses labels that do not fit it or are missing where needed."""
    labels = source.labels
    if labels is None or source.y is None:
        raise InputError(f"{source.path} has no labels to learn. Import the graph with --labels.")
    kind = _kind(settings.name, labels)
    if kind.label_kind != labels.kind:
        fitting = next(task.kind for task in TASKS.values() if task.label_kind == labels.kind)
        raise InputError(
            f"The task {kind.kind} needs labels of kind '{kind.label_kind}', got '{labels.kind}' in {source.path}. "
            f"Pass --task {fitting}, or other labels."
        )
    train = source.splits.get("train")
    if train is None or len(train) == 0:
        raise InputError(f"{source.path} has no training nodes. Import the graph with --split 60/20/20.")
    _check_labelled(source, source.y)
    outputs = labels.classes if labels.kind != "real" else int(np.prod(source.y.shape[1:], dtype=np.int64))
    score = make_score(kind.kind, settings.metric, outputs)
    if kind is not Classification:
        if settings.class_weights != "none":
            raise InputError(f"Class weights are for classification, got the task {kind.kind}. Leave class_weights out.")
        return kind(outputs, score)
    return Classification(outputs, score, _class_weight(settings, source.y[train], outputs))


def _kind(name: str | None, labels: Labels) -> type[Task]:
    if name is None:
        return next(task for task in TASKS.values() if task.label_kind == labels.kind)
    if name not in TASKS:
        raise InputError(f"There is no task '{name}'. {nearest(name, TASKS)}")
    return TASKS[name]


def _check_labelled(source: GraphSource, y: NDArray[Any]) -> None:
    for split, rows in source.splits.items():
        values = y[rows]
        missing = np.isnan(values.reshape(len(values), -1)).any(axis=1) if values.dtype.kind == "f" else values < 0
        bad = np.flatnonzero(missing if missing.ndim == 1 else missing.any(axis=1))
        if len(bad):
            node = source.ids.user_ids(int(rows[bad[0]]), int(rows[bad[0]]) + 1)[0]
            raise InputError(
                f"Expected a label for every {split} node, got none at node {node}"
                f"{f' and {len(bad) - 1:,} others' if len(bad) > 1 else ''}. Take them out of the {split} split."
            )


def _class_weight(settings: TaskSettings, y: NDArray[Any], classes: int) -> Tensor | None:
    asked = settings.class_weights
    if asked == "none":
        return None
    if asked == "balanced":
        counts = np.bincount(y, minlength=classes)
        return torch.from_numpy(len(y) / (classes * np.maximum(counts, 1))).float()
    if len(asked) != classes or min(asked) < 0:
        raise InputError(f"Expected a class weight of at least 0 for each of {classes} classes, got {len(asked)} numbers.")
    return torch.tensor(asked, dtype=torch.float32)
