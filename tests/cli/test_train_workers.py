"""``starling train --workers``: the graph is partitioned first, a run directory repeats the run, mistakes leave nothing behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.cli.main import run
from starling.comm.in_process import run_threads
from starling.launch import trainer
from starling.launch.worker import find_entry
from starling.store.graph import Graph
from starling.store.parts import open_parts
from starling.train.config import RunConfig
from tests.cli.test_train import TRAIN_KEYS, run_json
from tests.engine.hybrid.runs import cut
from tests.support.source import ROOT
from tests.support.trainable import trainable_graph

SMALL = ("--model", "gcn", "--hidden", 8, "--dropout", 0.3, "--epochs", 3, "--seed", 4)

ACCOUNTS = {
    "compute",
    "communication",
    "waiting",
    "reducing",
    "bytes_to",
    "rows_by_layer",
    "peak_rss_bytes",
    "formula_bytes",
    "held_bytes",
}


@pytest.fixture(autouse=True)
def _cheap_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("STARLING_THREADS", "1")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return trainable_graph(tmp_path / "g")


def run_as_threads(entry: str, spec: dict[str, Any], *, workers: int, **_: Any) -> Any:
    """`run_workers` by threads of this process."""
    return run_threads(workers, lambda team: find_entry(entry)(team, spec))[0]


def numbers(summary: dict[str, Any]) -> dict[str, Any]:
    """What a repeated run must give again."""
    changes = ("run", "seconds", "epoch_seconds_median", "peak_rss_bytes", "by_worker")
    traffic = [(worker["bytes_to"], worker["rows_by_layer"]) for worker in summary["by_worker"]]
    return {name: value for name, value in summary.items() if name not in changes} | {"traffic": traffic}


def losses(path: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_graph_is_partitioned_and_its_run_repeated(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_json(capsys, "train", graph.path, "--workers", 2, *SMALL, "--run", tmp_path / "a")
    assert list(first) == TRAIN_KEYS
    assert (first["workers"], first["parallel"], first["sync"], first["epochs"]) == (2, "hybrid", "gradient", 3)
    assert first["bytes_sent_per_epoch"] > 0
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["final_loss"] == first["final_loss"]
    assert len(open_parts(tmp_path / "a" / "parts")) == 2
    assert first["peak_rss_bytes"] == max(worker["peak_rss_bytes"] for worker in first["by_worker"])
    assert first["bytes_sent_per_epoch"] == sum(sum(worker["bytes_to"]) for worker in first["by_worker"])
    record = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert [worker.keys() >= ACCOUNTS for worker in record["workers"]] == [True, True]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trainer, "run_workers", run_as_threads)  # the same bits, without starting processes again
    again = run_json(capsys, "train", "--config", "a/config.toml", "--run", "b")
    assert numbers(again) == numbers(first)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")

    alone = run_json(capsys, "train", graph.path, *SMALL, "--run", tmp_path / "c")
    assert losses(tmp_path / "a") == pytest.approx(losses(tmp_path / "c"), rel=2e-4)
    assert alone["bytes_sent_per_epoch"] == 0
    predicted = run_json(capsys, "infer", tmp_path / "a", "-o", tmp_path / "p.csv")
    assert (predicted["nodes"], predicted["test"]) == (60, pytest.approx(first["test"], abs=1.5 / 12))


def test_a_run_directory_alone_repeats_a_run_of_four(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was moved and the graph is gone: its parts went with it."""
    monkeypatch.setattr(trainer, "run_workers", run_as_threads)
    first = run_json(capsys, "train", graph.path, "--workers", 4, *SMALL, "--run", tmp_path / "a")
    shutil.rmtree(graph.path)
    (tmp_path / "a").rename(tmp_path / "moved")
    again = run_json(capsys, "train", "--config", tmp_path / "moved" / "config.toml", "--run", tmp_path / "b")
    assert numbers(again) == numbers(first)
    assert losses(tmp_path / "b") == losses(tmp_path / "moved")


