"""A checkpoint on disk: ``checkpoints/epoch-12/`` of a run directory, whole at any moment, checked by checksums.

``state.pt`` (weights, what optimisers and schedules remember, the best weights so far, random generators; no pickled code),
``embeddings/`` (rows and what their optimiser remembers, an array each, in the order of the imported graph), ``best/`` (the rows of
the best epoch so far), where rows are learnt. The newest checkpoint takes the place of those before it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from starling.core.artifact import staged, to_disk
from starling.core.errors import InputError
from starling.core.manifest import Count, Manifest
from starling.train.embeddings import EMBEDDINGS

CHECKPOINTS, STATE, BEST = "checkpoints", "state.pt", "best"
_NAME = "epoch-"


class CheckpointManifest(Manifest):
    """What ``manifest.json`` of a checkpoint says."""

    format: Literal["starling-checkpoint"] = "starling-checkpoint"
    version: int = 1
    epoch: Count
    """The last one that is done."""
    workers: Count
    """How many trained."""
    metrics_bytes: Count
    """Of ``metrics.jsonl`` when it was written: later lines are of epochs that are to be trained again."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found."""

    path: Path
    manifest: CheckpointManifest

    @classmethod
    def latest(cls, run: Path) -> Self | None:
        """The newest of a run directory, checked; None where there is none."""
        found = _all(run)
        if not found:
            return None
        path = found[-1]
        try:
            manifest = CheckpointManifest.read(path)
            manifest.verify(path)
        except InputError as error:
            raise InputError(
                f"The checkpoint {path} is damaged. {str(error).partition('. ')[0]}. Remove it, and --resume begins at the start."
            ) from error
        return cls(path, manifest)

    def restore_best_rows(self, run: Path) -> None:
        """Have the rows of the best epoch up to here as the run's."""
        if (self.path / BEST).is_dir():
            with staged(run / EMBEDDINGS, force=True) as staging:
                _link_all(self.path / BEST, staging)


@contextmanager
def new_checkpoint(run: Path, manifest: CheckpointManifest) -> Iterator[Path]:
    """A directory to fill, which becomes the only checkpoint of a run; its arrays of embeddings go into ``embeddings/``."""
    (run / CHECKPOINTS).mkdir(exist_ok=True)
    name, before = f"{_NAME}{manifest.epoch}", _all(run)
    with staged(run / CHECKPOINTS / name, force=True) as staging:
        yield staging
        if (run / EMBEDDINGS).is_dir():
            (staging / BEST).mkdir()
            _link_all(run / EMBEDDINGS, staging / BEST)
        manifest.seal(staging)
        to_disk(*staging.rglob("*"), staging)
    to_disk(run / CHECKPOINTS)  # before the others go
    for old in before:
        if old.name != name:
            shutil.rmtree(old)


def epochs_done(run: Path) -> int:
    """The epochs of a run that need not be trained again."""
    return max((_epoch_of(path) for path in _all(run)), default=0)


def sweep(run: Path) -> None:
    """Remove what a process that was killed has left of a checkpoint."""
    for path in (run / CHECKPOINTS).glob(".*"):
        shutil.rmtree(path)


def _all(run: Path) -> list[Path]:
    """Checkpoints, the oldest first."""
    found = [path for path in (run / CHECKPOINTS).glob(f"{_NAME}*") if path.name.removeprefix(_NAME).isdecimal()]
    return sorted(found, key=_epoch_of)


def _epoch_of(path: Path) -> int:
    return int(path.name.removeprefix(_NAME))


def _link_all(source: Path, target: Path) -> None:
    """The files of a directory in another: they are never written to again, so one copy on the disk serves both."""
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:  # not every file system has links
            shutil.copyfile(file, target / file.name)
