"""From a run directory to a prediction for every node, of the graph it was trained on or of another like it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray
from torch import nn

from starling.core.errors import InputError
from starling.core.memory import peak_rss_bytes
from starling.engine.embeddings.features import EmbeddedFeatures
from starling.engine.source import GraphSource
from starling.infer.predictions import Meaning, Predictions, check_output, write_predictions
from starling.nn.decoders import LinkModel
from starling.plan.registry import read_settings
from starling.train.budget import budget
from starling.train.config import RunConfig
from starling.train.devices import check_device
from starling.train.embeddings import saved_embeddings
from starling.train.links.prediction import predict_links
from starling.train.metrics import TaskKind, make_score
from starling.train.model import Shapes, layers_of, make_model, shapes_of
from starling.train.other_graph import check_like_trained
from starling.train.reading import read_source
from starling.train.results import Scores
from starling.train.run_directory import RunDirectory
from starling.train.setup import make_inference
from starling.train.tasks import as_trained, comparable, without_label

_MEANING: dict[str, Meaning] = {"classification": "class", "multilabel": "labels", "regression": "numbers"}


@dataclass(frozen=True)
class PredictRequest:
    """What to predict with and on, where to, and within how much memory."""

    run: Path
    output: Path
    graph: Path | None = None
    memory: int | None = None
    device: str | None = None
    force: bool = False
    pairs: Path | None = None
    """Link prediction: a file of pairs to score, in place of a row for every node."""


@dataclass(frozen=True)
class PredictResult:
    """What was predicted, and how well it agrees with labels where there are such."""

    nodes: int
    metric: str
    scores: Scores
    output: Path
    seconds: float
    peak_rss_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The object that ``infer --json`` prints."""
        return {
            "nodes": self.nodes,
            "metric": self.metric,
            **asdict(self.scores),
            "output": str(self.output),
            "seconds": self.seconds,
            "peak_rss_bytes": self.peak_rss_bytes,
        }


def predict(request: PredictRequest) -> PredictResult:
    """Run a trained model over all nodes and write what it predicts."""
    began = time.monotonic()
    check_output(request.output, request.force)
    directory = RunDirectory.open(request.run)
    config = _asked(directory.config(), request)
    check_device(config.run.device)
    memory = budget(config)
    source = read_source(config, memory)
    if isinstance(source.features, EmbeddedFeatures):
        source = replace(source, features=saved_embeddings(source.features.fixed, source.path, request.run))
    kind, outputs = cast(TaskKind, config.task.name), config.data.outputs or 0
    shapes = shapes_of(source, outputs)
    check_like_trained(config, shapes)
    model = make_model(config, shapes)
    try:
        model.load_state_dict(directory.weights())
    except RuntimeError as error:
        raise InputError(f"The weights of {request.run} do not fit its config. Was either of them replaced?") from error
    if isinstance(model, LinkModel):
        same = request.graph is None
        scores = predict_links(model, source, config, memory, request.output, request.pairs, same_graph=same)
        seconds = round(time.monotonic() - began, 3)
        return PredictResult(source.nodes, config.task.metric or "", scores, request.output, seconds, peak_rss_bytes())
    if request.pairs is not None:
        raise InputError(f"--pairs is for runs of link prediction, and {request.run} predicts nodes. Leave it out.")
    how = read_settings(config.strategy.name, config.strategy.settings)
    table = make_inference(config, how, source, layers_of(config, model), memory).outputs(model)
    classes = config.data.classes
    write_predictions(Predictions(table, source.ids, _MEANING[kind], classes), request.output, force=request.force)
    score = make_score(kind, config.task.metric, outputs)
    found: dict[str, float | None] = dict.fromkeys(("train", "val", "test"))
    y = _labels_to_score(source, kind, outputs, classes)
    if y is not None:
        labelled = {name: rows[~without_label(y[rows])] for name, rows in source.splits.items()}
        found |= {name: score.of(table, y, rows) for name, rows in labelled.items()}
    seconds = round(time.monotonic() - began, 3)
    return PredictResult(source.nodes, score.name, Scores(**found), request.output, seconds, peak_rss_bytes())


def _labels_to_score(source: GraphSource, kind: TaskKind, outputs: int, classes: Sequence[str]) -> NDArray[Any] | None:
    """The graph's labels by the numbers that outputs have; None where they cannot be held against these."""
    if source.labels is None or source.y is None or not comparable(kind, source.labels, source.y, outputs):
        return None
    return as_trained(source.labels, source.y, classes)


def trained_model(directory: RunDirectory) -> nn.Module:
    """The model of a run with its best weights."""
    config = directory.config()
    data = config.data
    shapes = Shapes(data.features or 0, data.outputs or 0, data.edge_features or 0, data.relations or 0, data.type_widths)
    model = make_model(config, shapes)
    model.load_state_dict(directory.weights())
    return model


def _asked(config: RunConfig, request: PredictRequest) -> RunConfig:
    data = config.data.model_copy(update={"path": request.graph}) if request.graph else config.data
    run = config.run.model_copy(
        update={"memory": request.memory or config.run.memory, "device": request.device or config.run.device}
    )
    return config.model_copy(update={"data": data, "run": run})