def test_parts_with_flags_of_the_team(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three parts for two workers; every flag is in the config afterwards."""
    parts = cut(graph, tmp_path / "cut", 3, np.arange(60) % 3)
    team = ("--boundary", 0.5, "--overlap", "off", "--wire", "bfloat16", "--threads", 1, "--transport", "gloo", "--deadline", 9)
    found = run_json(capsys, "train", parts, "--workers", 2, *SMALL, *team, "--run", tmp_path / "a")
    assert found["workers"] == 2
    settings = RunConfig.read(tmp_path / "a" / "config.toml").team
    assert (settings.workers, settings.boundary, settings.overlap, settings.wire) == (2, 0.5, False, "bfloat16")
    assert (settings.threads, settings.transport, settings.deadline) == (1, "gloo", 9)
    # one worker on the same parts hears of the same neighbours: only the width of messages differs
    run_json(capsys, "train", parts, *SMALL, "--boundary", 0.5, "--run", tmp_path / "b")
    assert losses(tmp_path / "a") == pytest.approx(losses(tmp_path / "b"), rel=0.02)


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: object) -> str:
    """The one sentence or two of a run that did not begin."""
    folder = tmp_path / "refused"
    assert run(["train", *map(str, arguments), *map(str, SMALL), "--run", str(folder)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not folder.exists()
    (line,) = printed.err.strip().splitlines()
    assert "Traceback" not in line
    return line


def test_what_no_team_can_do(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    assert "got 3 workers for 2 parts" in refused(capsys, tmp_path, parts, "--workers", 3)
    assert "got a whole graph" in refused(capsys, tmp_path, graph.path, "--boundary", 0.5)
    one = ("--boundary", 0.5)  # parts are trained as by a team, in this process: no worker need be started
    assert "got saint" in refused(capsys, tmp_path, parts, *one, "--strategy", "saint")
    layerwise = ("--strategy", "mini", "--fanouts", "4,4", "--set", "strategy.sampling=layerwise")
    assert "Layer-wise sampling" in refused(capsys, tmp_path, parts, *one, *layerwise)


def test_what_manifests_tell_is_refused_before_anything_is_cut_or_started(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    for begun in ("run_workers", "_partitioned"):
        monkeypatch.setattr(trainer, begun, None)
    two = ("--workers", 2)
    for path in (parts, graph.path):
        assert "Expected 16 features as the config says, got 8 in" in refused(
            capsys, tmp_path, path, *two, "--set", "data.features=16"
        )
        assert "Expected 5 outputs as the config says, got 3 in" in refused(
            capsys, tmp_path, path, *two, "--set", "data.outputs=5"
        )
    assert "got 61 workers for 60 nodes" in refused(capsys, tmp_path, graph.path, "--workers", 61)


def test_convolutions_that_no_team_computes_are_refused_before_anything_is_cut_or_started(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_geometric")
    parts = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    for begun in ("run_workers", "_partitioned"):
        monkeypatch.setattr(trainer, begun, None)
    lstm = ("--workers", 2, "--set", "model.name=pyg:SAGEConv", "--set", 'model.options={aggr = "lstm"}')
    for path in (parts, graph.path):
        assert "PyG's SAGEConv has LSTM inside" in refused(capsys, tmp_path, path, *lstm)


@pytest.mark.parametrize("team", [("--workers", 2), ("--boundary", 0.5), ("--workers", 2, "--parallel", "data")])
def test_graphics_cards_that_are_not_there(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, team: tuple[object, ...]
) -> None:
    parts = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    monkeypatch.setattr(trainer, "run_workers", None)  # refused before any process starts
    told = refused(capsys, tmp_path, parts, *team, "--device", "cuda")
    assert "The device 'cuda' is not there: torch sees 0 GPUs. Pass --device cpu." in told


def test_a_graphics_card_for_each_worker(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(trainer, "run_workers", None)  # refused before any process starts
    told = refused(capsys, tmp_path, parts, "--workers", 2, "--device", "cuda")
    assert "Expected a graphics card for each of 2 workers, got 1. Pass --workers 1, or --device cpu." in told


@pytest.mark.parametrize(
    ("hops", "flags", "advised"),
    [(1, (), True), (2, (), False), (1, ("--correct",), False), (1, ("--layers", 1), False), (2, ("--layers", 5), True)],
    ids=["shallow", "as deep", "corrected", "one layer", "deeper than halos can be"],
)
def test_halos_shallower_than_an_averaged_model_are_told(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], hops: int, flags: tuple[Any, ...], advised: bool
) -> None:
    path = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2, halo_hops=hops)
    averaged = ("--parallel", "data", "--sync", "average", "--strategy", "mini", "--run", tmp_path / "run")
    assert run([str(part) for part in ("train", path, *SMALL, *averaged, *flags, "--json")]) == 0
    told = capsys.readouterr()
    json.loads(told.out)  # nothing but the report is on standard output
    wanted = f"partition with --halo-hops {3 if hops == 2 else 2}, or pass --correct."
    assert (wanted in told.err) == advised
    assert told.err.count("starling:") == advised
