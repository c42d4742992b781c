"""Runs of real processes that were killed go on from the command line, and learn what runs do that were not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.cli.main import run as starling
from tests.launch.test_torchrun import CONFIG, machine, parts, torchrun
from tests.launch.test_training import train_until, worker_of
from tests.support.source import ROOT
from tests.support.trainable import trainable_graph

__all__ = ["parts"]  # a fixture

FLAGS = ("--strategy", "mini", "--batch-size", "16", "--dropout", "0.2")


def told(*command: object, capsys: pytest.CaptureFixture[str]) -> Any:
    assert starling([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def assert_same_weights(run: Path, other: Path) -> None:
    mine, theirs = (torch.load(folder / "model.pt", weights_only=True) for folder in (run, other))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.fixture(autouse=True)
def _cheap_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("STARLING_THREADS", "1")


@pytest.mark.parametrize("more", [(), ("--parallel", "data")])
def test_a_killed_team_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    """With the same command and --resume; --epochs, so that it ends."""
    flags = (*FLAGS, *more, "--checkpoint-every", "1")
    status, said = train_until(tmp_path, lambda parent: worker_of(parent, 1).kill(), *flags)
    assert status == 1
    (done,) = re.findall(r"What was learnt before is in .*; --resume goes on after epoch (\d+)\.", said)
    epochs = int(done) + 3
    parts, run, whole = tmp_path / "cut" / "parts", tmp_path / "run", tmp_path / "whole"
    common = (parts, "--workers", 2, "--epochs", epochs, "--hidden", 8, "--threads", 1, *flags)
    resumed = told("train", *common, "--run", run, "--resume", capsys=capsys)
    expected = told("train", *common, "--run", whole, capsys=capsys)
    timing = {"run", "seconds", "epoch_seconds_median", "peak_rss_bytes", "by_worker", "bytes_sent_per_epoch"}
    assert {key: resumed[key] for key in resumed.keys() - timing} == {key: expected[key] for key in expected.keys() - timing}
    assert_same_weights(run, whole)
    assert starling(["train", "--run", str(run), "--resume"]) == 2
    assert f"has ended, after {epochs} epochs. To train on pass more --epochs." in capsys.readouterr().err


def test_a_graph_that_was_cut_for_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its parts are in the run directory; the graph may be named again, as at first, and the run is extended."""
    graph, run = trainable_graph(tmp_path / "g").path, tmp_path / "run"
    common = ("train", graph, "--workers", 2, "--hidden", 8, "--threads", 1, "--run", run)
    told(*common, "--epochs", 3, "--checkpoint-every", 2, capsys=capsys)
    shutil.copytree(run, tmp_path / "copy")
    extended = told(*common, "--epochs", 6, "--resume", capsys=capsys)
    assert extended["epochs"] == 6
    assert extended["run"] == str(run)
    lines = [json.loads(line)["epoch"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4, 5, 6]
    assert starling([*map(str, common), "--resume", "--lr", "0.5"]) == 2
    said = capsys.readouterr().err
    assert "has 0.01 as the 'lr' of [optimizer] and goes on with it, got 0.5. Leave it out" in said
    other = trainable_graph(tmp_path / "other", seed=9).path
    assert starling(["train", str(other), "--run", str(run), "--resume", "--epochs", "9"]) == 2
    assert "is of another graph" in capsys.readouterr().err


def test_ctrl_c_and_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = train_until(tmp_path, lambda parent: os.killpg(parent.pid, signal.SIGINT), "--checkpoint-every", "2")
    assert status == 130
    found = [int(path.name.removeprefix("epoch-")) for path in (tmp_path / "run" / "checkpoints").glob("epoch-*")]
    assert 1 <= len(found) <= 2, "the one before goes once the new one is on the disk, and the end may come in between"
    done = max(found)
    assert told("train", "--run", tmp_path / "run", "--resume", "--epochs", done + 1, capsys=capsys)["epochs"] == done + 1


def test_torchrun_goes_on(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines that share nothing: a run begins where there is none, and goes on where there is; the others are told."""
    text = CONFIG.replace("epochs = 3", "epochs = 2\ncheckpoint_every = 1")
    monkeypatch.delenv("STARLING_THREADS")
    machines = [machine(tmp_path / f"machine-{number}", parts, text, shards=(number,)) for number in (0, 1)]
    for here in machines:
        (here / "spec.json").write_text(json.dumps({"config": "birds.toml", "run": "run", "resume": True}))
    first = torchrun(machines)
    for here in machines:
        (here / "birds.toml").write_text(text.replace("epochs = 2", "epochs = 4"))
    second = torchrun(machines)
    assert len(second["losses"]) == 4
    assert second["losses"][:2] == first["losses"]
    assert not (machines[1] / "run").exists()
    whole = [
        machine(tmp_path / f"whole-{number}", parts, text.replace("epochs = 2", "epochs = 4"), (number,)) for number in (0, 1)
    ]
    assert torchrun(whole)["losses"] == second["losses"]
    assert np.isfinite(second["losses"]).all()
