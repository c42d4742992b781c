"""A run that goes on keeps its settings, its data and its files: what may change, and what is said where more has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from starling.core.errors import InputError
from starling.launch.trainer import Trainer
from starling.train.checkpoint_directory import CHECKPOINTS, STATE
from starling.train.config import RunConfig
from starling.train.resuming import resumed
from starling.train.run_directory import CONFIG, SUMMARY
from tests.support.trainable import trainable_graph
from tests.train.test_checkpoints import stopped
from tests.train.test_resuming import MINI, StopAt, Stopped, Tables, config_of, place, tables_of, train

__all__ = ["place", "stopped"]  # fixtures


def test_another_number_of_workers(place: Path, tmp_path: Path) -> None:
    path, run = place / "five" / "parts", tmp_path / "run"
    with pytest.raises(Stopped):
        train(config_of(path, 2), run, watch=StopAt(3))
    with pytest.raises(InputError, match=r"The checkpoint is of 2 workers, and 4 were started\. Start as many as before\."):
        train(config_of(path, 4), run, resume=True)


def test_settings_that_are_not_those_of_the_checkpoint(place: Path, stopped: Path) -> None:
    """As a worker under torchrun finds, whose config is a file of its own."""
    with pytest.raises(InputError, match=r"The checkpoint has 8 as the 'hidden' of \[model\] and goes on with it, got 16\."):
        train(config_of(place / "g", 1, {"model": {"hidden": 16}}), stopped, resume=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"optimizer": {"lr": 0.3}},
            r"has 0\.1 as the 'lr' of \[optimizer\] and goes on with it, got 0\.3\. Leave it out, or begin",
        ),
        ({"model": {"name": "gcn"}}, r"has \"sage\" as the 'name' of \[model\]"),
        ({"strategy": {"name": "mini"}}, r"has \"global\" as the 'name' of \[strategy\]"),
        ({"run": {"seed": 4}}, r"has 3 as the 'seed' of \[run\]"),
        ({"run": {"epochs": 2}}, r"has trained 3 epochs already, got --epochs 2\. Pass more, or leave it out\."),
        ({"data": {"path": "/nowhere"}}, "/nowhere"),
    ],
)
def test_changes_that_make_it_another_run(stopped: Path, changes: Tables, sentence: str) -> None:
    before = (stopped / CONFIG).read_text()
    with pytest.raises(InputError, match=sentence):
        resumed(stopped, changes)
    assert (stopped / CONFIG).read_text() == before


def test_the_same_settings_in_other_words(place: Path, tmp_path: Path) -> None:
    """A command may be repeated as it was: fan-outs as text, the graph by another path."""
    with pytest.raises(Stopped):
        train(config_of(place / "g", 1, MINI), tmp_path / "run", watch=StopAt(2))
    (tmp_path / "link").symlink_to(place / "g")
    again = MINI | {"data": {"path": str(tmp_path / "link")}, "model": {"name": "sage"}}
    assert resumed(tmp_path / "run", again, {"run": {"epochs": 9, "patience": 4}}).run.epochs == 9


def test_a_cosine_schedule_has_an_end(place: Path, tmp_path: Path) -> None:
    config = config_of(place / "g", 1, {"schedule": {"name": "cosine"}})
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", watch=StopAt(3))
    with pytest.raises(InputError, match=r"rates of a cosine schedule depend on all epochs, 5 in the run"):
        resumed(tmp_path / "run", {"run": {"epochs": 9}})


def test_a_run_that_has_ended(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config_of(place / "g", 1), run)
    with pytest.raises(InputError, match=r"has ended, after 5 epochs\. To train on pass more --epochs\."):
        resumed(run)
    longer = Trainer.resume(run, {"run": {"epochs": 8}}).fit()
    assert json.loads((run / SUMMARY).read_text())["epochs"] == longer.epochs == 8
    assert longer.losses == train(config_of(place / "g", 1, {"run": {"epochs": 8}}), tmp_path / "at once").losses
    assert "epochs = 8" in (run / CONFIG).read_text()


def test_no_run_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a run directory to go on with, got .*nothing, which has no config\.toml\."):
        Trainer.resume(tmp_path / "nothing")


def test_a_directory_in_which_no_run_began(tmp_path: Path) -> None:
    """As a launcher leaves it that was killed before its workers trained."""
    with pytest.raises(InputError, match=r"has no config\.toml\. Begin it without --resume, and with another --run\."):
        Trainer.resume(tmp_path)


def test_what_is_refused_leaves_the_run_as_it_was(place: Path, tmp_path: Path) -> None:
    """A run that has ended has still ended."""
    run = tmp_path / "run"
    train(config_of(place / "g", 1), run)
    state = run / CHECKPOINTS / "epoch-5" / STATE
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="damaged"):
        Trainer.resume(run, {"run": {"epochs": 9}}).fit()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_other_data_in_the_same_place(place: Path, tmp_path: Path) -> None:
    graph = shutil.copytree(place / "g", tmp_path / "g")
    with pytest.raises(Stopped):
        train(config_of(graph, 1), tmp_path / "run", watch=StopAt(3))
    shutil.rmtree(graph)
    trainable_graph(graph, seed=9)
    with pytest.raises(InputError, match=r"The checkpoint was learnt from other data than .*g has by now\."):
        Trainer.resume(tmp_path / "run").fit()


def test_an_end_that_no_epoch_knew_of(place: Path, tmp_path: Path) -> None:
    """An epoch that is the last one is evaluated, and the third was not, when it was trained."""
    run, config = tmp_path / "run", config_of(place / "g", 1, {"run": {"evaluate_every": 4}})
    with pytest.raises(Stopped):
        train(config, run, watch=StopAt(4))
    with pytest.raises(InputError, match=r"has trained 3 epochs already, got --epochs 3\. Pass more"):
        Trainer.resume(run, {"run": {"epochs": 3}})
    with pytest.raises(InputError, match=r"The checkpoint has trained 3 epochs already, got --epochs 3\."):
        train(config_of(place / "g", 1, {"run": {"evaluate_every": 4, "epochs": 3}}), run, resume=True)


def test_a_cosine_schedule_of_a_worker(place: Path, tmp_path: Path) -> None:
    cosine: Tables = {"schedule": {"name": "cosine"}}
    with pytest.raises(Stopped):
        train(config_of(place / "g", 1, cosine), tmp_path / "run", watch=StopAt(3))
    with pytest.raises(InputError, match="depend on all epochs, 5 in the checkpoint, got --epochs 9"):
        train(config_of(place / "g", 1, cosine, {"run": {"epochs": 9}}), tmp_path / "run", resume=True)


def test_a_run_that_has_ended_for_good(place: Path, tmp_path: Path) -> None:
    """More epochs are of no use without patience, nor are fewer where all have been trained, checkpoint or not."""
    impatient: Tables = {"run": {"patience": 2, "checkpoint_every": 0}, "optimizer": {"lr": 1e-9, "momentum": 0.0}}
    early = train(config_of(place / "g", 1, impatient), tmp_path / "early").epochs
    assert early < 5
    for patience in (1, 2):
        with pytest.raises(InputError, match=rf"has ended, after {early} epochs, out of patience\. .*a longer --patience"):
            resumed(tmp_path / "early", {"run": {"epochs": 50, "patience": patience}})
    assert resumed(tmp_path / "early", {"run": {"patience": 0}}).run.patience == 0
    train(config_of(place / "g", 1, {"run": {"checkpoint_every": 0}}), tmp_path / "run")
    with pytest.raises(InputError, match=r"has trained 5 epochs already, got --epochs 4\."):
        resumed(tmp_path / "run", {"run": {"epochs": 4}})


def test_what_may_change_is_written_down(stopped: Path) -> None:
    Trainer.resume(stopped, {"team": {"threads": 1, "deadline": 20.0}, "run": {"epochs": 6}}).fit()
    now = RunConfig.read(stopped / CONFIG)
    assert (now.team.threads, now.team.deadline, now.run.epochs) == (1, 20.0, 6)


OWN = """
import torch

