"""Predicting from a run directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.launch.trainer import Trainer
from starling.train.prediction import PredictRequest, predict
from tests.support.trainable import Kind, trainable_graph


def train(place: Path, kind: Kind = "single") -> Path:
    trainable_graph(place / "g", kind=kind)
    tables = {"data": {"path": place / "g"}, "model": {"hidden": 8}, "run": {"epochs": 6, "evaluate_every": 3}}
    return Trainer(tables, run=place / "run").fit().run


@pytest.mark.parametrize("kind", ["single", "multi", "real"])
def test_scores_are_those_of_training(kind: Kind, tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g", kind=kind)
    tables = {"data": {"path": tmp_path / "g"}, "model": {"hidden": 8}, "run": {"epochs": 6, "evaluate_every": 3}}
    trained = Trainer(tables, run=tmp_path / "run").fit()
    found = predict(PredictRequest(tmp_path / "run", tmp_path / "p.npy"))
    assert found.scores == trained.scores
    assert found.metric == trained.metric
    written = np.load(tmp_path / "p.npy")
    np.testing.assert_array_equal(written["id"], np.arange(60))
    tight = predict(PredictRequest(tmp_path / "run", tmp_path / "q.npy", memory=256))
    assert tight.scores.test == pytest.approx(found.scores.test, rel=1e-6)
    if kind == "single":
        y, test = np.load(tmp_path / "g" / "y.npy"), np.load(tmp_path / "g" / "test.npy")
        assert (written["prediction"] == y)[test].mean() == pytest.approx(found.scores.test, rel=1e-6)


def test_another_graph(tmp_path: Path) -> None:
    run = train(tmp_path)
    trainable_graph(tmp_path / "unlabelled", nodes=20, without=("y", "train", "val", "test"))
    found = predict(PredictRequest(run, tmp_path / "p.csv", graph=tmp_path / "unlabelled"))
    assert found.nodes == 20
    assert found.scores.test is None
    trainable_graph(tmp_path / "wide", features=9)
    with pytest.raises(InputError, match="Expected 8 features a node as the model was trained with, got 9"):
        predict(PredictRequest(run, tmp_path / "q.csv", graph=tmp_path / "wide"))


def test_nodes_without_a_label_are_not_scored(tmp_path: Path) -> None:
    """A graph to predict may lack labels of some of its test nodes; those it has say how well it went."""
    run = train(tmp_path)
    y, test = np.load(tmp_path / "g" / "y.npy"), np.load(tmp_path / "g" / "test.npy")
    known = test & (np.arange(60) % 20 < 15)
    trainable_graph(tmp_path / "some", y=np.where(known, y, -1))
    found = predict(PredictRequest(run, tmp_path / "p.npy", graph=tmp_path / "some"))
    assert 0 < known.sum() < test.sum()
    assert found.scores.test == pytest.approx((np.load(tmp_path / "p.npy")["prediction"] == y)[known].mean(), rel=1e-6)
    assert found.scores.train is None


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_labels_of_other_classes_are_not_scored(kind: Kind, tmp_path: Path) -> None:
    run = train(tmp_path, kind)
    trainable_graph(tmp_path / "more", kind=kind, classes=5)
    found = predict(PredictRequest(run, tmp_path / "p.npy", graph=tmp_path / "more"))
    assert (found.nodes, found.scores.train, found.scores.test) == (60, None, None)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a run directory"):
        predict(PredictRequest(tmp_path, tmp_path / "p.csv"))
    run = train(tmp_path)
    (run / "model.pt").write_bytes(b"no weights")
    with pytest.raises(InputError, match="is damaged"):
        predict(PredictRequest(run, tmp_path / "p.csv"))
    (run / "model.pt").unlink()
    with pytest.raises(InputError, match="has no weights"):
        predict(PredictRequest(run, tmp_path / "p.csv"))
    assert not (tmp_path / "p.csv").exists()
