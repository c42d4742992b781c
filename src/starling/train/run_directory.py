"""What a run leaves on disk, each file whole at any moment: a killed run leaves its config, metrics and best weights so far.

``config.toml`` (every setting, enough to repeat the run), ``model/`` and ``strategy/`` (copies of the user's own files, where the
run has such), ``metrics.jsonl`` (a line an epoch), ``model.pt`` (the best weights, no pickled code), ``embeddings/`` (the best
rows, where rows are learnt), ``checkpoints/`` (what it can go on from), ``summary.json`` (the results; there only when the run has
ended).
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from starling.config.toml import read_tables, write_tables
from starling.core.artifact import to_disk
from starling.core.errors import InputError
from starling.core.locks import lock
from starling.core.user_class import ClassPlace
from starling.train.checkpoint_directory import epochs_done
from starling.train.config import CONFIG, RunConfig

METRICS, MODEL, SUMMARY = "metrics.jsonl", "model.pt", "summary.json"
_NAMING = ("data", "model", "strategy")
"""Tables of a config that may name what lies in the run directory itself."""
SCRATCH = "scratch"
"""Of a run directory while it trains: what does not fit in memory, or is shared by workers."""


@dataclass(frozen=True)
class RunDirectory:
    """A run directory being written, or opened again."""

    path: Path
    made_above: tuple[Path, ...] = ()
    """Directories that were made for this one to be in, the innermost first."""

    @classmethod
    def create(cls, path: Path | None, name: str) -> RunDirectory:
        """A new directory: the one asked for, which must not exist, or ``runs/<name>-<number>`` with the first free number."""
        if path is not None:
            return cls(path, _make(path, wanted=True) or ())
        runs = Path("runs")
        plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
        taken = [_number(other.name, plain) for other in runs.glob(f"{plain}-*")] if runs.is_dir() else []
        number = max(taken, default=0) + 1
        while (made := _make(runs / f"{plain}-{number}", wanted=False)) is None:
            number += 1
        return cls(runs / f"{plain}-{number}", made)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run directory with weights in it."""
        if not (path / CONFIG).is_file():
            raise InputError(f"Expected a run directory, got {path}, which has no {CONFIG}. Make one with: starling train.")
        if not (path / MODEL).is_file():
            raise InputError(f"The run {path} has no weights: it ended before its first evaluation. Train again.")
        return cls(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the directory for this process alone: two that train in it would undo each other's work."""
        file = None
        try:
            file = lock(self.path)
        except BlockingIOError as error:
            raise InputError(f"The run {self.path} is being trained by another process. Stop that first, or wait.") from error
        except OSError:
            pass  # not every file system has locks
        try:
            yield
        finally:
            if file is not None:
                os.close(file)

    def remove_scratch(self) -> None:
        """Remove what workers that were killed have left, where none are at work."""
        with suppress(InputError), self.held():
            shutil.rmtree(self.path / SCRATCH, ignore_errors=True)

    def remove(self) -> None:
        """Leave nothing of a run that never began."""
        shutil.rmtree(self.path)
        for above in self.made_above:
            with suppress(OSError):  # another run has come in
                above.rmdir()

    def config(self) -> RunConfig:
        """The settings of the run."""
        return RunConfig.read(self.path / CONFIG)

    def write_config(self, config: RunConfig) -> None:
        """Save the resolved settings, which then name copies of the user's own files: the run can be repeated without them."""
        tables = config.to_tables()
        if (path := Path(tables["data"]["path"])).is_relative_to(self.path.resolve()):
            tables["data"]["path"] = path.relative_to(self.path.resolve())  # parts made for this run move along with it
        for folder in ("model", "strategy"):
            if place := ClassPlace.parse(tables[folder]["name"]):
                (self.path / folder).mkdir()
                copy = shutil.copyfile(place.file, self.path / folder / place.file.name)
                tables[folder]["name"] = str(ClassPlace(copy.relative_to(self.path), place.name))
        self._write(CONFIG, write_tables(tables).encode())

    def reopen(self, config: RunConfig) -> None:
        """Take up a run again: it has not ended, what a killed process left is gone, and its config says how it goes on."""
        (self.path / SUMMARY).unlink(missing_ok=True)
        shutil.rmtree(self.path / SCRATCH, ignore_errors=True)
        before = read_tables(self.path / CONFIG)
        kept = {name: table for name, table in before.items() if name in _NAMING}
        self._write(CONFIG, write_tables(config.to_tables() | kept).encode())

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Add a line to the metrics, in one write."""
        with (self.path / METRICS).open("a") as file:
            file.write(json.dumps(record) + "\n")

    @property
    def metrics_bytes(self) -> int:
        """How long the metrics are by now."""
        path = self.path / METRICS
        return path.stat().st_size if path.exists() else 0

    def settle_metrics(self) -> int:
        """Have all metrics on the disk; gives how long they are."""
        to_disk(self.path / METRICS)
        return self.metrics_bytes

    def cut_metrics(self, length: int) -> bytes:
        """Drop lines beyond so many bytes, of epochs that will be trained again; gives those that stay."""
        if self.metrics_bytes < length:
            raise InputError(f"{self.path / METRICS} is shorter than when its checkpoint was written. Train again.")
        if not length:
            (self.path / METRICS).unlink(missing_ok=True)
            return b""
        os.truncate(self.path / METRICS, length)
        return (self.path / METRICS).read_bytes()

    def save_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Save a model's weights."""
        buffer = io.BytesIO()
        torch.save(dict(weights), buffer)
        self._write(MODEL, buffer.getvalue())

    def weights(self) -> dict[str, Tensor]:
        """The saved weights."""
        try:
            loaded: dict[str, Tensor] = torch.load(self.path / MODEL, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever the damage leads to
            raise InputError(f"{self.path / MODEL} is damaged ({type(error).__name__}). Train again.") from error
        return loaded

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Save the results."""
        self._write(SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())

    @property
    def remains(self) -> str:
        """A sentence for the message of a run that failed: where its weights are, if it came so far, and where it can go on."""
        done = epochs_done(self.path)
        further = f"; --resume goes on after epoch {done}" if done else ""
        return f"What was learnt before is in {self.path}{further}." if done or (self.path / MODEL).is_file() else ""

    def _write(self, name: str, content: bytes) -> None:
        partial = self.path / f".{name}.partial"
        try:
            partial.write_bytes(content)
            partial.replace(self.path / name)
        except OSError:
            partial.unlink(missing_ok=True)  # the disk is full as it is
            raise


def check_free(path: Path | None) -> None:
    """Refuse a run directory that exists already, before any work is done."""
    if path is not None and path.exists():
        raise _taken(path)


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists already, and a run is never overwritten. Choose another --run.")


def _make(path: Path, *, wanted: bool) -> tuple[Path, ...] | None:
    """Make a directory; those above it that were made too, or None where it is there and was not `wanted` by that name."""
    missing = tuple(above for above in path.parents if not above.exists())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"Expected a directory for runs at {path.parent}, got a file or a link to nothing. Choose another --run."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot write to {path}: {error.strerror}. Choose another --run.") from error
    try:
        path.mkdir()
    except FileExistsError as error:
        if wanted:
            raise _taken(path) from error
        return None
    except OSError as error:
        raise InputError(f"Cannot write to {path}: {error.strerror}. Choose another --run.") from error
    return missing


def _number(name: str, plain: str) -> int:
    ending = name.removeprefix(f"{plain}-")
    return int(ending) if ending.isdecimal() else 0
