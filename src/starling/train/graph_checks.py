"""What a run wants of edges' types, weights and times, held against what the graph has, before any step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, read_json
from starling.engine.embeddings.features import EmbeddedFeatures
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import negative_weights
from starling.plan.mini import Mini
from starling.plan.strategy import Strategy
from starling.store.parts_manifest import PartsManifest
from starling.train.budget import team_budget
from starling.train.config import RunConfig
from starling.train.tasks import Source


def check_edges(config: RunConfig, how: Strategy.Settings, source: Source) -> None:
    """Refuse relations without edges, weights that are no weights, weighted degrees of a past nobody counted."""
    if config.team.parallel == "data":
        check_data_parallel(config, how)
    if learns_by_relation(config):
        _check_relations(config, source)
    if config.model.settings.get("edge_weights"):
        _check_weights(source)
        if isinstance(how, Mini.Settings) and how.past:
            raise InputError("Sums of edge weights are those of the whole graph, got past. Leave edge_weights or past out.")


def check_data_parallel(config: RunConfig, how: Strategy.Settings) -> None:
    """Refuse what workers that sample by themselves cannot do: it would be left out without a word."""
    past = isinstance(how, Mini.Settings) and how.past
    if past and config.team.local_only:
        raise InputError("Targets that look into their past need lists beyond their own part. Leave out --local-only, or past.")
    if past and config.sync.name == "average":
        raise InputError("Models that are averaged are trained without strategy.past. Pass --sync gradient.")


def check_averaged_rows(config: RunConfig, manifest: GraphManifest | PartsManifest) -> None:
    """Refuse to correct averaged models where nodes learn rows: a correction reads those of any part, which only it moves."""
    tables, dim = manifest.node_tables, config.embedding.dim
    typed = any(name.startswith("x@") for name in tables)
    bare = any(f"x@{name}" not in tables for name in manifest.node_types) if typed else "x" not in tables
    if config.sync.correct and (dim or (bare and dim is None)):
        raise InputError(
            f"--correct moves the mean by steps on nodes of all parts, and nodes of {config.data.path} learn rows, which move "
            "with their own part alone. Leave --correct out, or pass --sync gradient."
        )


def _check_relations(config: RunConfig, source: Source) -> None:
    kinds = source.edge_tables.get("type")
    if kinds is None or config.data.before is not None:  # before that time a relation may not be there yet
        return
    counts = source.total(np.bincount(kinds.numpy(), minlength=source.relations))
    check_relation_counts(
        counts, source.graph.manifest.edge_types if isinstance(source, WorkerSource) else source.relation_names, source.path
    )


def learns_by_relation(config: RunConfig) -> bool:
    """Whether a model, or what scores links, has weights for each relation."""
    decoded = config.task.name == "link" and config.link.decoder != "dot"
    return decoded or config.model.name in ("rgcn", "rgat") or bool(config.model.settings.get("relational"))


def type_names(config: RunConfig, type_widths: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """The names of node and edge types that a model has weights for, in the order of their numbers; none where it has none."""
    manifest: Any = read_json(config.data.path)
    used = {"node_types": bool(type_widths), "edge_types": learns_by_relation(config)}
    return {key: tuple(manifest.get(key, ())) if used[key] else () for key in used}


def check_relation_counts(counts: NDArray[Any], names: Sequence[str], path: Path) -> None:
    """Refuse a relation without edges, given how many edges each one has in the whole graph."""
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        name = names[empty[0]] if names else str(empty[0])
        raise InputError(
            f"Expected edges of every relation, as each has weights of its own to learn, got none of '{name}' in {path}. "
            "Import the graph without it."
        )


def _check_weights(source: Source) -> None:
    weight = source.edge_tables.get("weight")
    wrong = 0 if weight is None else int(np.count_nonzero(~(weight.numpy() >= 0)))
    if source.total(np.array([wrong]))[0]:
        raise negative_weights(source.path)


def check_features_fit(config: RunConfig, source: WorkerSource) -> None:
    """Refuse features beyond `--memory` where every worker holds all of its own, as evaluation by all together does."""
    if config.run.memory is None:
        return
    fixed = source.features.fixed if isinstance(source.features, EmbeddedFeatures) else source.features
    held = 4 * source.graph.owned * fixed.width
    largest = max(int(told[0]) for told in source.team.all_lists(source.calls.next_tag(), np.array([held])))
    if largest > team_budget(config, source.team.size) // source.team.size:
        raise InputError(
            f"Workers that evaluate together hold the features of their nodes, {largest:,} bytes for the largest of "
            f"{source.team.size}, more than its share of --memory. Pass a larger --memory, or --parallel data --sync "
            "average, which takes parts in turn."
        )
