"""``starling train`` and ``starling infer`` as scripts use them, and every kind of wrong input to them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from starling.cli.main import run
from starling.cli.train_progress import TrainingBar
from starling.nn.registry import MODELS
from starling.plan.registry import STRATEGIES
from starling.train.config import RunConfig
from starling.train.results import EpochRecord, Scores
from tests.support.trainable import trainable_graph

TRAIN_KEYS = [
    "run", "workers", "strategy", "parallel", "sync", "epochs", "metric", "best_epoch", "train", "val", "test", "final_loss",
    "epoch_seconds_median", "peak_rss_bytes", "bytes_sent_per_epoch", "formula_bytes", "held_bytes", "embeddings",
    "cache_hit_rate", "seconds", "by_worker",
]  # fmt: skip
INFER_KEYS = ["nodes", "metric", "train", "val", "test", "output", "seconds", "peak_rss_bytes"]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_json_and_a_repeated_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainable_graph(tmp_path / "g")
    flags = ("--model", "gcn", "--hidden", 8, "--dropout", 0.5, "--epochs", 6, "--strategy", "mini", "--batch-size", 9)
    more = ("--fanouts", "3,2", "--lr", 0.1, "--weight-decay", 1e-3, "--seed", 4, "--set", "model.norm=batch", "--clip", 1)
    first = run_json(capsys, "train", tmp_path / "g", *flags, *more, "--run", tmp_path / "a")
    assert list(first) == TRAIN_KEYS
    assert (first["workers"], first["strategy"], first["epochs"], first["metric"]) == (1, "mini", 6, "accuracy")
    again = run_json(capsys, "train", "--config", tmp_path / "a" / "config.toml", "--run", tmp_path / "b")
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()] for name in "ab"
    ]
    assert losses[0] == losses[1]
    assert again["test"] == first["test"]
    changed = run_json(
        capsys,
        "train",
        "--config",
        tmp_path / "a" / "config.toml",
        "--epochs",
        2,
        "--strategy",
        "global",
        "--run",
        tmp_path / "c",
    )
    assert (changed["epochs"], changed["strategy"]) == (2, "global")
    predicted = run_json(capsys, "infer", tmp_path / "a", "-o", tmp_path / "p.csv")
    assert list(predicted) == INFER_KEYS
    assert (predicted["nodes"], predicted["test"]) == (60, first["test"])
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61


def test_stale_weights_by_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Batches in flight change no bit, staleness does."""
    trainable_graph(tmp_path / "g")
    flags = ("train", tmp_path / "g", "--model", "gcn", "--hidden", 8, "--epochs", 2, "--strategy", "mini", "--batch-size", 9)
    stale = ("--sync", "stale", "--staleness", 2)
    plain, late, flying = (
        run_json(capsys, *flags, *more, "--run", tmp_path / name)
        for name, more in (("plain", ()), ("late", stale), ("flying", (*stale, "--in-flight", 3)))
    )
    assert (plain["sync"], flying["sync"]) == ("gradient", "stale")
    assert flying["final_loss"] == late["final_loss"] != plain["final_loss"]
    settings = RunConfig.read(tmp_path / "flying" / "config.toml").sync
    assert (settings.name, settings.staleness, settings.in_flight) == ("stale", 2, 3)
    assert run([*map(str, flags), *map(str, stale), "--in-flight", "4", "--run", str(tmp_path / "no")]) == 2
    assert "Expected --in-flight of at most 3" in capsys.readouterr().err


def test_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainable_graph(tmp_path / "g")
    assert run(["train", str(tmp_path / "g"), "--epochs", "2", "--run", str(tmp_path / "r")]) == 0
    printed = capsys.readouterr()
    assert "accuracy" in printed.out
    assert "starling infer" in printed.out
    assert printed.err == ""
    assert run(["infer", str(tmp_path / "r"), "-o", str(tmp_path / "p.parquet")]) == 0
    assert "60" in capsys.readouterr().out


