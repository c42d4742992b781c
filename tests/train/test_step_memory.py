"""BDS-GCN's memory formula on a graph counted by hand, and what a forward pass keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.train.results import WorkerRecord
from starling.train.setup import set_up
from starling.train.step_memory import Held, StepMemory, formula_bytes
from starling.train.trainer import fit
from tests.engine.hybrid.runs import config_of, cut
from tests.support.trainable import trainable_graph

FEATURES, HIDDEN = 8, 5
SAGE: dict[str, Any] = {"name": "sage", "hidden": HIDDEN}


def hand_made(folder: Path) -> Path:
    """Nodes 0, 1 | 2, 3; 0 hears of 1, 2 and 3, and 2 hears of 0: two boundary nodes here, one there."""
    graph = trainable_graph(folder / "g", nodes=4, edges=2, without=("val",), train=np.ones(4, bool), test=np.ones(4, bool))
    pairs = np.array([[1, 0], [2, 0], [3, 0], [0, 2]], np.int32)
    np.save(graph.path / "edges.npy", pairs)
    counts = graph.manifest.counts.model_copy(update={"read": 4})
    changed = {"edges": 4, "counts": counts, "directed": True}
    sealed = graph.manifest.model_copy(update=changed).seal(graph.path)
    return cut(type(graph)(graph.path, sealed), folder / "cut", 2, np.array([0, 0, 1, 1]))


def test_the_formula_by_hand(tmp_path: Path) -> None:
    parts = hand_made(tmp_path)

    def work(team: Team, boundary: float, reuse: bool) -> list[int]:
        setup = set_up(config_of(parts, 2, SAGE, boundary=boundary, reuse=reuse), team)
        (batch,) = setup.work.batches(1)
        found = [formula_bytes(setup.model, batch.views)]
        setup.model(batch.views, batch.x)
        return [*found, formula_bytes(setup.model, batch.views)]

    both = FEATURES + HIDDEN
    expected = [[4 * (3 * 2 + 2) * both] * 2, [4 * (3 * 2 + 1) * both] * 2]
    assert run_threads(2, lambda team: work(team, 1.0, reuse=False)) == expected
    assert run_threads(2, lambda team: work(team, 0.0, reuse=False)) == [[4 * 3 * 2 * both] * 2] * 2
    # Sums of input features are kept after the first step: from then on the first layer hears of nobody.
    kept = [4 * (3 * 2 * both + heard * HIDDEN) for heard in (2, 1)]
    assert [second for _, second in run_threads(2, lambda team: work(team, 1.0, reuse=True))] == kept


def test_what_is_kept_by_hand() -> None:
    """x (3 × 4) for the weights' gradient and the rows after the ReLU (3 × 2); not the weights; a piece of memory once."""
    linear, x = nn.Linear(4, 2, bias=False), torch.ones(3, 4)
    with Held(linear) as held:
        rows = torch.relu(linear(x))
        (rows * rows[:, :1]).sum()
    assert held.bytes == 4 * (3 * 4 + 3 * 2)


def test_records_carry_both(tmp_path: Path) -> None:
    parts = hand_made(tmp_path)
    results = run_threads(2, lambda team: fit(config_of(parts, 2, SAGE, reuse=False), tmp_path / "run", team=team))
    assert results[0].formula_bytes == 4 * (3 * 2 + 2) * (FEATURES + HIDDEN)
    assert results[0].held_bytes == results[1].held_bytes > 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert '"formula_bytes"' in lines[0]
    record = WorkerRecord.from_numbers(WorkerRecord(Team().ledger.close(), 9, StepMemory(7, 8)).to_numbers(), 1)
    assert (record.peak_rss_bytes, record.memory) == (9, StepMemory(7, 8))
