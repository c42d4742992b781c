"""``starling train --task link`` and ``infer`` from the command line: results, files, and one sentence for wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from starling.cli.main import run
from tests.train.links.link_graphs import link_graph

SHORT = ["--task", "link", "--epochs", "2", "--hidden", "8", "--strategy", "mini", "--batch-size", "100", "--json"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A graph with relations and a run on it."""
    folder = tmp_path_factory.mktemp("typed")
    kinds = np.random.default_rng(3).integers(0, 3, 150).astype(np.uint8)
    graph = link_graph(folder / "g", directed=True, edge_tables={"type": kinds})
    tables = ["--set", "link.count=2", "--decoder", "distmult", "--link-loss", "softmax", "--split-edges", "70/10/20"]
    assert run(["train", str(graph.path), *SHORT, *tables, "--metric", "mrr", "--run", str(folder / "run")]) == 0
    return graph.path, folder / "run"


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_summary_has_its_keys(typed: tuple[Path, Path]) -> None:
    summary = json.loads((typed[1] / "summary.json").read_text())
    assert summary["metric"] == "mrr"
    assert 0 < summary["test"] <= 1
    assert {"train", "val", "final_loss", "epochs", "best_epoch", "strategy", "workers"} <= summary.keys()


def test_rows_of_all_nodes(typed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["infer", str(typed[1]), "-o", str(tmp_path / "rows.parquet"), "--json"]) == 0
    found, summary = told(capsys), json.loads((typed[1] / "summary.json").read_text())
    assert (found["nodes"], found["metric"]) == (60, "mrr")
    assert [found[split] for split in ("train", "val", "test")] == pytest.approx(
        [summary[split] for split in ("train", "val", "test")], abs=1e-6
    )
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert np.stack(rows["prediction"].to_pylist()).shape == (60, 8)
    assert run(["infer", str(typed[1]), "-o", str(tmp_path / "all.npy"), "--graph", str(typed[0]), "--json"]) == 0
    other = told(capsys)
    assert other["test"] is None
    all_edges = np.load(tmp_path / "all.npy")["prediction"]
    assert not np.allclose(all_edges, np.stack(rows["prediction"].to_pylist()), atol=1e-4)


