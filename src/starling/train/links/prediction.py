"""What ``starling infer`` writes for link prediction: a row of numbers for every node, or the scores of pairs in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.manifest import GraphManifest, read_json
from starling.core.npy import save_array
from starling.engine.row_table import RowTable
from starling.engine.source import GraphSource
from starling.infer.layerwise import Inference
from starling.infer.predictions import Predictions, write_predictions
from starling.nn.decoders import Decoder, LinkModel
from starling.plan.links.negatives import known_pairs
from starling.plan.links.splits import TRAIN
from starling.store.parts_manifest import PartsManifest
from starling.train.config import RunConfig
from starling.train.links.edge_split import find_split
from starling.train.links.held_out import Examination, HeldOut
from starling.train.links.metrics import make_link_score
from starling.train.links.scores import OwnScores
from starling.train.links.sources import all_edges, held_by, training_source
from starling.train.results import Scores

_BLOCK = 1 << 16
_ENDS = ("source", "destination")


def predict_links(
    model: LinkModel, source: GraphSource, config: RunConfig, memory: int, output: Path, pairs: Path | None, *, same_graph: bool
) -> Scores:
    """Write rows of all nodes, or scores of pairs. Messages are the run's training edges, or all edges of another graph."""
    scores, graph = Scores(None, None, None), source
    if same_graph:
        held = held_by(source)
        rule = find_split(all_edges(source, held), config.link, config.run.seed)
        split = rule.of(held)
        graph = training_source(source, held, split == TRAIN)
    rows = Inference(graph, memory, config.run.device).outputs(model.encoder)
    if same_graph:
        known = known_pairs(held.lists, held.position)
        how, training = Examination(config.link, make_link_score(config.task.metric), config.run.seed), rule.sizes["train"]
        held_out = HeldOut(held, split, how, training, known, lambda one, other: known.holds(other, one), source.total)
        scores = OwnScores(held_out).of(rows, model.decoder)
    if pairs is None:
        write_predictions(Predictions(rows, source.ids, "numbers"), output, force=True)
    else:
        _write_scores(_read_pairs(pairs, source), source, rows, model.decoder, output)
    return scores


def _read_pairs(path: Path, source: GraphSource) -> pa.Table:
    """The columns source, destination and, where there is one, type of a CSV or Parquet file; ids that are text stay as written."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
        else:
            import pyarrow.csv as pacsv

            texts = dict.fromkeys(_ENDS, pa.string()) if source.ids.kind == "string" else {}
            table = pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types=texts))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"Expected a CSV or Parquet file of pairs in {path}: {str(error).splitlines()[0]}") from error
    missing = [name for name in _ENDS if name not in table.column_names]
    if missing:
        raise InputError(f"Expected the columns source and destination in {path}, got {', '.join(table.column_names)}.")
    return table


@torch.no_grad()
def _write_scores(table: pa.Table, source: GraphSource, rows: RowTable, decoder: Decoder, output: Path) -> None:
    """The table with a column score; .npy has the scores alone."""
    ends = [_positions(table[name].combine_chunks(), name, source) for name in _ENDS]
    relation = _relations(table, source)
    score = np.empty(len(table), np.float32)
    for start in range(0, len(table), _BLOCK):
        part = slice(start, start + _BLOCK)
        one, other = (torch.from_numpy(rows.rows(positions[part])) for positions in ends)
        kind = None if relation is None else torch.from_numpy(relation[part])
        score[part] = decoder.cpu()(one, other, kind).float().numpy()
    partial = output.with_name(f".{output.name}.partial-{os.getpid()}")
    try:
        _write(table.append_column("score", pa.array(score)), score, output.suffix, partial)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def _write(table: pa.Table, score: NDArray[np.float32], suffix: str, path: Path) -> None:
    if suffix == ".npy":
        save_array(path, score)
    elif suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    else:
        import pyarrow.csv as pacsv

        pacsv.write_csv(table, path)


def _positions(column: Any, name: str, source: GraphSource) -> NDArray[np.int64]:
    ids = column.cast(pa.string()) if source.ids.kind == "string" else _whole_numbers(column, name)
    positions = source.ids.positions(ids)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise InputError(
            f"{source.path} has no node '{column[int(unknown[0])]}', which is a {name} in row {int(unknown[0]):,}."
        )
    return positions


def _whole_numbers(column: Any, name: str) -> NDArray[np.int64]:
    if not pa.types.is_integer(column.type) or column.null_count:
        raise InputError(f"Expected whole numbers in the column {name}, as the nodes' ids are, got {column.type}.")
    return column.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _relations(table: pa.Table, source: GraphSource) -> NDArray[np.int64] | None:
    """The relation of each pair, by its name or number, where the graph has relations."""
    if "type" not in source.edge_tables:
        return None
    if "type" not in table.column_names:
        raise InputError("The edges of this graph have types, so pairs need a column type, got none.")
    parts = read_json(source.path).get("format") == "starling-parts"
    names = (PartsManifest if parts else GraphManifest).read(source.path).edge_types
    column = table["type"].combine_chunks()
    if pa.types.is_integer(column.type):
        numbers = column.to_numpy().astype(np.int64)
    else:
        numbers = np.array([names.index(name) if name in names else -1 for name in column.to_pylist()], np.int64)
    wrong = np.flatnonzero((numbers < 0) | (numbers >= max(source.relations, 1)))
    if len(wrong):
        raise InputError(
            f"There is no edge type '{column[int(wrong[0])]}' in {source.path}, which row {int(wrong[0]):,} asks for."
        )
    return numbers  # type: ignore[no-any-return]
