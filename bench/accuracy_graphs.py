"""The labelled graphs of the accuracy table: how each file becomes a graph directory that both sides train on.

A file is an .npz with `edge_index` [2, E], `num_nodes`, features `x` (or `x_data`, `x_indices`, `x_indptr`, `x_shape`), labels `y`
(−1 for none), masks, and perhaps `edge_type` or `edge_attr`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from starling.plan.partitioning import PartitionRequest, partition_graph
from starling.store.graph import create_graph, open_graph
from starling.stream.readers.open import open_inputs

Arrays = dict[str, Any]
Split = Literal["public", "ten", "random", "train fifth"]

SPLITS: dict[Split, str] = {
    "public": "the file's split",
    "ten": "the file's ten splits, one a seed",
    "random": "60/20/20 of the labelled nodes at random, by seed",
    "train fifth": "the file's train and test nodes; a fifth of the train nodes, by seed, validate",
}
WIDEST = 5_000_000
KEPT_COLUMNS = 512


@dataclass(frozen=True)
class LabelledGraph:
    """A file and how it is prepared. Features of more than `WIDEST` entries keep their `KEPT_COLUMNS` most frequent columns."""

    name: str
    split: Split
    normalize: Literal["none", "rows", "standard"] = "rows"
    features: Literal["own", "degrees", "relations"] = "own"
    metric: str | None = None
    whole: bool = False
    """Keep all columns of the features however many there are."""

    @property
    def many_labels(self) -> bool:
        """Whether about half of all nodes train; such graphs are trained with batch norm, which needs many labels."""
        return self.split in ("ten", "random") or self.name == "ppi"

    @property
    def by_seed(self) -> bool:
        """Whether each seed has a split of its own."""
        return self.split != "public"


GRAPHS = {
    graph.name: graph
    for graph in (
        LabelledGraph("cora", "public", whole=True),
        LabelledGraph("citeseer", "public", whole=True),
        LabelledGraph("pubmed", "public", whole=True),
        LabelledGraph("actor", "ten", "standard"),
        LabelledGraph("chameleon", "ten", "standard"),
        LabelledGraph("coauthor_cs", "random", "standard"),
        LabelledGraph("amazon_photo", "random", "standard"),
        LabelledGraph("tolokers", "ten", "standard", metric="auc"),
        LabelledGraph("musae_github", "random", "standard"),
        LabelledGraph("flickr_small", "random", "standard"),
        LabelledGraph("blogcatalog_attr", "random", "standard"),
        LabelledGraph("nell", "train fifth"),
        LabelledGraph("ppi", "public", "standard"),
        LabelledGraph("hgb_acm", "train fifth"),
        LabelledGraph("hgb_dblp", "train fifth"),
        LabelledGraph("rdf_aifb", "train fifth", "standard", features="relations"),
        LabelledGraph("rdf_mutag", "train fifth", "standard", features="relations"),
        LabelledGraph("bitcoin_otc", "public", "standard", features="degrees"),
    )
}
SKIPPED = {
    "deezer_hu, blogcatalog3": "many labels a node, no features: nothing but degrees to learn from",
    "fb15k237, wn18rr": "links to predict, no node labels",
    "road_ne, road_ny, mesh_mdual, mesh_copter2, web_notredame, ego_twitter, soc_epinions1, email_enron, ca_astroph": "no labels",
}


def prepare(graph: LabelledGraph, data: Path, scratch: Path, seed: int) -> Path:
    """The graph directory of a seed, made when it is first asked for."""
    place = scratch / (f"{graph.name}-{seed}" if graph.by_seed else graph.name)
    if not place.is_dir():
        scratch.mkdir(parents=True, exist_ok=True)
        with np.load(data / f"{graph.name}.npz") as file:
            arrays = {key: file[key] for key in file.files if key != "meta"}
        arrays = _with_split(_with_features(_both_ways(arrays), graph), graph, seed)
        npz = scratch / f"{place.name}.npz"
        np.savez(npz, **arrays)
        create_graph(open_inputs([str(npz)], memory=1 << 30), place)
        npz.unlink()
    return place


def prepare_parts(graph: LabelledGraph, data: Path, scratch: Path, seed: int, parts: int, *, halo_hops: int = 1) -> Path:
    """The same in parts, made when they are first asked for; the graph directory itself where `parts` is 0."""
    whole = prepare(graph, data, scratch, seed)
    if not parts:
        return whole
    place = scratch / f"{whole.name}-p{parts}-h{halo_hops}"
    if not place.is_dir():
        partition_graph(open_graph(whole), place, PartitionRequest(parts=parts, halo_hops=halo_hops))
    return place


def _both_ways(arrays: Arrays) -> Arrays:
    """Every edge in both directions. Reverses of typed edges get types of their own, of attributed ones a column that says so."""
    arrays = dict(arrays)
    source, destination = arrays["edge_index"].astype(np.int64)
    nodes = int(arrays["num_nodes"])
    forth, back = source * nodes + destination, destination * nodes + source
    if np.isin(back, forth).all():
        return arrays
    both = np.stack([np.concatenate([source, destination]), np.concatenate([destination, source])])
    arrays.pop("edge_time", None)
    if "edge_type" in arrays:
        kinds = arrays["edge_type"].astype(np.int64)
        arrays["edge_type"] = np.concatenate([kinds, kinds + kinds.max() + 1])
    elif "edge_attr" in arrays:
        attr = arrays["edge_attr"]
        reverse = np.repeat(np.array([0.0, 1.0], np.float32), len(attr))[:, None]
        arrays["edge_attr"] = np.hstack([np.concatenate([attr, attr]), reverse])
    else:
        key = np.unique(np.concatenate([forth, back]))
        both = np.stack([key // nodes, key % nodes])
    return arrays | {"edge_index": both}


def _with_features(arrays: Arrays, graph: LabelledGraph) -> Arrays:
    nodes = int(arrays["num_nodes"])
    if graph.features != "own":
        destination = arrays["edge_index"][1]
        if graph.features == "relations":  # in-edges of each relation; with reverses among them also out-edges
            counts = np.zeros((nodes, int(arrays["edge_type"].max()) + 1), np.float32)
            np.add.at(counts, (destination, arrays["edge_type"]), 1)
        else:
            reverse = arrays["edge_attr"][:, -1] == 1
            counts = np.stack([np.bincount(destination[way], minlength=nodes) for way in (~reverse, reverse)], 1)
        return arrays | {"x": np.log1p(counts).astype(np.float32)}
    if graph.whole or "x_data" not in arrays or nodes * int(arrays["x_shape"][1]) <= WIDEST:
        return arrays
    x = sp.csr_matrix((arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=arrays["x_shape"])
    often = np.argsort(-np.bincount(x.indices, minlength=x.shape[1]), kind="stable")[:KEPT_COLUMNS]
    kept = x[:, np.sort(often)].tocsr()
    sparse = {"x_data": kept.data, "x_indices": kept.indices, "x_indptr": kept.indptr, "x_shape": np.array(kept.shape)}
    return arrays | sparse


def _with_split(arrays: Arrays, graph: LabelledGraph, seed: int) -> Arrays:
    tens = {f"{name}_mask": arrays.pop(f"{name}_masks", None) for name in ("train", "val", "test")}
    if graph.split == "ten":
        return arrays | {name: masks[seed % 10] for name, masks in tens.items()}
    if graph.split == "public":
        return arrays
    draw = np.random.default_rng(seed)
    if graph.split == "random":
        labelled = draw.permutation(np.flatnonzero(arrays["y"] >= 0))
        groups = np.split(labelled, [int(0.6 * len(labelled)), int(0.8 * len(labelled))])
    else:
        train = draw.permutation(np.flatnonzero(arrays["train_mask"]))
        fifth = len(train) // 5
        groups = [train[fifth:], train[:fifth], np.flatnonzero(arrays["test_mask"])]
    nodes = np.arange(int(arrays["num_nodes"]))
    names = ("train_mask", "val_mask", "test_mask")
    return arrays | {name: np.isin(nodes, group) for name, group in zip(names, groups, strict=True)}
