"""What is learnt: how many outputs a model has, and the loss of some targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from starling.core.errors import InputError, nearest
from starling.core.manifest import Labels, Record, read_json
from starling.engine.data.parts_source import PartsSource
from starling.engine.fill import FilledBatch
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource
from starling.train.metrics import Score, TaskKind, make_score
from starling.train.outputs import outputs_of

LabelKind = Literal["single", "multi", "real"]
Source: TypeAlias = GraphSource | WorkerSource | PartsSource
"""What a run reads: the whole graph, or one worker's share of it."""


class TaskSettings(Record):
    """What to learn, and how to score it."""

    name: str | None = None
    """By default what the labels are: classification, multilabel or regression."""
    metric: str | None = None
    class_weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """`balanced`: every class counts alike, however many training nodes it has."""


class Task(ABC):
    """A loss over targets."""

    kind: TaskKind
    label_kind: LabelKind

    def __init__(self, outputs: int, score: Score) -> None:
        self.outputs, self.score = outputs, score

    def given(self, model: nn.Module, batch: FilledBatch) -> Tensor:
        """What the model gives for the targets of a step, as `loss` takes it."""
        return outputs_of(model, batch)[batch.outputs]

    def loss(self, given: Tensor, wanted: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of targets, outputs [T, outputs] and labels [T] or [T, outputs]: its mean, or Σ weight · loss.

        A plan's weights add up to one on average over steps, so they are not made to do so in each.
        """
        each = self._each(given, wanted)
        return each.mean() if weight is None else (each * weight).sum()

    @abstractmethod
    def _each(self, given: Tensor, wanted: Tensor) -> Tensor:
        """The loss of each target [T]."""


class Classification(Task):
    """One class a node: cross-entropy, times the weight of the class."""

    kind: TaskKind = "classification"
    label_kind: LabelKind = "single"

    def __init__(self, outputs: int, score: Score, class_weight: Tensor | None = None) -> None:
        super().__init__(outputs, score)
        self.class_weight = class_weight

    def _each(self, given: Tensor, wanted: Tensor) -> Tensor:
        weight = None if self.class_weight is None else self.class_weight.to(given)
        return functional.cross_entropy(given, wanted, weight, reduction="none")


class Multilabel(Task):
    """Any number of classes a node: binary cross-entropy of each, averaged."""

    kind: TaskKind = "multilabel"
    label_kind: LabelKind = "multi"

    def _each(self, given: Tensor, wanted: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(given, wanted.to(given.dtype), reduction="none").mean(1)


class Regression(Task):
    """Real numbers: squared error, averaged over a node's numbers."""

    kind: TaskKind = "regression"
    label_kind: LabelKind = "real"

    def _each(self, given: Tensor, wanted: Tensor) -> Tensor:
        return (given - wanted.to(given.dtype).reshape(given.shape)).square().mean(1)


TASKS: dict[str, type[Task]] = {kind.kind: kind for kind in (Classification, Multilabel, Regression)}


def make_task(settings: TaskSettings, source: Source) -> Task:
    """The task the settings or the labels ask for; refuses labels that do not fit it or are missing where needed."""
    kind, labels = fitting_task(settings.name, source.labels, source.split_sizes["train"], source.path)
    assert source.y is not None, "labels are there"
    _check_labelled(source, source.y)
    outputs = labels.classes if labels.kind != "real" else int(np.prod(source.y.shape[1:], dtype=np.int64))
    if kind is Classification and outputs < 2:
        raise InputError(f"Expected at least two classes to tell apart, got {outputs} in {source.path}.")
    score = make_score(kind.kind, settings.metric, outputs)
    if kind is not Classification:
        if settings.class_weights != "none":
            raise InputError(f"Class weights are for classification, got the task {kind.kind}. Leave class_weights out.")
        return kind(outputs, score)
    return Classification(outputs, score, _class_weight(settings, source, outputs))


def fitting_task(name: str | None, labels: Labels | None, train: int, path: Path) -> tuple[type[Task], Labels]:
    """The task of a name, or the one the labels are for; refuses labels that do not fit, and a graph without training nodes."""
    if labels is None:
        raise InputError(f"{path} has no labels to learn. Import the graph with --labels.")
    kind = _kind(name, labels)
    if kind.label_kind != labels.kind:
        fitting = next(task.kind for task in TASKS.values() if task.label_kind == labels.kind)
        raise InputError(
            f"The task {kind.kind} needs labels of kind '{kind.label_kind}', got '{labels.kind}' in {path}. "
            f"Pass --task {fitting}, or other labels."
        )
    if train == 0:
        raise InputError(f"{path} has no training nodes. Import the graph with --split 60/20/20.")
    return kind, labels


def _kind(name: str | None, labels: Labels) -> type[Task]:
    if name is None:
        return next(task for task in TASKS.values() if task.label_kind == labels.kind)
    if name not in TASKS:
        raise InputError(f"There is no task '{name}'. {nearest(name, get_args(TaskKind))}")
    return TASKS[name]


def without_label(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of some rows of labels are none: NaN among real numbers, -1 among classes."""
    missing: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values < 0
    return missing if missing.ndim == 1 else np.asarray(missing.any(axis=1))


def comparable(kind: TaskKind, labels: Labels | None, y: NDArray[Any] | None, outputs: int) -> bool:
    """Whether labels of a graph, which may be another than was trained on, can be held against a model's outputs."""
    if labels is None or y is None or labels.kind != TASKS[kind].label_kind:
        return False
    if labels.kind == "single":
        return labels.classes <= outputs
    return int(np.prod(y.shape[1:], dtype=np.int64)) == outputs


def class_names(path: Path, kind: TaskKind) -> tuple[str, ...]:
    """Names of the classes of a graph or parts directory, in the order of their numbers; none where they are only numbers."""
    given = read_json(path).get("labels")
    if given is None or kind not in TASKS:
        return ()
    labels = Labels.model_validate(given)
    fitting = labels.kind == TASKS[kind].label_kind and len(labels.names) == labels.classes
    return labels.names if fitting else ()


def as_trained(labels: Labels, y: NDArray[Any], classes: Sequence[str]) -> NDArray[Any] | None:
    """Labels of a graph by the numbers that its classes had in training, told by their names; None where one was not there."""
    if not classes or not labels.names or tuple(labels.names) == tuple(classes):
        return y
    if not set(labels.names) <= set(classes) or (labels.kind == "multi" and len(labels.names) != len(classes)):
        return None
    if labels.kind == "multi":
        return y[:, [labels.names.index(name) for name in classes]]
    numbers: NDArray[np.int64] = np.array([*(list(classes).index(name) for name in labels.names), -1])[y]
    return numbers  # −1, no label, named the last of them and stays what it is


def _check_labelled(source: Source, y: NDArray[Any]) -> None:
    for split, rows in source.splits.items():
        bad = np.flatnonzero(without_label(y[rows]))
        if len(bad):
            node = source.name_of(int(rows[bad[0]]))
            raise InputError(
                f"Expected a label for every {split} node, got none at node {node}"
                f"{f' and {len(bad) - 1:,} others' if len(bad) > 1 else ''}. Take them out of the {split} split."
            )


def _class_weight(settings: TaskSettings, source: Source, classes: int) -> Tensor | None:
    """The weight of each class, scaled to a mean of one over the training nodes, so that any batch is fair to all."""
    asked = settings.class_weights
    if asked == "none":
        return None
    assert source.y is not None
    counts = source.total(np.bincount(source.y[source.splits["train"]], minlength=classes))
    if asked == "balanced":
        weight = 1 / np.maximum(counts, 1)
    else:
        weight = np.array(asked)
        if len(weight) != classes or not ((weight >= 0) & np.isfinite(weight)).all() or not (weight * counts).any():
            raise InputError(f"Expected a positive, finite class weight for each of {classes} classes, got {list(asked)}.")
    return torch.from_numpy(weight * (counts.sum() / (weight * counts).sum())).float()