def test_help_names_every_model_and_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in [*MODELS, *STRATEGIES]:
        assert re.search(rf"\b{name}\b", shown), name


def test_the_bar() -> None:
    screen = io.StringIO()
    bar = TrainingBar(Console(file=screen, force_terminal=True, width=80))
    bar.begin(1000, 2, "accuracy")
    bar.step(1, 1, 0.75)
    bar.epoch(EpochRecord(1, 0.5, 0.01, 0.1, 0.1, 1, Scores(0.9, 0.8, 0.7)))
    bar.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "loss 0.5000  val accuracy 0.8000  5 epochs/s  left 0" in shown
    assert "…" not in shown, "nothing is cut off"


MODEL = """
import torch
class Wide(torch.nn.Module):
    def __init__(self, features, classes, hidden=4):
        super().__init__()
        self.line = torch.nn.Linear(features, classes + 1)
    def forward(self, views, x):
        return self.line(x)
class Net(Wide):
    def __init__(self, features, classes):
        super().__init__(features, classes - 1)
class Broken(Wide):
    def forward(self, views, x):
        return views.wings
"""

Y = np.arange(60) % 3
WRONG: dict[str, tuple[list[str], str]] = {
    "unknown model": (["--model", "sagge"], r"no model 'sagge'. Did you mean 'sage'"),
    "unknown strategy": (["--strategy", "minni"], r"no strategy 'minni'. Did you mean 'mini'"),
    "no such strategy file": (["--strategy", "{place}/none.py:Mine"], r"There is no file .*none.py to load the strategy Mine"),
    "not a strategy": (["--strategy", "{place}/mine.py:Net"], r"Net in .*mine.py must be a subclass of .*Strategy with _plan"),
    "unknown key": (["--config", "{place}/key.toml"], r"\[run\] has no setting 'epoch'. Did you mean 'epochs'"),
    "unknown model key": (["--set", "model.hiden=4"], r"'sage' has no setting 'hiden'. Did you mean 'hidden'"),
    "unknown table": (["--set", "modle.hidden=4"], r"no table \[modle\]. Did you mean 'model'"),
    "not a setting": (["--set", "hidden=4"], r"Expected --set as table.name=value"),
    "no config": (["--config", "{place}/none.toml"], r"Cannot read"),
    "fan-outs": (["--strategy", "mini", "--fanouts", "5", "--layers", "2"], r"Expected 2 fan-outs, one a layer, got 1"),
    "batch too large": (["--strategy", "mini", "--batch-size", "37"], r"at most the 36 training nodes, got 37"),
    "idle flag": (["--batch-size", "5"], r"global has no setting 'batch_size'"),
    "no such file": (["--model", "{place}/none.py:Net"], r"There is no file .*none.py to load the model Net"),
    "no such class": (["--model", "{place}/mine.py:Nest"], r"mine.py has no class Nest. Did you mean 'Net'"),
    "wrong outputs": (["--model", "{place}/mine.py:Wide"], r"shape \(2, 3\).*got \(2, 4\)"),
    "broken model": (["--model", "{place}/mine.py:Broken"], r"cannot compute a tiny graph: AttributeError.*[^.]\.\n$"),
    "no layer count": (["--model", "{place}/mine.py:Net", "--strategy", "mini"], r"'layer_count'"),
    "feature width": (["--set", "data.features=9"], r"Expected 9 features as the config says, got 8"),
    "edge weights": (
        ["--model", "gcn", "--set", "model.edge_weights=true"],
        r"edge_weights reads the edge table 'weight', and .* has none",
    ),
    "task": (["--task", "regression"], r"needs labels of kind 'real'"),
    "metric": (["--metric", "acuracy"], r"no metric 'acuracy'.*Did you mean 'accuracy'"),
    "device": (["--device", "abacus"], r"Expected (a|the) device"),
    "rate": (["--lr", "-1"], r"'lr' of \[optimizer\]"),
    "memory": (["--memory", "much"], r"size such as"),
    "run": (["--run", "{place}/g"], r"exists already"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    flags, sentence = WRONG[name]
    trainable_graph(tmp_path / "g")
    (tmp_path / "key.toml").write_text("[run]\nepoch = 3\n")
    (tmp_path / "mine.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    status = run(["train", str(tmp_path / "g"), *(flag.format(place=tmp_path) for flag in flags)])
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    assert re.search(sentence, printed.err), printed.err
    assert not (tmp_path / "runs").exists()


def test_labels_missing_or_no_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainable_graph(tmp_path / "g", without=("y",))
    for arguments, sentence in (
        ([str(tmp_path / "g")], "no labels to learn"),
        ([str(tmp_path / "none")], "does not exist"),
        ([], "Expected a graph to train on"),
    ):
        assert run(["train", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_a_users_model_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainable_graph(tmp_path / "g")
    (tmp_path / "mine.py").write_text(MODEL)
    flags = ("--model", f"{tmp_path}/mine.py:Net", "--epochs", 2, "--run", tmp_path / "r")
    first = run_json(capsys, "train", tmp_path / "g", *flags)
    assert first["epochs"] == 2
    (tmp_path / "mine.py").unlink()
    (tmp_path / "r").rename(tmp_path / "moved")  # the run has all it needs, wherever it stands
    assert run_json(capsys, "infer", tmp_path / "moved", "-o", tmp_path / "p.npy")["nodes"] == 60
    again = run_json(capsys, "train", "--config", tmp_path / "moved" / "config.toml", "--run", tmp_path / "again")
    assert again["final_loss"] == first["final_loss"]
    assert (tmp_path / "again" / "model" / "mine.py").read_text() == MODEL
    assert 'name = "model/mine.py:Net"' in (tmp_path / "again" / "config.toml").read_text()


STRATEGY = """
from starling.plan.whole import Global
class Twice(Global):
    class Settings(Global.Settings):
        times: int = 2
    @property
    def steps_per_epoch(self):
        return self.settings.times
"""


def test_a_users_strategy_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    trainable_graph(tmp_path / "g")
    (tmp_path / "mine.py").write_text(STRATEGY)
    (tmp_path / "c.toml").write_text('[data]\npath = "g"\n[strategy]\nname = "mine.py:Twice"\ntimes = 3\n[run]\nepochs = 2\n')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)  # paths of a config start where it is
    first = run_json(capsys, "train", "--config", tmp_path / "c.toml", "--run", "r")
    (tmp_path / "mine.py").unlink()
    again = run_json(capsys, "train", "--config", "r/config.toml", "--run", "again")
    assert again["final_loss"] == first["final_loss"]
    assert "times = 3" in Path("again/config.toml").read_text()
    run_json(capsys, "train", tmp_path / "g", "--strategy", "global", "--epochs", 6, "--run", "once")
    losses = [json.loads(line)["loss"] for line in Path("once/metrics.jsonl").read_text().splitlines()]
    assert first["final_loss"] == pytest.approx(sum(losses[3:]) / 3), "three steps an epoch"


def test_predictions_are_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainable_graph(tmp_path / "g")
    run_json(capsys, "train", tmp_path / "g", "--epochs", 1, "--run", tmp_path / "a run")
    (tmp_path / "p.csv").mkdir()
    assert run(["infer", str(tmp_path / "a run"), "-o", str(tmp_path / "p.csv"), "--force"]) == 2
    assert f"got the directory {tmp_path / 'p.csv'}" in capsys.readouterr().err
    assert run(["infer", str(tmp_path / "a run"), "-o", str(tmp_path / "q.csv"), "--memory", "0"]) == 2
    assert "more than 0 bytes" in capsys.readouterr().err
    assert run(["train", str(tmp_path / "g"), "--epochs", "1", "--run", str(tmp_path / "b run")]) == 0
    assert f"starling infer '{tmp_path / 'b run'}' -o" in capsys.readouterr().out
