"""Training from Python and from the command line: in this process, or by workers that are started for it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from starling.core.environment import computing_threads
from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, read_json
from starling.core.progress import SILENT, Progress
from starling.launch.folders import own_folder
from starling.launch.local import run_workers
from starling.launch.preflight import check_parts, check_team_size
from starling.launch.train_worker import ENTRY, followed
from starling.store.graph import open_graph
from starling.store.parts_manifest import PartsManifest
from starling.train.config import CONFIG, DataSettings, RunConfig
from starling.train.devices import check_cards
from starling.train.graph_preflight import check_before_workers
from starling.train.prediction import trained_model
from starling.train.results import TrainResult, Watcher
from starling.train.resuming import resumed
from starling.train.run_directory import RunDirectory, check_free
from starling.train.setup import check_choices, is_shared
from starling.train.trainer import fit

PARTS = "parts"
"""Of a run directory: the parts of a graph that was not partitioned before."""


class Trainer:
    """Trains one run.

    `config` is a `RunConfig`, or its tables as a config file has them: ``{"data": {"path": "graph"}, "model": {"name": "gcn"}}``.
    `run` is the directory to write, ``runs/<graph>-<number>`` by default. With ``{"team": {"workers": 4}}`` four processes train.
    `Trainer.resume` takes up a run that was stopped.
    """

    def __init__(
        self,
        config: RunConfig | Mapping[str, Mapping[str, Any]],
        *,
        run: Path | str | None = None,
        watch: Watcher | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.config = config if isinstance(config, RunConfig) else RunConfig.from_tables(config)
        self._run, self._watch, self._progress = None if run is None else Path(run), watch, progress
        self._resume = False

    @classmethod
    def resume(
        cls, run: Path | str, changes: Mapping[str, Mapping[str, Any]] | None = None, *, watch: Watcher | None = None
    ) -> Self:
        """A trainer that goes on with a run from its newest checkpoint, as if it had not been stopped.

        `changes` are tables laid over its settings, of how long it trains: ``{"run": {"epochs": 300}}``.
        """
        made = cls(resumed(Path(run), changes or {}), run=run, watch=watch)
        made._resume = True
        return made

    def fit(self) -> TrainResult:
        """Train to the end and write the run directory; the result's model has the best epoch's weights."""
        if not self._resume:
            check_free(self._run)
        config = self.config.model_copy(update={"data": _resolved(self.config.data)})
        if not is_shared(config):
            return self._fit_alone(config, self._run)
        check_choices(config)  # before processes are started, which would only find out the same
        check_cards(config)
        path, workers = config.data.path, config.team.workers
        are_parts = read_json(path).get("format") == "starling-parts"
        manifest = PartsManifest.read(path) if are_parts else GraphManifest.read(path)
        if isinstance(manifest, PartsManifest):
            check_parts(path, manifest, workers=workers, shared=config.shares_parts)
        check_team_size(workers, manifest.nodes, path)
        check_before_workers(config, manifest)
        if self._run is not None and self._resume:
            directory = RunDirectory(self._run)
        else:
            directory = RunDirectory.create(self._run, config.data.path.name)
        try:
            return self._fit_parts(config, directory) if are_parts else self._fit_cut(config, directory)
        except BaseException:
            if not (directory.path / CONFIG).exists():  # nothing was learnt: leave nothing
                directory.remove()
            raise
        finally:
            directory.remove_scratch()

    def _fit_cut(self, config: RunConfig, directory: RunDirectory) -> TrainResult:
        """Cut the graph into parts of the run's own, and train on these."""
        graph, parts = config.data.path, directory.path / PARTS
        try:
            return self._fit_parts(_partitioned(config, parts, self._progress), directory)
        except InputError as error:  # the user knows the graph; the parts leave with the run
            raise InputError(str(error).replace(str(parts.resolve()), str(graph))) from error

    def _fit_parts(self, config: RunConfig, directory: RunDirectory) -> TrainResult:
        return self._fit_alone(config, directory) if config.team.workers == 1 else self._fit_together(config, directory)

    def _fit_alone(self, config: RunConfig, run: Path | RunDirectory | None) -> TrainResult:
        with computing_threads(config.team.threads):
            return fit(config, run, watch=self._watch, resume=self._resume)

    def _fit_together(self, config: RunConfig, directory: RunDirectory) -> TrainResult:
        team = config.team
        with own_folder(Path(tempfile.gettempdir())) as folder:
            live = folder / "live.jsonl"
            spec = {
                "config": config.to_toml(),
                "run": str(directory.path.resolve()),
                "resume": self._resume,
                "live": str(live) if self._watch else None,
            }
            with followed(live, self._watch):
                told = run_workers(
                    ENTRY,
                    spec,
                    workers=team.workers,
                    threads=team.threads,
                    deadline=team.deadline,
                    transport=team.transport,
                    device=config.run.device,
                    remains=lambda: directory.remains,
                )
        summary = told["summary"] | {"run": directory.path}
        return TrainResult.from_json(summary, tuple(told["losses"]), trained_model(directory))


def _resolved(data: DataSettings) -> DataSettings:
    return data.model_copy(update={"path": data.path.resolve()})


def _partitioned(config: RunConfig, parts: Path, progress: Progress) -> RunConfig:
    """The same run on parts of its graph, one a worker."""
    from starling.plan.partitioning import PartitionRequest, partition_graph

    graph = open_graph(config.data.path)
    if config.team.workers == 1 and config.team.boundary < 1:
        raise InputError(
            f"--boundary says how parts hear of one another, got a whole graph, {config.data.path}. Pass a parts directory, or "
            "--workers 2 or more."
        )
    partition_graph(graph, parts, PartitionRequest(parts=config.team.workers, seed=config.run.seed), progress=progress)
    return config.model_copy(update={"data": config.data.model_copy(update={"path": parts.resolve()})})
