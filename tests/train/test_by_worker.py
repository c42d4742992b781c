"""Medians of each worker's epochs, worked out by hand and out of a run."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np

from starling.comm.in_process import run_threads
from starling.comm.ledger import Accounts
from starling.train.by_worker import WorkerMedians, medians_by_worker
from starling.train.results import TrainResult
from starling.train.trainer import fit
from tests.engine.hybrid.runs import config_of, cut, small_graph


def test_medians_by_hand() -> None:
    """Every number by itself; an epoch without rows of a layer has zero of them."""
    epochs = [
        [Accounts(3.0, 0.1, 0.5, 0.2, (0, 40), (7, 2))],
        [Accounts(1.0, 0.3, 0.4, 0.2, (0, 10), ())],
        [Accounts(2.0, 0.2, 0.9, 0.1, (0, 30), (9,))],
    ]
    found = medians_by_worker(epochs, [1234])
    assert found == (WorkerMedians(2.0, 0.2, 0.5, 0.2, (0, 30), (7, 0), 1234),)
    assert medians_by_worker(epochs[:2], [5])[0].bytes_to == (0, 10)
    assert WorkerMedians.from_json(json.loads(json.dumps(found[0].to_json()))) == found[0]


def test_a_summary_has_those_of_its_metrics(tmp_path: Path) -> None:
    parts = cut(small_graph(tmp_path / "g"), tmp_path / "cut", 2, np.arange(61) % 2)
    config = config_of(parts, 2, {"name": "gcn", "hidden": 8}, epochs=3)
    results = run_threads(2, lambda team: fit(config, tmp_path / "run", team=team))
    assert results[0].by_worker == results[1].by_worker
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    lines = [json.loads(line)["workers"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(summary["by_worker"]) == 2
    for rank, worker in enumerate(summary["by_worker"]):
        for kind in ("compute", "communication", "waiting", "reducing"):
            assert worker[kind] == statistics.median(line[rank][kind] for line in lines)
        assert worker["bytes_to"] == lines[1][rank]["bytes_to"]  # the first epoch also makes the sums that are kept
        assert worker["bytes_to"][1 - rank] > worker["bytes_to"][rank] == 0
        assert worker["rows_by_layer"] == lines[1][rank]["rows_by_layer"]
        assert worker["peak_rss_bytes"] >= lines[-1][rank]["peak_rss_bytes"] > 0
    assert TrainResult.from_json(summary, results[0].losses, results[0].model).by_worker == results[0].by_worker
