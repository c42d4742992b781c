"""docs/training.md: its commands work one after another, it uses every example, and it names every setting."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from starling.cli.main import run
from starling.nn.registry import MODELS
from starling.plan.registry import STRATEGIES
from starling.train.config import RunConfig
from starling.train.metrics import METRICS
from tests.policy.test_readme import fenced_commands
from tests.support.source import ROOT

GUIDE, EXAMPLES = ROOT / "docs" / "training.md", ROOT / "examples"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_every_command_of_the_guide_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this one process, since there are many and each would begin with importing torch."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    for command in fenced_commands(GUIDE.read_text()):
        program, *arguments = shlex.split(command)
        if "pyg:" in command and importlib.util.find_spec("torch_geometric") is None:
            continue
        if program == "python":
            monkeypatch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            assert program == "starling", command
            assert run(arguments) == 0, f"{command}\n{capsys.readouterr().err}"
    runs = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/summary.json")}
    assert runs["repeated"]["final_loss"] == runs["first"]["final_loss"]
    assert runs["other-seed"]["final_loss"] != runs["first"]["final_loss"]
    assert runs["first"]["test"] > 0.5, "one in five by chance"
    assert runs["mine"]["test"] > 0.4


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")))
def test_every_example_is_run_by_the_guide(example: str) -> None:
    assert any(f"examples/{example}" in command for command in fenced_commands(GUIDE.read_text()))


def test_every_setting_is_named() -> None:
    named = set(re.findall(r"`([\w-]+)`", GUIDE.read_text()))
    wanted = {*MODELS, *STRATEGIES, *(metric for task in METRICS.values() for metric in task), *METRICS}
    wanted |= {setting for entry in MODELS.values() for setting in entry.settings.model_fields}
    wanted |= {setting for strategy in STRATEGIES.values() for setting in strategy.Settings.model_fields}
    for table in ("data", "task", "optimizer", "schedule", "run", "team", "sync"):
        wanted |= set(RunConfig.model_fields[table].annotation.model_fields)  # type: ignore[union-attr]
    assert wanted - named == set()
