"""Losses worked out by hand, weights of classes, labels that do not fit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from starling.core.errors import InputError
from starling.engine.source import GraphSource, SourceRequest, open_source
from starling.train.tasks import Classification, Multilabel, Regression, Task, TaskSettings, make_task
from tests.support.trainable import Kind, trainable_graph


def source_of(path: Path, **changes: object) -> GraphSource:
    trainable_graph(path, **changes)  # type: ignore[arg-type]
    return open_source(path, SourceRequest())


def test_losses_by_hand(tmp_path: Path) -> None:
    score = make_task(TaskSettings(), source_of(tmp_path / "g")).score
    even = torch.zeros(2, 2)
    assert float(Classification(2, score).loss(even, torch.tensor([0, 1]))) == pytest.approx(math.log(2))
    weighted = Classification(2, score, torch.tensor([0.5, 1.5]))
    assert float(weighted.loss(even, torch.tensor([1, 1]))) == pytest.approx(1.5 * math.log(2))
    assert float(Multilabel(2, score).loss(even, torch.tensor([[0, 1], [1, 1]]))) == pytest.approx(math.log(2))
    assert float(Regression(1, score).loss(torch.tensor([[1.0], [2.0]]), torch.tensor([4.0, 2.0]))) == pytest.approx(4.5)
    plan_weight = torch.tensor([0.25, 0.5])
    assert float(Regression(1, score).loss(torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0]), plan_weight)) == 3.0


@pytest.mark.parametrize(
    ("kind", "task", "metric", "outputs"),
    [
        ("single", Classification, "accuracy", 3),
        ("multi", Multilabel, "micro-f1", 3),
        ("real", Regression, "mae", 1),
    ],
)
def test_the_labels_say_the_task(kind: Kind, task: type[Task], metric: str, outputs: int, tmp_path: Path) -> None:
    made = make_task(TaskSettings(), source_of(tmp_path / "g", kind=kind))
    assert (type(made), made.score.name, made.outputs) == (task, metric, outputs)


def test_real_labels_without_validation_nodes(tmp_path: Path) -> None:
    """As a worker has them whose part holds no node of a split."""
    made = make_task(TaskSettings(), source_of(tmp_path / "g", kind="real", val=np.zeros(60, bool)))
    assert made.outputs == 1


def test_balanced_weights_have_a_mean_of_one(tmp_path: Path) -> None:
    source = source_of(tmp_path / "g")
    task = make_task(TaskSettings(class_weights="balanced"), source)
    assert isinstance(task, Classification)
    assert task.class_weight is not None
    assert source.y is not None
    of_train = task.class_weight[torch.from_numpy(source.y[source.splits["train"]])]
    assert float(of_train.mean()) == pytest.approx(1)
    totals = torch.bincount(torch.from_numpy(source.y[source.splits["train"]])) * task.class_weight
    assert totals.tolist() == pytest.approx([12.0] * 3)  # 36 training nodes, three classes
    given = torch.randn(36, 3)
    wanted = torch.from_numpy(source.y[source.splits["train"]])
    expected = torch.nn.functional.cross_entropy(given, wanted, task.class_weight)
    assert float(task.loss(given, wanted)) == pytest.approx(float(expected))


Y = np.arange(60) % 3


@pytest.mark.parametrize(
    ("settings", "changes", "sentence"),
    [
        ({"name": "regression"}, {}, "needs labels of kind 'real', got 'single'.*--task classification"),
        ({"name": "clasification"}, {}, "no task 'clasification'. Did you mean 'classification'"),
        ({"name": "lnik"}, {}, "no task 'lnik'. Did you mean 'link'"),
        ({"metric": "mae"}, {}, "no metric 'mae' for classification"),
        ({}, {"without": ("y",)}, "no labels"),
        ({}, {"without": ("train",)}, "no training nodes"),
        ({}, {"train": np.zeros(60, bool)}, "no training nodes"),
        ({}, {"y": np.where(np.arange(60) == 10, -1, Y)}, "label for every train node, got none at node 10."),
        ({"class_weights": (1.0, 2.0)}, {}, "each of 3 classes"),
        ({"class_weights": (1.0, 2.0, float("inf"))}, {}, "a positive, finite class weight for each of 3 classes"),
        ({"class_weights": "balanced"}, {"kind": "real"}, "Class weights are for classification"),
        ({}, {"classes": 1}, "at least two classes"),
    ],
)
def test_refused(settings: dict[str, object], changes: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        make_task(TaskSettings(**settings), source_of(tmp_path / "g", **changes))  # type: ignore[arg-type]
