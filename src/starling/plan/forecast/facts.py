"""What a forecast knows of a graph: its numbers, how it falls apart, and where each number comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from starling.core.errors import InputError
from starling.plan.expected_sizes import Degrees
from starling.plan.forecast.degrees import assumed, counted

if TYPE_CHECKING:
    from starling.core.manifest import GraphManifest, Table
    from starling.store.graph import Graph
    from starling.store.parts_manifest import PartsManifest

ASSUMED_TRAINING = 0.5
"""Share of the nodes that are trained on, where nobody says."""
MOST_NODES = 1 << 40
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class GraphFacts:
    """A graph in numbers. `assumptions` says in words what was not read but guessed."""

    nodes: int
    edges: int
    features: int
    classes: int
    train: int
    evaluated: int
    """Nodes of all splits."""
    degrees: Degrees
    edge_features: int = 0
    relations: int = 0
    label_bytes: int = 8
    """Of a node's label."""
    directed: bool = False
    assumptions: tuple[str, ...] = ()


def facts_of_graph(graph: Graph) -> GraphFacts:
    """Read the manifest and, once, the edges."""
    manifest = graph.manifest
    if not manifest.splits:  # made elsewhere
        masks = {name: np.asarray(graph.node_table(name)) for name in _SPLITS if name in manifest.node_tables}
        manifest = manifest.model_copy(update={"splits": {name: int(mask.sum()) for name, mask in masks.items()}})
    return _from_manifest(manifest, counted(graph.edge_stream()), ())


def facts_of_parts(manifest: PartsManifest) -> GraphFacts:
    """From the manifest alone: parts need not be here."""
    degrees = assumed(manifest.nodes, manifest.edges)
    return _from_manifest(manifest, degrees, ("degrees: log-normal around their mean, since parts were given",))


def facts_of_numbers(
    nodes: int, edges: int, features: int, *, classes: int | None, train: int | None, edge_features: int = 0, relations: int = 0
) -> GraphFacts:
    """A graph that is not here yet."""
    if nodes > MOST_NODES or edges > MOST_NODES:
        raise InputError(f"Expected at most {MOST_NODES:,} nodes and edges, got {nodes:,} and {edges:,}.")
    if edges > (most := nodes * nodes * max(relations, 1)):
        raise InputError(
            f"Expected at most {most:,} edges between {nodes:,} nodes, one for each pair and relation, got {edges:,}. Raise "
            "--nodes, or lower --edges."
        )
    if train is not None and not 1 <= train <= nodes:
        raise InputError(f"Expected from 1 to {nodes:,} training nodes, as many as there are nodes, got {train:,}.")
    notes = ["degrees: log-normal around their mean (--nodes and --edges are all that is known)"]
    if train is None:
        train = max(1, round(nodes * ASSUMED_TRAINING))
        notes.append(f"training nodes: {ASSUMED_TRAINING:.0%} of all (say --train-share)")
    if classes is None:
        classes = 16
        notes.append("classes: 16 (say --classes)")
    return GraphFacts(
        nodes, edges, features, classes, train, nodes, assumed(nodes, edges), edge_features, relations, assumptions=tuple(notes)
    )


def _from_manifest(manifest: GraphManifest | PartsManifest, degrees: Degrees, notes: tuple[str, ...]) -> GraphFacts:
    tables, labels = manifest.node_tables, manifest.labels
    if any(name.startswith("x@") for name in tables):
        raise InputError(
            "A forecast is for nodes with the same features, and the graph has features of each node type. Forecast from numbers: "
            f"starling forecast --nodes {manifest.nodes} --edges {manifest.edges}, and as --features the width of --hidden."
        )
    if "x" not in tables:
        raise InputError("The graph has no features 'x', so there is nothing to forecast. Import it with --features.")
    if labels is None or not manifest.splits.get("train"):
        raise InputError(
            "The graph has no labels or no training nodes, so there is nothing to forecast. Import it with --labels and --split."
        )
    y = tables.get("y")
    attr = manifest.edge_tables.get("attr")
    outputs = labels.classes if labels.kind != "real" else (math.prod(y.shape[1:]) if y is not None else 1)
    return GraphFacts(
        nodes=manifest.nodes,
        edges=manifest.edges,
        features=_width(tables["x"]),
        classes=max(outputs, 1),
        train=manifest.splits["train"],
        evaluated=sum(manifest.splits.values()),
        degrees=degrees,
        edge_features=0 if attr is None else _width(attr),
        relations=len(manifest.edge_types),
        label_bytes=8 if y is None else int(np.dtype(y.dtype).itemsize * math.prod(y.shape[1:])),
        directed=manifest.directed,
        assumptions=notes,
    )


def _width(table: Table) -> int:
    return math.prod(table.shape[1:])
