"""Checkpoints on disk: when they are written, what is kept of them, and what is said where one cannot be gone on from."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.core.errors import InputError, StarlingError
from starling.engine.embeddings.table import EmbeddingTable, TableSpec
from starling.launch.trainer import Trainer
from starling.train import checkpoint_directory, checkpoints
from starling.train.checkpoint_directory import BEST, CHECKPOINTS, STATE
from starling.train.config import RunConfig
from starling.train.embeddings import EMBEDDINGS, ROWS
from starling.train.results import Nobody
from starling.train.resuming import resumed
from starling.train.run_directory import CONFIG, METRICS, SUMMARY
from starling.train.trainer import fit
from tests.train.test_resuming import MINI, ROWS_OF_ALL, StopAt, Stopped, Tables, config_of, place, tables_of, train

__all__ = ["place"]  # a fixture


class StopBefore(Nobody):
    """Ends a run right before its first step."""

    def begin(self, epochs: int, steps: int, metric: str) -> None:
        raise Stopped


def found_in(run: Path) -> list[str]:
    return sorted(path.name for path in (run / CHECKPOINTS).glob("*"))


def by_time(path: Path, workers: int) -> RunConfig:
    tables = tables_of(path, workers)
    del tables["run"]["checkpoint_every"]
    return RunConfig.from_tables(tables)


@pytest.fixture
def stopped(place: Path, tmp_path: Path) -> Path:
    """A run that was stopped in its fourth epoch."""
    with pytest.raises(Stopped):
        train(config_of(place / "g", 1), tmp_path / "run", watch=StopAt(4))
    return tmp_path / "run"


@pytest.mark.parametrize(("every", "last"), [(1, 5), (2, 4), (3, 3), (6, None), (0, None)])
def test_the_newest_is_kept(place: Path, tmp_path: Path, every: int, last: int | None) -> None:
    train(config_of(place / "g", 1, {"run": {"checkpoint_every": every}}), tmp_path / "run")
    assert found_in(tmp_path / "run") == ([] if last is None else [f"epoch-{last}"])


@pytest.mark.parametrize("workers", [1, 2])
def test_one_a_minute(place: Path, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the first worker: here it says that a minute has passed after every other epoch."""
    config, clock = by_time(place / "five" / "parts", workers), [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return clock[0]

    class Passing(StopAt):
        def epoch(self, record: Any) -> None:
            clock[0] += 30.0
            super().epoch(record)

    monkeypatch.setattr(checkpoints, "time", Clock)
    watch = Passing(5)
    with pytest.raises(Stopped):
        run_threads(workers, lambda team: fit(config, tmp_path / "run", team=team, watch=None if team.rank else watch))
    assert found_in(tmp_path / "run") == ["epoch-4"]


def test_a_short_run_writes_none(place: Path, tmp_path: Path) -> None:
    train(by_time(place / "g", 1), tmp_path / "run")
    assert not (tmp_path / "run" / CHECKPOINTS).exists()


def test_what_a_killed_process_left_is_swept(place: Path, stopped: Path) -> None:
    (stopped / CHECKPOINTS / ".epoch-4.partial-1").mkdir()
    (stopped / "scratch").mkdir()
    Trainer.resume(stopped).fit()
    assert list((stopped / CHECKPOINTS).glob(".*")) == []
    assert not (stopped / "scratch").exists()


def test_the_rows_of_the_best_epoch_go_back_too(place: Path, tmp_path: Path) -> None:
    """Later epochs, which will be trained again, may have been better: until then the run has what it had at its checkpoint."""
    config = config_of(place / "g", 1, MINI, ROWS_OF_ALL, {"run": {"checkpoint_every": 2}})
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", watch=StopAt(4))
    run = tmp_path / "run"
    best = np.load(run / CHECKPOINTS / "epoch-2" / BEST / ROWS)
    (run / EMBEDDINGS / ROWS).unlink()
    np.save(run / EMBEDDINGS / ROWS, best + 1)
    with pytest.raises(Stopped):
        train(config, run, watch=StopBefore(), resume=True)
    assert np.array_equal(np.load(run / EMBEDDINGS / ROWS), best)


def test_links_that_a_file_system_does_not_have(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(checkpoint_directory.os, "link", refuse)
    train(config_of(place / "g", 1, MINI, ROWS_OF_ALL), tmp_path / "run")
    kept = tmp_path / "run" / CHECKPOINTS / "epoch-5" / BEST / ROWS
    assert np.array_equal(np.load(kept), np.load(tmp_path / "run" / EMBEDDINGS / ROWS))


def test_a_full_disk(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint before stays, whole, and nothing of the new one is left."""
    put = Path.write_bytes

    def write_bytes(path: Path, content: Any) -> int:
        if path.name == STATE and "epoch-3" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(path, content)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(StarlingError, match=r"No space left on the device while writing .*epoch-3"):
        train(config_of(place / "g", 1), tmp_path / "run")
    assert found_in(tmp_path / "run") == ["epoch-2"]
    monkeypatch.undo()
    assert Trainer.resume(tmp_path / "run").fit().epochs == 5


def test_a_damaged_checkpoint(stopped: Path) -> None:
    state = stopped / CHECKPOINTS / "epoch-3" / STATE
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    with pytest.raises(
        InputError, match=r"epoch-3 is damaged\. .*does not match its checksum.* Remove it, and --resume begins at"
    ):
        Trainer.resume(stopped).fit()
    state.unlink()
    with pytest.raises(InputError, match=r"epoch-3 is damaged\. .*is missing"):
        Trainer.resume(stopped).fit()


def test_metrics_that_were_cut_short(stopped: Path) -> None:
    (stopped / METRICS).write_text("")
    with pytest.raises(InputError, match="shorter than when its checkpoint was written"):
        Trainer.resume(stopped).fit()


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


def test_arrays_of_a_table_by_blocks(tmp_path: Path) -> None:
    """What is put is what is read, in memory and in a file."""
    for memory in (None, 64):
        table = EmbeddingTable(np.arange(10), TableSpec(4, "adam", memory=memory)).begin(tmp_path)
        given = np.arange(24, dtype=np.float32).reshape(6, 4)
        assert table.arrays == ("rows", "mean", "square")
        table.put(3, given, "square")
        (block,) = [block for _, block in table.blocks("square")]
        assert np.array_equal(block[3:9], given)
        assert not block[:3].any()
        assert not block[9:].any()
