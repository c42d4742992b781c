"""What a manifest tells before a graph is cut for workers, which takes minutes where it is large, or workers are started."""

from __future__ import annotations

from pathlib import Path

from starling.core.manifest import GraphManifest
from starling.nn.pyg import check_for_teams, pyg_layer
from starling.nn.registry import MODELS
from starling.plan.fanouts import one_a_layer
from starling.plan.mini import Mini
from starling.plan.targets import check_batch
from starling.store.parts_manifest import PartsManifest
from starling.train.config import RunConfig
from starling.train.edge_tables import check_edge_tables
from starling.train.graph_checks import check_averaged_rows
from starling.train.setup import check_choices, check_shapes
from starling.train.tasks import fitting_task

_SOME_WIDTH = 16
"""Of a convolution that is only looked at."""


def check_before_workers(config: RunConfig, manifest: GraphManifest | PartsManifest) -> None:
    """Refuse labels, splits, widths, fan-outs and batches that workers would only refuse once they have their parts."""
    settings, how = check_choices(config)
    if config.model.name.startswith("pyg:") and config.team.parallel == "hybrid":
        check_for_teams(pyg_layer(config.model.name[4:], _SOME_WIDTH, _SOME_WIDTH, settings["options"]).convolution)
    path: Path = config.data.path
    outputs: int | None = None
    if config.task.name != "link":
        train = manifest.splits.get("train", 0)
        _, labels = fitting_task(config.task.name, manifest.labels, train, path)
        outputs = labels.classes if labels.kind != "real" else None
        if isinstance(how, Mini.Settings):
            check_batch(how.batch_size, train)
    if isinstance(how, Mini.Settings) and config.model.name in MODELS:
        one_a_layer(how.fanouts, settings["layers"])
    if config.sync.name == "average":
        check_averaged_rows(config, manifest)
    x = manifest.node_tables.get("x")
    features = None if x is None or config.embedding.dim else x.shape[1] if len(x.shape) > 1 else 1
    check_shapes(config, features, outputs)
    check_edge_tables(config, manifest.edge_tables)
