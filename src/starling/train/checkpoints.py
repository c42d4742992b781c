"""When a run writes a checkpoint, what is in it, and how a run goes on from there: as if it had never been stopped, to the bit.

Batches, samples and dropout are keyed by epoch, step and node, so what an epoch depends on is what earlier ones have learnt, and
nothing else: weights, what moves them, the best so far. All workers take part; the first writes.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from starling.comm.first import bytes_at_first, bytes_from_first
from starling.comm.tags import Channel, make_tag
from starling.core.errors import InputError
from starling.train.checkpoint_directory import STATE, Checkpoint, CheckpointManifest, new_checkpoint, sweep
from starling.train.config import RunConfig
from starling.train.embedding_files import read_array, write_array
from starling.train.embeddings import EMBEDDINGS, nodes_of
from starling.train.journal import Journal
from starling.train.kinds import Loop
from starling.train.resuming import check_epochs, check_unchanged, contents_of, essence
from starling.train.run_directory import RunDirectory

SECONDS = 60.0
"""From one checkpoint to the next, where a run does not say after how many epochs."""

_DUE, _OWN, _STATE, _METRICS, _ARRAYS = 0, 1, 2, 3, 8
"""Messages of a checkpoint; arrays of embeddings have one each."""


class Checkpoints:
    """Those of one run under way, as one worker sees them."""

    def __init__(self, journal: Journal, loop: Loop) -> None:
        self._journal, self._loop, self._team, self._setup = journal, loop, journal.team, journal.setup
        self._every = journal.setup.config.run.checkpoint_every
        self._epoch, self._time = 0, time.monotonic()

    def resume(self) -> int:
        """Go on from the newest checkpoint of the run directory; the epochs that are done, none where there is no checkpoint."""
        directory = self._journal.directory
        found = None if directory is None else Checkpoint.latest(directory.path)
        state = bytes_from_first(self._team, _tag(0, _STATE), (found.path / STATE).read_bytes() if found else b"")
        kept = self._checked(state) if state else None  # before anything of the run is touched
        lines = b"" if directory is None else _taken_up(directory, self._setup.config, found)
        lines = bytes_from_first(self._team, _tag(0, _METRICS), lines)
        if kept is None:
            return 0
        self._restore(kept, lines.decode().splitlines(), found.path if found else None)
        self._epoch, self._time = kept["epoch"], time.monotonic()
        return self._epoch

    def _checked(self, state: bytes) -> dict[str, Any]:
        """What a checkpoint holds; refuses one that this run cannot go on from."""
        kept: dict[str, Any] = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
        config, size = self._setup.config, self._team.size
        if kept["workers"] != size:
            raise InputError(
                f"The checkpoint is of {kept['workers']} workers, and {size} were started. Start as many as before."
            )
        check_unchanged(kept["settings"], config, "The checkpoint", "begin another run")
        check_epochs(kept["epoch"], kept["epochs"], config, "the checkpoint")
        if kept["data"] != contents_of(config.data.path):
            raise InputError(
                f"The checkpoint was learnt from other data than {config.data.path} has by now. Begin another run."
            )
        return kept

    def after(self, epoch: int) -> None:
        """Write a checkpoint, if it is time for one."""
        if self._is_due(epoch):
            self._team.phase.enter(f"checkpoint after epoch {epoch}")
            self._write(epoch)
            self._epoch, self._time = epoch, time.monotonic()

    def _is_due(self, epoch: int) -> bool:
        if self._every is not None:
            return self._every > 0 and epoch - self._epoch >= self._every
        late = time.monotonic() - self._time >= SECONDS  # of the first worker: clocks differ
        return bool(self._team.all_lists(_tag(epoch, _DUE), np.array([late]))[0][0])

    def _write(self, epoch: int) -> None:
        team, directory = self._team, self._journal.directory
        own = bytes_at_first(
            team, _tag(epoch, _OWN), _packed({"loop": self._loop.own_state(), "random": torch.get_rng_state()})
        )
        if directory is None:
            self._write_arrays(epoch, None)
            return
        state = {
            "epoch": epoch,
            "epochs": self._setup.config.run.epochs,
            "data": contents_of(self._setup.config.data.path),
            "workers": team.size,
            "settings": essence(self._setup.config),
            "model": self._setup.model.state_dict(),
            "loop": self._loop.state(),
            "best": self._journal.state(),
            "own": [_unpacked(one) for one in own],
        }
        manifest = CheckpointManifest(epoch=epoch, workers=team.size, metrics_bytes=directory.settle_metrics())
        with new_checkpoint(directory.path, manifest) as folder:
            (folder / STATE).write_bytes(_packed(state))
            self._write_arrays(epoch, folder)

    def _write_arrays(self, epoch: int, folder: Path | None) -> None:
        """What is learnt of nodes, where it is."""
        table = self._setup.embeddings
        if table is None:
            return
        if folder is not None:
            (folder / EMBEDDINGS).mkdir()
        nodes = nodes_of(self._setup.config.data.path)
        for number, name in enumerate(table.arrays):
            write_array(table, name, self._team, _tag(epoch, _ARRAYS + number), _array(folder, name), nodes)

    def _restore(self, kept: Mapping[str, Any], lines: list[str], folder: Path | None) -> None:
        own, table, directory = kept["own"][self._team.rank], self._setup.embeddings, self._journal.directory
        self._setup.model.load_state_dict(kept["model"])
        if table is not None:
            for number, name in enumerate(table.arrays):
                read_array(table, name, self._team, _tag(0, _ARRAYS + number), _array(folder, name))
        self._loop.restore(kept["loop"], own["loop"])
        self._journal.restore(kept["best"], lines)
        if directory is not None and kept["best"]:
            directory.save_weights(kept["best"]["weights"])
        torch.set_rng_state(own["random"])  # the last thing, whatever the others have drawn


def _taken_up(directory: RunDirectory, config: RunConfig, found: Checkpoint | None) -> bytes:
    """Have a run directory as it was at a checkpoint, or at the start; its metrics until then."""
    directory.reopen(config)
    sweep(directory.path)
    if found is not None:
        found.restore_best_rows(directory.path)
    return directory.cut_metrics(found.manifest.metrics_bytes if found else 0)


def _tag(epoch: int, call: int) -> int:
    return make_tag(Channel.CHECKPOINT, epoch, call)


def _array(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / EMBEDDINGS / f"{name}.npy"


def _packed(state: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    return buffer.getvalue()


def _unpacked(state: bytes) -> Any:
    return torch.load(io.BytesIO(state), weights_only=True)
