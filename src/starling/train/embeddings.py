"""Embeddings of a run: which nodes have them, how they are kept beside the model's weights, and read again for inference.

A run directory has them in ``embeddings/``: ``rows.npy`` [V, D] in the order of the imported graph, as they were in the best
epoch, and a manifest that says of which graph. What optimisers remember of rows is in checkpoints (checkpoint_directory.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.artifact import staged
from starling.core.errors import InputError
from starling.core.manifest import Count, GraphManifest, Manifest, Record, read_json
from starling.core.memory import Size
from starling.core.npy import map_array
from starling.engine.embeddings.features import Beside, EmbeddedFeatures, InPlace
from starling.engine.embeddings.optimizers import SparseName
from starling.engine.embeddings.table import RAW, EmbeddingTable, TableSpec
from starling.engine.features import DenseFeatures, Features
from starling.engine.hybrid.share.source import WorkerSource
from starling.engine.source import GraphSource
from starling.engine.typed_features import TypedFeatures
from starling.store.parts_manifest import PartsManifest
from starling.train.embedding_files import write_array

EMBEDDINGS, ROWS = "embeddings", "rows.npy"
DEFAULT_DIM = 64

AnySource = TypeVar("AnySource", GraphSource, WorkerSource)


class EmbeddingSettings(Record):
    """Rows that are learnt for nodes."""

    dim: Annotated[int, Field(ge=0)] | None = None
    """Learnt numbers a node. By default 64 for a graph without features and none otherwise; given, they stand beside features."""
    optimizer: SparseName = "adam"
    """How rows move: sgd, adagrad or adam, each only rows that a step has touched."""
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Learning rate of rows; by default that of the weights. It follows the same schedule."""
    memory: Annotated[Size, Field(ge=1)] | None = None
    """Bytes of rows and of what the optimiser remembers that each worker holds; where there are more, they are in a file."""

    def rate(self, now: float, weights: float) -> float:
        """The learning rate of rows where that of weights, which began with `weights`, is `now`."""
        return now if self.lr is None else now * (self.lr / weights)


class EmbeddingsManifest(Manifest):
    """What ``embeddings/manifest.json`` of a run directory says: whose rows these are."""

    format: Literal["starling-embeddings"] = "starling-embeddings"
    version: int = 1
    nodes: Count
    width: Count
    graph: str
    """SHA-256 of the edges of the graph."""


def with_embeddings(source: AnySource, settings: EmbeddingSettings, seed: int) -> AnySource:
    """The same source with learnt rows beside its features, or in their place where there are none."""
    features = source.features
    bare = features.bare if isinstance(features, TypedFeatures) else None
    dim = learnt_width(settings, features, 0 if bare is None else int(source.total(np.array([len(bare)]))[0]), source.path)
    if dim == 0:
        return source
    spec = TableSpec(dim, settings.optimizer, seed, settings.memory)
    if isinstance(features, TypedFeatures) and bare is not None:
        table = EmbeddingTable(source.graph.position[bare] if isinstance(source, WorkerSource) else bare, spec)
        return replace(source, features=EmbeddedFeatures(features.widened(dim), table, _row_of(features.count, bare)))
    positions = source.graph.position[: source.graph.owned] if isinstance(source, WorkerSource) else np.arange(source.nodes)
    return replace(source, features=EmbeddedFeatures(features, EmbeddingTable(positions, spec)))


def learnt_width(settings: EmbeddingSettings, features: Features, bare: int, path: Path) -> int:
    """Learnt numbers of a node that has such, 0 where none has; `bare` nodes of the whole graph are of types without features."""
    if isinstance(features, TypedFeatures):
        if settings.dim and bare == 0:
            raise InputError(
                "--embedding-dim is for nodes without features where types have their own, and every type has some."
            )
        return 0 if settings.dim == 0 or bare == 0 else settings.dim or DEFAULT_DIM
    dim = settings.dim if settings.dim is not None else DEFAULT_DIM if features.width == 0 else 0
    if dim == 0 and features.width == 0:
        raise InputError(
            f"{path} has no features 'x', and no embeddings are to be learnt. Import it with --features, or leave out "
            "--embedding-dim 0."
        )
    if dim == 0 and (unused := settings.changed - {"dim"}):
        raise InputError(
            f"'{min(unused)}' of [embedding] is for learnt rows, and {path} has features instead. Pass --embedding-dim "
            "to learn some beside them, or leave it out."
        )
    return dim


def check_embeddings(wanted: bool, sync: str) -> None:
    """Refuse what would read rows before they are moved."""
    if wanted and sync == "stale":
        raise InputError(
            "Rows of embeddings move at their owner in every step, for all workers at once, got --sync stale. Pass --sync "
            "gradient, or --embedding-dim 0 where the graph has features."
        )


def _row_of(count: int, bare: NDArray[np.int64]) -> NDArray[np.int64]:
    row_of = np.full(count, -1, np.int64)
    row_of[bare] = np.arange(len(bare))
    return row_of


def table_of(features: Features) -> EmbeddingTable | None:
    """The table that features are learnt in, if there is one."""
    table = features.table if isinstance(features, EmbeddedFeatures) else None
    return table if isinstance(table, EmbeddingTable) else None


def save_embeddings(table: EmbeddingTable, team: Team, number: int, graph: Path, run: Path | None) -> None:
    """Write all workers' rows into the run directory, by the first worker, block by block; the directory is replaced at once.

    Every worker calls this; `number` tells the messages of one time from those of the next.
    """
    tag = make_tag(Channel.EMBEDDINGS, number, 0)
    nodes = nodes_of(graph)
    if team.rank != 0:
        write_array(table, RAW, team, tag, None, nodes)
        return
    assert run is not None, "the first worker writes the run directory"
    with staged(run / EMBEDDINGS, force=True) as staging:
        write_array(table, RAW, team, tag, staging / ROWS, nodes)
        EmbeddingsManifest(nodes=nodes, width=table.width, graph=edges_of(graph)).seal(staging)


def saved_embeddings(features: Features, graph: Path, run: Path) -> Features:
    """Features beside a run's embeddings, for inference; refuses a graph other than that of the run, whose nodes nobody knows."""
    manifest = EmbeddingsManifest.read(run / EMBEDDINGS)
    manifest.check_sizes(run / EMBEDDINGS)
    if manifest.graph != edges_of(graph):
        raise InputError(
            f"The embeddings of {run} belong to the nodes of the graph it was trained on, got {graph}, another one. Train on it."
        )
    learnt = DenseFeatures(map_array(run / EMBEDDINGS / ROWS))
    if isinstance(features, TypedFeatures):
        return InPlace(features.widened(learnt.width), learnt, features.bare)
    return learnt if features.width == 0 else Beside(features, learnt)


def edges_of(graph: Path) -> str:
    """The SHA-256 of a graph's edges, also where the graph is in parts."""
    if read_json(graph).get("format") == "starling-parts":
        return PartsManifest.read(graph).input
    return GraphManifest.read(graph).files["edges.npy"].sha256


def nodes_of(graph: Path) -> int:
    """How many nodes a graph has, also where it is in parts; some may have features, and no learnt row."""
    return int(str(read_json(graph)["nodes"]))