class Wide(torch.nn.Module):
    def __init__(self, features, classes, width=4):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(features, width), torch.nn.Linear(width, classes))

    def forward(self, view, x):
        return self.net(x)
"""


@pytest.fixture
def own(place: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A run with a model of the user's own, and the model's file."""
    file = tmp_path / "wide.py"
    file.write_text(OWN)
    tables = tables_of(place / "g", 1) | {"model": {"name": f"{file}:Wide", "width": 6}}
    with pytest.raises(Stopped):
        train(RunConfig.from_tables(tables), tmp_path / "run", watch=StopAt(3))
    return tmp_path / "run", file


def test_a_model_of_ones_own_is_named_again(own: tuple[Path, Path]) -> None:
    """It is the run's copy that goes on, with the settings it had."""
    run, file = own
    model = resumed(run, {"model": {"name": f"{file}:Wide"}}).model
    assert model.name == f"{run.resolve() / 'model' / 'wide.py'}:Wide"
    assert model.settings == {"width": 6}
    file.unlink()
    assert Trainer.resume(run).fit().epochs == 5


def test_a_model_of_ones_own_that_has_changed(own: tuple[Path, Path]) -> None:
    run, file = own
    file.write_text(OWN.replace("self.net(x)", "2 * self.net(x)"))
    with pytest.raises(
        InputError, match=r"has \"Wide of wide\.py, SHA-256 .*\" as the 'name' of \[model\] and goes on with it, got"
    ):
        resumed(run, {"model": {"name": f"{file}:Wide"}})
    assert resumed(run).run.epochs == 5
    shutil.copyfile(file, run / "model" / "wide.py")
    with pytest.raises(InputError, match=r"The checkpoint has \"Wide of wide\.py, SHA-256"):
        Trainer.resume(run).fit()


def test_a_setting_that_was_struck_out_by_hand(own: tuple[Path, Path]) -> None:
    run, _ = own
    (run / CONFIG).write_text((run / CONFIG).read_text().replace("width = 6\n", ""))
    with pytest.raises(InputError, match=r"The checkpoint has 6 as the 'width' of \[model\] and goes on with it, got none\."):
        Trainer.resume(run).fit()
