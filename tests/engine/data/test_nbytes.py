"""Backpressure goes by bytes: a step counts everything it holds, edge tables and scales included."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from starling.comm.team import Team
from starling.engine.data.fetch import FetchedRows
from starling.engine.fill import FilledBatch
from starling.train.data_work import DataWork
from starling.train.setup import set_up
from tests.engine.data.cases import data_config, on_hosts, uneven_parts
from tests.engine.hybrid.runs import small_graph


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nbytes")
    return uneven_parts(small_graph(folder / "g"), folder / "parts")


def memory(values: list[Any]) -> int:
    """Bytes of arrays and tensors, overlapping ones once."""
    spans = []
    for value in values:
        if isinstance(value, Tensor):
            spans.append((value.data_ptr(), value.data_ptr() + value.nbytes))
        elif isinstance(value, np.ndarray):
            spans.append((value.ctypes.data, value.ctypes.data + value.nbytes))
    total, end = 0, 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def fetched_memory(step: FetchedRows) -> int:
    blocks = [getattr(block, part.name) for block in step.sampled.blocks for part in fields(block)]
    tables = [table for tables in step.edge_tables for table in tables.values()]
    return memory([step.sampled.inputs, *blocks, *tables, *(getattr(step, part.name) for part in fields(step))])


def filled_memory(batch: FilledBatch) -> int:
    graphs = [getattr(view.graph, part.name) for view in batch.views for part in fields(view.graph)]
    return memory([*graphs, *(getattr(batch, part.name) for part in fields(batch))])


@pytest.mark.parametrize(
    ("model", "table"),
    [({"name": "gate"}, "edge_attr"), ({"name": "gcn", "edge_weights": True}, "edge_weight")],
)
@pytest.mark.parametrize("sampling", ["uniform", "weighted"])
def test_a_step_counts_all_it_holds(parts: Path, model: dict[str, Any], table: str, sampling: str) -> None:
    strategy = {"batch_size": 9, "fanouts": [3, 2], "sampling": sampling}

    def check(team: Team) -> None:
        work = set_up(data_config(parts, 2, {"hidden": 4, **model}, strategy), team).work
        assert isinstance(work, DataWork)
        stages, seen = work.stages, 0
        for number in range(work.steps_per_epoch):
            under_way = stages.fetch(stages.sample(stages.schedule(number)))
            fetched = under_way.arrived()
            assert fetched.nbytes >= fetched_memory(fetched)
            assert under_way.nbytes >= fetched.nbytes
            batch = stages.compact(fetched)
            assert batch.nbytes == filled_memory(batch)
            seen += sum(len(getattr(view.graph, table)) for view in batch.views)
        assert seen, "edges have the table"

    on_hosts([0, 1], check)
