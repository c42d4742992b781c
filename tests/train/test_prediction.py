"""Predicting from a run directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.core.manifest import Labels
from starling.launch.trainer import Trainer
from starling.store.graph import create_graph
from starling.stream.bridges.typed import EdgeSet, NodeSet
from starling.stream.bridges.typed import typed_graph as typed
from starling.stream.readers.open import open_inputs
from starling.train.prediction import PredictRequest, predict
from starling.train.tasks import as_trained
from tests.support.trainable import Kind, trainable_graph

RELATIONS = ("reads", "writes")


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


def test_classes_go_by_their_names(tmp_path: Path) -> None:
    """A graph that has only some of the classes has other numbers for them; one with a class unknown to the run is not scored."""
    kinds = np.random.default_rng(2).integers(0, 3, 40)
    (tmp_path / "e.csv").write_text("a,b\n" + "".join(f"{i},{(i * 7 + 3) % 40}\n" for i in range(40)))

    def made(name: str, names: list[str]) -> Path:
        splits = [("train", "test")[i % 2] if names[kinds[i]] else "" for i in range(40)]
        rows = [f"{i},{int(k == 0)},{int(k == 1)},{names[k]},{splits[i]}" for i, k in enumerate(kinds)]
        (tmp_path / f"{name}.csv").write_text("id,x0,x1,label,split\n" + "\n".join(rows) + "\n")
        nodes = str(tmp_path / f"{name}.csv")
        create_graph(open_inputs([str(tmp_path / "e.csv")], nodes=nodes, memory=1 << 28), tmp_path / name)
        return tmp_path / name

    first = made("first", ["a", "b", "c"])
    tables = {"data": {"path": first}, "model": {"name": "mlp", "hidden": 8}, "run": {"epochs": 60}, "optimizer": {"lr": 0.05}}
    assert Trainer(tables, run=tmp_path / "run").fit().scores.test == 1
    found = predict(PredictRequest(tmp_path / "run", tmp_path / "p.csv", graph=made("fewer", ["", "b", "c"])))
    assert found.scores.test == 1
    written = dict(line.replace('"', "").split(",") for line in (tmp_path / "p.csv").read_text().split()[1:])
    assert [written[str(i)] for i in range(40)] == ["abc"[kind] for kind in kinds]
    unknown = made("unknown", ["a", "b", "d"])
    assert predict(PredictRequest(tmp_path / "run", tmp_path / "q.csv", graph=unknown)).scores.test is None


def test_labels_as_they_were_numbered_in_training() -> None:
    y = np.array([0, 1, -1])
    assert as_trained(Labels(kind="single", classes=2, labelled=2, names=("c", "a")), y, ("a", "b", "c")).tolist() == [2, 0, -1]
    assert as_trained(Labels(kind="single", classes=2, labelled=2), y, ("a", "b")) is y
    both = Labels(kind="multi", classes=2, labelled=2, names=("b", "a"))
    assert as_trained(both, np.array([[1, 0], [1, 1]]), ("a", "b")).tolist() == [[0, 1], [1, 1]]
    assert as_trained(both, np.array([[1, 0]]), ("a", "b", "c")) is None


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


def typed_graph(
    path: Path, nodes: tuple[str, ...] = ("author", "paper"), author: int = 3, relations: tuple[str, ...] = RELATIONS
) -> Path:
    """Authors and papers with features in two widths, in this order; two edge types likewise."""
    draw = np.random.default_rng(1)
    split = np.arange(20) % 10
    tables = {"y": split % 3, "train": split < 6, "val": split == 6, "test": split > 6}
    widths = {"author": author, "paper": 5}
    sets = {name: {"x": draw.normal(size=(20, width)).astype(np.float32)} for name, width in widths.items()}
    sets["paper"] |= tables
    ends = {name: draw.integers(0, 20, (2, 30)) for name in RELATIONS}
    edges = [EdgeSet(("author", name, "paper"), *ends.get(name, ends["reads"]), {}) for name in relations]
    create_graph(typed([NodeSet(name, 20, sets[name]) for name in nodes], edges, {}), path)
    return path


def test_types_of_another_graph(tmp_path: Path) -> None:
    """Weights go by the number of a type: the same types in another order, or others as many, are another model's."""
    graph = typed_graph(tmp_path / "g")
    tables = {"data": {"path": graph}, "model": {"name": "rgcn", "hidden": 8}, "run": {"epochs": 2}}
    run = Trainer(tables, run=tmp_path / "run").fit().run
    same = predict(PredictRequest(run, tmp_path / "p.npy", graph=typed_graph(tmp_path / "same")))
    assert same.scores == predict(PredictRequest(run, tmp_path / "q.npy")).scores
    refused = {
        "node types .* number 0 is 'author', got one that is 'paper'": {"nodes": ("paper", "author")},
        "edge types .* number 0 is 'author__reads__paper', got one that is 'author__writes__paper'": {
            "relations": RELATIONS[::-1]
        },
        "edge types .* number 1 is 'author__writes__paper', got one that is missing": {"relations": RELATIONS[:1]},
        "edge types .* number 2 is missing, got one that is 'author__likes__paper'": {"relations": (*RELATIONS, "likes")},
        "Expected 3 features for nodes of type 'author' as the model was trained with, got 2": {"author": 2},
    }
    for number, (sentence, changed) in enumerate(refused.items()):
        with pytest.raises(InputError, match=sentence):
            predict(PredictRequest(run, tmp_path / "r.npy", graph=typed_graph(tmp_path / f"other-{number}", **changed)))
    plain = Trainer({**tables, "model": {"hidden": 8, "name": "sage"}}, run=tmp_path / "plain").fit().run
    other = typed_graph(tmp_path / "fewer", relations=RELATIONS[:1])
    assert predict(PredictRequest(plain, tmp_path / "s.npy", graph=other)).nodes == 40, "has no weights by relation"


def test_edge_types_that_are_numbers_and_attributes_of_another_graph(tmp_path: Path) -> None:
    kinds, attr = np.arange(300) % 3, np.ones((300, 2), np.float32)
    for name, tables in {"g": {"type": kinds, "attr": attr}, "o": {"type": kinds % 2, "attr": attr[:, :1]}}.items():
        trainable_graph(tmp_path / name, edge_tables=tables)
    for model, sentence in {
        "rgcn": "Expected 3 edge types as .*, got 2",
        "gate": "Expected 2 attributes an edge as .*, got 1",
    }.items():
        tables = {"data": {"path": tmp_path / "g"}, "model": {"name": model, "hidden": 8}, "run": {"epochs": 1}}
        run = Trainer(tables, run=tmp_path / model).fit().run
        with pytest.raises(InputError, match=sentence):
            predict(PredictRequest(run, tmp_path / "p.npy", graph=tmp_path / "o"))
