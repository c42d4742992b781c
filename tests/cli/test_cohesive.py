from __future__ import annotations

import json
from pathlib import Path

import pytest

from starling.cli.main import run
from tests.support.trainable import trainable_graph


def test_cohesive_batches_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = trainable_graph(tmp_path / "g")
    flags = ["train", str(graph.path), "--model", "gcn", "--hidden", "8", "--epochs", "2", "--strategy", "cohesive"]
    assert run([*flags, "--batches", "4", "--run", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "cohesive"
    assert "batches = 4" in (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--strategy", "cohesive", "--batches", "37"], "Expected at most 36 batches, a training node in each, got 37."),
        (["--strategy", "mini", "--batches", "4"], "The strategy mini has no setting 'batches'."),
        (["--strategy", "cohesive", "--set", "strategy.tolerance=-1"], "The setting 'tolerance' of cohesive is wrong"),
        (["--strategy", "cohesive", "--set", "strategy.start=louvain"], "louvain makes communities"),
        (["--strategy", "cohesive", "--balance-workers"], "--balance-workers is for several workers"),
    ],
)
def test_wrong_flags_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    graph = trainable_graph(tmp_path / "g")
    assert run(["train", str(graph.path), "--run", str(tmp_path / "run"), "--quiet", *flags]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
