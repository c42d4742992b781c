"""Metrics by hand, over blocks, and which way is better."""

from __future__ import annotations

import numpy as np
import pytest

from starling.engine.row_table import RowTable
from starling.train import metrics
from starling.train.metrics import METRICS, TaskKind, make_score


def table(rows: list[list[float]]) -> RowTable:
    made = RowTable(len(rows), len(rows[0]), memory=1 << 20)
    made.write(0, np.array(rows, np.float32))
    return made


GIVEN: dict[TaskKind, tuple[list[list[float]], object]] = {
    # predicted classes 0, 1, 1, 0; all but the last are right
    "classification": ([[2, 0], [0, 1], [-1, 3], [1, 0]], np.array([0, 1, 1, 1])),
    # labels predicted [1, 0], [1, 1], [0, 0], [0, 1]
    "multilabel": ([[1, -1], [2, 1], [-1, -2], [-1, 1]], np.array([[1, 0], [1, 0], [0, 1], [0, 1]])),
    "regression": ([[1], [2], [3], [4]], np.array([1.0, 4.0, 3.0, 1.0])),
}
EXPECTED = {
    ("classification", "accuracy"): 0.75,
    ("classification", "micro-f1"): 0.75,
    ("classification", "macro-f1"): (2 / 3 + 4 / 5) / 2,
    ("classification", "auc"): 1.0,
    ("multilabel", "accuracy"): 0.75,
    ("multilabel", "micro-f1"): 0.75,  # 3 found, 1 too many, 1 missed
    ("multilabel", "macro-f1"): (1 + 0.5) / 2,
    ("multilabel", "auc"): (1 + 1.5 / 4) / 2,  # of the second label, one pair of four is right and one is a tie
    ("regression", "mae"): 5 / 4,
    ("regression", "mse"): 13 / 4,
}


@pytest.mark.parametrize("block", [1, 3, 1 << 16])
@pytest.mark.parametrize(("task", "name"), EXPECTED)
def test_by_hand(task: TaskKind, name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_BLOCK", block)
    rows, y = GIVEN[task]
    score = make_score(task, name, len(rows[0]))
    assert score.of(table(rows), y, np.arange(4)) == pytest.approx(EXPECTED[task, name], rel=1e-6)  # type: ignore[arg-type]
    assert score.of(table(rows), y, np.arange(0)) is None  # type: ignore[arg-type]


def test_every_metric_has_a_value_by_hand() -> None:
    assert set(EXPECTED) == {(task, name) for task, known in METRICS.items() for name in known}


def test_which_way_is_better() -> None:
    accuracy, error = make_score("classification", None, 2), make_score("regression", None, 1)
    assert accuracy.better(0.6, 0.5)
    assert not accuracy.better(0.5, 0.5)
    assert error.better(0.4, 0.5)
    assert error.better(0.4, None)
