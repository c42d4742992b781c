"""Training: equal to plain torch, repeatable to the bit, exact under every full-neighbour strategy, and clear when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

import starling
from starling.core.errors import InputError, StarlingError
from starling.core.progress import SilentProgress
from starling.launch.trainer import Trainer
from starling.nn.registry import ModelSpec, build_model
from starling.plan.partitioning import PartitionRequest, partition_graph
from starling.store.graph import create_graph
from starling.stream.readers.open import open_inputs
from starling.train import epochs, journal
from starling.train.config import CONFIG, RunConfig
from starling.train.config_tables import merged
from starling.train.results import EpochRecord, Scores, TrainResult
from starling.train.work import OwnWork
from tests.support.data import real_graph
from tests.support.trainable import Kind, trainable_graph

Tables = dict[str, dict[str, Any]]


class Unwanted(SilentProgress):
    """Of work that nobody asked for."""

    def task(self, name: str, total: int | None = None, unit: str = "edges") -> NoReturn:
        raise AssertionError(f"{name} was begun")


def fit(place: Path, name: str, *changes: Tables, graph: str = "g") -> TrainResult:
    base: Tables = {
        "data": {"path": str(place / graph)},
        "model": {"name": "gcn", "hidden": 8},
        "optimizer": {"lr": 0.05},
        "run": {"epochs": 4, "evaluate_every": 4},
    }
    return Trainer(merged(base, *changes), run=place / name).fit()


def test_the_last_evaluation_counts_in_the_peak_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainable_graph(tmp_path / "g")
    peak, scores = [1000], OwnWork.scores

    def evaluate(*given: Any) -> Scores:
        peak[0] *= 3
        return scores(*given)

    monkeypatch.setattr(OwnWork, "scores", evaluate)
    for module in (epochs, journal):
        monkeypatch.setattr(module, "peak_rss_bytes", lambda: peak[0])
    assert fit(tmp_path, "run", {"run": {"epochs": 2, "evaluate_every": 1}}).peak_rss_bytes == 9000
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["workers"][0]["peak_rss_bytes"] for line in lines] == [1000, 3000]


def test_losses_equal_plain_torch(tmp_path: Path) -> None:
    """A two-layer GCN written with dense matrices, from the same weights, gives the same losses."""
    graph = trainable_graph(tmp_path / "g")
    result = fit(tmp_path, "run", {"optimizer": {"name": "sgd", "lr": 0.5, "weight_decay": 0.01, "momentum": 0.5}})
    first = build_model(ModelSpec("gcn", 8, 3, settings={"hidden": 8}), 0).state_dict()
    weights = [first[f"graph_layers.{k}.{name}"].clone().requires_grad_() for k in (0, 1) for name in ("weight", "bias")]
    adjacency = torch.zeros(60, 60)
    for source, destination in graph.edges.tolist():
        adjacency[destination, source] += 1
    adjacency += torch.diag((adjacency.diagonal() == 0).float())  # a loop for every node that has none
    scale = (adjacency.sum(1)).rsqrt()
    adjacency = scale[:, None] * adjacency * scale
    x, y = torch.from_numpy(np.array(graph.node_table("x"))), torch.from_numpy(np.array(graph.node_table("y")))
    train = torch.from_numpy(np.array(graph.node_table("train")))
    optimizer = torch.optim.SGD(weights, lr=0.5, weight_decay=0.01, momentum=0.5)
    expected = []
    for _ in range(4):
        optimizer.zero_grad()
        hidden = torch.relu(adjacency @ (x @ weights[0]) + weights[1])
        loss = torch.nn.functional.cross_entropy((adjacency @ (hidden @ weights[2]) + weights[3])[train], y[train])
        expected.append(float(loss.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert result.losses == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < expected[0]


@pytest.mark.parametrize("kind", ["single", "multi", "real"])
def test_every_task_learns(kind: Kind, tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g", kind=kind)
    result = fit(tmp_path, "run", {"model": {"name": "sage"}, "run": {"epochs": 25, "evaluate_every": 1}})
    assert result.losses[-1] < 0.7 * result.losses[0]
    assert result.scores.train is not None
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 26))
    assert [line["loss"] for line in lines] == list(result.losses)
    best = lines[result.best_epoch - 1]
    assert (best["train"], best["val"], best["test"]) == (result.scores.train, result.scores.val, result.scores.test)
    better = max if kind != "real" else min
    assert best["val"] == better(line["val"] for line in lines)


STOCHASTIC: dict[str, Tables] = {
    "global": {"model": {"dropout": 0.5, "input_dropout": 0.2, "norm": "batch"}},
    "mini": {"strategy": {"name": "mini", "batch_size": 7, "fanouts": [3, 2]}, "model": {"dropout": 0.5}},
    "cluster": {"strategy": {"name": "cluster", "clusters": 4, "boundary_hops": 1}},
    "saint": {"strategy": {"name": "saint", "count": 8}},
}


@pytest.mark.parametrize("name", STOCHASTIC)
def test_a_saved_config_repeats_the_run_to_the_bit(name: str, tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    first = fit(tmp_path, "first", STOCHASTIC[name], {"schedule": {"name": "cosine"}})
    again = Trainer(RunConfig.read(tmp_path / "first" / CONFIG), run=tmp_path / "again").fit()
    assert again.losses == first.losses
    assert again.scores == first.scores
    assert RunConfig.read(tmp_path / "again" / CONFIG) == RunConfig.read(tmp_path / "first" / CONFIG)
    other = fit(tmp_path, "other", STOCHASTIC[name], {"run": {"seed": 1}, "schedule": {"name": "cosine"}})
    assert other.losses != first.losses


@pytest.mark.parametrize("name", ["global", "mini", "cluster"])
def test_parts_give_the_same_losses_as_the_graph(name: str, tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g")
    partition_graph(graph, tmp_path / "p", PartitionRequest(parts=3, method="random"))
    whole = fit(tmp_path, "whole", STOCHASTIC[name])
    parts = fit(tmp_path, "parts", STOCHASTIC[name], graph="p")
    assert parts.losses == whole.losses


@pytest.mark.parametrize("workers", [1, 2])
def test_communities_of_parts_are_the_clusters_of_a_run(workers: int, tmp_path: Path) -> None:
    """Stored by partition, or found again when the run begins: the same clusters, so the same losses."""
    graph = trainable_graph(tmp_path / "g")
    partition_graph(graph, tmp_path / "p", PartitionRequest(parts=2, method="louvain"))
    team = {"team": {"workers": workers}}
    found, stored = (
        fit(tmp_path, method, {"strategy": {"name": "cluster", "method": method}, **team}, graph="p")
        for method in ("louvain", "stored")
    )
    assert stored.losses == found.losses


def test_stored_clusters_must_be_there(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    with pytest.raises(InputError, match=r"in a node table 'cluster', which .* lacks\. Partition with --method louvain"):
        fit(tmp_path, "run", {"strategy": {"name": "cluster", "method": "stored"}})


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(
    "strategy", [{"name": "mini"}, {"name": "cluster", "clusters": 1, "method": "metis"}], ids=["mini", "cluster"]
)
def test_full_neighbours_equal_global(strategy: dict[str, Any], model: str, tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    changes: Tables = {"model": {"name": model, "hidden": 8, "dropout": 0.5}, "optimizer": {"name": "sgd", "lr": 0.1}}
    whole = fit(tmp_path, "whole", changes)
    other = fit(tmp_path, "other", changes, {"strategy": strategy})
    assert other.losses == pytest.approx(whole.losses, rel=2e-5)


@pytest.mark.parametrize("hidden", [2, 16], ids=["narrowing", "widening"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_reuse_changes_no_bit(tmp_path: Path, model: str, hidden: int) -> None:
    """Also where a layer narrows, and would multiply first if its input were not constant."""
    trainable_graph(tmp_path / "g")
    changes: Tables = {"model": {"name": model, "hidden": hidden}}
    kept, not_kept = (fit(tmp_path, str(reuse), changes, {"run": {"reuse": reuse}}) for reuse in (True, False))
    assert kept.losses == not_kept.losses
    assert kept.scores == not_kept.scores


def test_a_small_budget_changes_nothing(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    mini: Tables = {"strategy": {"name": "mini", "batch_size": 9}}
    roomy, tight = (fit(tmp_path, str(size), mini, {"run": {"memory": size}}) for size in (1 << 30, 1 << 10))
    assert tight.losses == roomy.losses
    assert tight.scores == roomy.scores
    with pytest.raises(InputError, match="holds all features"):
        fit(tmp_path, "too-tight", {"run": {"memory": 1 << 10}})


def test_patience_stops_and_the_best_weights_stay(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    result = fit(tmp_path, "run", {"run": {"epochs": 500, "patience": 5, "evaluate_every": 1}})
    assert result.epochs == result.best_epoch + 5
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == result.to_json()
    saved = torch.load(tmp_path / "run" / "model.pt", weights_only=True)
    assert all(torch.equal(saved[name], weight) for name, weight in result.model.state_dict().items())


def test_patience_is_judged_where_there_are_scores(tmp_path: Path) -> None:
    """Even if it is shorter than the way from one evaluation to the next; only an epoch with scores can end a run."""
    trainable_graph(tmp_path / "g")
    result = fit(tmp_path, "run", {"run": {"epochs": 400, "patience": 2, "evaluate_every": 5}})
    assert result.epochs < 400
    assert result.epochs == result.best_epoch + 5
    assert result.best_epoch % 5 == 0


def test_evaluation_every_few_epochs_and_without_validation_nodes(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g", without=("val", "test"))
    result = fit(tmp_path, "run", {"run": {"epochs": 5, "evaluate_every": 2}})
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert ["train" in line for line in lines] == [False, True, False, True, True]
    assert result.best_epoch == 5
    assert (result.scores.val, result.scores.test) == (None, None)
    with pytest.raises(InputError, match="--patience needs validation nodes"):
        fit(tmp_path, "other", {"run": {"patience": 3}})


def test_a_loss_that_is_not_finite_stops_with_its_step(tmp_path: Path) -> None:
    x = np.full((60, 8), 1e38, np.float32)
    trainable_graph(tmp_path / "g", x=x)
    with pytest.raises(StarlingError, match=r"The loss became (nan|inf) in epoch 1, step 1\. Lower --lr") as caught:
        fit(tmp_path, "run")
    assert caught.value.exit_status == 1
    assert (tmp_path / "run" / CONFIG).is_file()
    assert not (tmp_path / "run" / "summary.json").exists()
    assert "What was learnt" not in str(caught.value)  # nothing was


def test_weights_that_blow_up_in_the_last_step_are_no_success(tmp_path: Path) -> None:
    """The loss was still a number; what the weights give after the step is none."""
    trainable_graph(tmp_path / "g")
    with pytest.raises(StarlingError, match="outputs have become inf or nan"):
        fit(tmp_path, "run", {"optimizer": {"name": "sgd", "lr": 1e38}, "run": {"epochs": 1}})
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"name": "sagge"}}, "sagge"),
        ({"strategy": {"name": "minni"}}, "minni"),
        ({"run": {"device": "abacus"}}, "Expected a device such as cpu or cuda"),
        ({"team": {"workers": 2, "balance_workers": True}}, "--balance-workers maps batches"),
        ({"task": {"name": "regression"}}, "/g. Pass --task classification"),
        ({"strategy": {"name": "mini", "batch_size": 10**6}}, "Expected a batch of at most"),
        ({"model": {"layers": 2}, "strategy": {"name": "mini", "fanouts": "3,2,1"}}, "Expected 2 fan-outs, one a layer, got 3"),
        ({"data": {"features": 5}}, "Expected 5 features as the config says"),
        ({"model": {"name": "rgcn"}}, "reads the edge table 'type', and .*/g has none"),
    ],
)
def test_a_team_is_refused_before_its_graph_is_cut(changes: Tables, words: str, tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    config: Tables = merged({"data": {"path": str(tmp_path / "g")}, "team": {"workers": 2}}, changes)
    with pytest.raises(InputError, match=words):
        Trainer(config, run=tmp_path / "run", progress=Unwanted()).fit()
    assert not (tmp_path / "run").exists()


def test_a_run_with_parts_of_its_own_can_be_moved(tmp_path: Path) -> None:
    trainable_graph(tmp_path / "g")
    first = fit(tmp_path, "run", {"team": {"parallel": "data"}, "strategy": {"name": "mini", "batch_size": 9}})
    (tmp_path / "run").rename(tmp_path / "moved")
    again = Trainer(RunConfig.read(tmp_path / "moved" / CONFIG), run=tmp_path / "again").fit()
    assert again.losses == first.losses


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_runs_that_are_no_directory(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainable_graph(tmp_path / "g")
    monkeypatch.chdir(tmp_path)
    if kind == "file":
        Path("runs").write_text("")
    else:
        Path("runs").symlink_to(tmp_path / "gone")
    for run in (None, Path("runs/x")):
        with pytest.raises(InputError, match="Expected a directory for runs at runs, got a file or a link to nothing"):
            Trainer({"data": {"path": "g"}}, run=run).fit()


def test_runs_are_numbered_and_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainable_graph(tmp_path / "my graph")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "my-graph-9").mkdir(parents=True)
    (tmp_path / "runs" / "my-graph-10").mkdir()
    result = Trainer({"data": {"path": "my graph"}, "run": {"epochs": 1}}).fit()
    assert result.run == Path("runs/my-graph-11")
    with pytest.raises(InputError, match="never overwritten"):
        Trainer({"data": {"path": "my graph"}}, run=result.run).fit()


def test_a_watcher_is_told(tmp_path: Path) -> None:
    class Notes:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def begin(self, epochs: int, steps: int, metric: str) -> None:
            self.seen.append((epochs, steps, metric))

        def step(self, epoch: int, step: int, loss: float) -> None:
            self.seen.append((epoch, step))

        def epoch(self, record: EpochRecord) -> None:
            self.seen.append(record.epoch)

    trainable_graph(tmp_path / "g")
    notes = Notes()
    tables: Tables = {"data": {"path": tmp_path / "g"}, "strategy": {"name": "mini", "batch_size": 20}, "run": {"epochs": 1}}
    Trainer(tables, run=tmp_path / "run", watch=notes).fit()
    assert notes.seen == [(1, 2, "accuracy"), (1, 1), (1, 2), 1]
    assert starling.Trainer is Trainer


def test_cora(tmp_path: Path) -> None:
    create_graph(open_inputs([str(real_graph("cora"))], memory=1 << 30), tmp_path / "g")
    result = fit(
        tmp_path,
        "run",
        {
            "data": {"normalize": "rows"},
            "model": {"hidden": 16, "dropout": 0.5},
            "optimizer": {"lr": 0.02, "weight_decay": 5e-4, "decay_on": "first"},
            "run": {"epochs": 40, "evaluate_every": 10},
        },
    )
    assert result.scores.test is not None
    assert result.scores.test >= 0.78