def test_scores_of_pairs(typed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, rows = tmp_path / "pairs.csv", tmp_path / "rows.npy"
    pairs.write_text("source,type,destination\n0,0,4\n4,1,0\n9,2,9\n")
    for ending in ("csv", "parquet", "npy"):
        assert run(["infer", str(typed[1]), "--pairs", str(pairs), "-o", str(tmp_path / f"scores.{ending}"), "--json"]) == 0
        assert told(capsys)["output"].endswith(ending)
    scores = pacsv.read_csv(tmp_path / "scores.csv")["score"].to_pylist()
    assert run(["infer", str(typed[1]), "-o", str(rows), "--json"]) == 0
    import torch

    weight = torch.load(typed[1] / "model.pt", weights_only=True)["decoder.relation"].numpy()
    row = np.load(rows)["prediction"]
    expected = [row[s] @ (weight[r] * row[d]) for s, r, d in ((0, 0, 4), (4, 1, 0), (9, 2, 9))]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pq.read_table(tmp_path / "scores.parquet")["score"].to_pylist(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, rtol=1e-4, atol=1e-5)


def test_pairs_of_names_that_look_like_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """'007' is a name: read as a number, it would be another one."""
    names = [f"{number:03d}" for number in range(30)]
    lines = [f"{names[i]},{names[(i + step) % 30]}" for i in range(30) for step in (1, 2, 5)]
    (tmp_path / "edges.csv").write_text("source,destination\n" + "\n".join(lines) + "\n")
    assert run(["import", str(tmp_path / "edges.csv"), "--ids", "string", "--undirected", "-o", str(tmp_path / "g")]) == 0
    assert run(["train", str(tmp_path / "g"), *SHORT, "--split-edges", "80/10/10", "--run", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    (tmp_path / "pairs.csv").write_text("source,destination\n007,012\n000,029\n")
    scores = tmp_path / "scores.parquet"
    assert run(["infer", str(tmp_path / "run"), "--pairs", str(tmp_path / "pairs.csv"), "-o", str(scores), "--json"]) == 0
    assert pq.read_table(scores)["source"].to_pylist() == ["007", "000"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("source,type,destination\n0,0,999\n", "has no node '999', which is a destination in row 0"),
        ("source,destination\n0,1\n", "pairs need a column type"),
        ("from,to\n0,1\n", "Expected the columns source and destination"),
        ("source,type,destination\n0,7,1\n", "There is no edge type '7'"),
        ("source,type,destination\na,0,b\n", "Expected whole numbers in the column source"),
    ],
)
def test_wrong_pairs(
    typed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    assert run(["infer", str(typed[1]), "--pairs", str(tmp_path / "pairs.csv"), "-o", str(tmp_path / "s.csv")]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "s.csv").exists()


COMPLETE = np.array([(i, j) for i in range(12) for j in range(i)])
WRONG: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "leak": (
        {"pairs": np.array([(0, 1), (2, 3), (4, 5)]), "edge_tables": {"split": np.array([0, 2, 0, 0, 1, 1], np.uint8)}},
        [],
        "stand, one way or the other, in an earlier split too",
    ),
    "value": (
        {"pairs": np.array([(0, 1), (2, 3)]), "edge_tables": {"split": np.array([0, 3, 0, 0], np.uint8)}},
        [],
        "Expected 0 (train), 1 (validation) or 2 (test)",
    ),
    "length": (
        {"pairs": np.array([(0, 1), (2, 3)]), "edge_tables": {"split": np.zeros(3, np.uint8)}},
        [],
        "Expected a row for each of 4 edges in the table 'split'",
    ),
    "no test edges": (
        {"pairs": np.array([(0, 1), (2, 3)]), "edge_tables": {"split": np.zeros(4, np.uint8)}},
        [],
        "No edge of",
    ),
    "no time": ({}, ["--set", "link.split=time"], "needs the edge table 'time'"),
    "no split": ({}, ["--set", "link.split=given"], "has no edge table 'split'"),
    "no parts": ({}, ["--negatives", "local"], "need a parts directory"),
    "cluster": ({}, ["--strategy", "cluster"], "its strategies are mini and global"),
    "saint": ({}, ["--strategy", "saint"], "its strategies are mini and global"),
    "layerwise": ({}, ["--set", "strategy.sampling=layerwise", "--fanouts", "5,5"], "A layer-wise sample cannot leave out"),
    "averages": (
        {},
        ["--sync", "average", "--parallel", "data", "--negatives", "uniform"],
        "got --negatives uniform, which are any nodes of the graph. Pass --negatives local or batch",
    ),
    "corrects": ({}, ["--sync", "average", "--parallel", "data", "--correct"], "draws its targets from all training nodes"),
    "past": ({}, ["--set", "strategy.past=true"], "looks at all training edges, got past"),
    "all for auc": ({}, ["--set", "link.candidates=all"], "tells edges from pairs"),
    "metric": ({}, ["--metric", "accuracy"], "There is no metric 'accuracy' for link"),
    "shares": ({}, ["--split-edges", "90/20/5"], "add up to 100"),
    "setting": ({}, ["--set", "link.decoders=dot"], "Did you mean 'decoder'?"),
    "standard": ({}, ["--normalize", "standard"], "goes by training nodes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, flags, sentence = WRONG[case]
    path = link_graph(tmp_path / "g", **graph).path
    base = [flag for flag in SHORT if case not in ("cluster", "saint") or flag not in ("--batch-size", "100")]
    assert run(["train", str(path), *base, *flags, "--run", str(tmp_path / "run")]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert sentence in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_complete_graph_is_refused(workers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some of its edges are held out, but pairs that are no edges there are none."""
    path = link_graph(tmp_path / "g", nodes=12, pairs=COMPLETE).path
    assert run(["train", str(path), *SHORT, "--workers", str(workers), "--run", str(tmp_path / "run")]) == 2
    assert "Every pair of the 12 nodes is an edge already" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_an_all_but_complete_graph_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One pair of forty nodes is no edge: too rare to be met by chance."""
    pairs = np.array([(u, v) for u in range(40) for v in range(u)][1:])
    path = link_graph(tmp_path / "g", nodes=40, pairs=pairs).path
    assert run(["train", str(path), *SHORT, "--run", str(tmp_path / "run")]) == 2
    assert "Nearly every pair of the 40 nodes is an edge" in " ".join(capsys.readouterr().err.split())


def test_time_splits_leave_out_what_was_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    time = np.repeat(np.arange(150), 2).astype(np.int64)
    graph = link_graph(tmp_path / "g", edge_tables={"time": time})
    assert run(["train", str(graph.path), *SHORT, "--set", "link.split=time", "--run", str(tmp_path / "run")]) == 0
    assert told(capsys)["test"] is not None


def test_pairs_are_for_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.support.trainable import trainable_graph

    graph = trainable_graph(tmp_path / "g").path
    assert run(["train", str(graph), "--epochs", "1", "--run", str(tmp_path / "run"), "--json"]) == 0
    capsys.readouterr()
    assert run(["infer", str(tmp_path / "run"), "-o", str(tmp_path / "x.csv"), "--pairs", "pairs.csv"]) == 2
    assert "--pairs is for runs of link prediction" in " ".join(capsys.readouterr().err.split())
