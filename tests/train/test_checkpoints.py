"""Checkpoints on disk: when they are written, what is kept of them, and what is said where one cannot be read."""

from __future__ import annotations

import errno
import os
import shutil
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
from starling.train.run_directory import METRICS, SCRATCH, RunDirectory
from starling.train.trainer import fit
from tests.train.test_resuming import MINI, ROWS_OF_ALL, StopAt, Stopped, config_of, place, tables_of, train

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


def test_one_process_at_a_time(place: Path, stopped: Path) -> None:
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    (stopped / SCRATCH).mkdir()
    with RunDirectory(stopped).held():
        with pytest.raises(InputError, match=r"run is being trained by another process\. Stop that first, or wait\."):
            Trainer.resume(stopped)
        with pytest.raises(InputError, match="is being trained by another process"):
            train(config_of(place / "g", 1), stopped, resume=True)  # which is not asked before, as under torchrun
        RunDirectory(stopped).remove_scratch()
        assert (stopped / SCRATCH).is_dir()
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before
    RunDirectory(stopped).remove_scratch()
    assert not (stopped / SCRATCH).exists()


def test_a_run_is_held_while_it_trains(place: Path, tmp_path: Path) -> None:
    class Another(Nobody):
        def begin(self, epochs: int, steps: int, metric: str) -> None:
            with pytest.raises(InputError, match="is being trained by another process"):
                Trainer.resume(tmp_path / "run")

    train(config_of(place / "g", 1), tmp_path / "run", watch=Another())


def test_file_systems_without_locks(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert Trainer.resume(stopped).fit().epochs == 5


def test_on_the_disk_before_the_last_one_goes(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a machine without power has neither."""
    written: set[str] = set()
    gone: list[set[str]] = []
    sync, remove = os.fsync, shutil.rmtree

    def fsync(file: int) -> None:
        written.add(Path(f"/proc/self/fd/{file}").readlink().name.partition(".partial")[0].strip("."))
        sync(file)

    def rmtree(path: Path, **how: Any) -> None:
        if path.name == "epoch-1":
            gone.append(set(written))
        remove(path, **how)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    train(config_of(place / "g", 1, {"run": {"epochs": 2}}), tmp_path / "run")
    assert gone == [{"metrics.jsonl", STATE, "manifest.json", "epoch-1", "epoch-2", CHECKPOINTS}]


def test_where_to_go_on_is_said_before_the_first_evaluation(place: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train(config_of(place / "g", 1, {"run": {"evaluate_every": 5}}), tmp_path / "run", watch=StopAt(3))
    assert RunDirectory(tmp_path / "run").remains.endswith("; --resume goes on after epoch 2.")


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
