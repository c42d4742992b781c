"""Model averaging: equal to one process on one part, the same for any number of workers, exact in its evaluation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.memory import TRAINING_PROGRAM_BYTES
from starling.launch.trainer import Trainer
from starling.nn.registry import MODELS
from starling.store.parts import open_parts
from starling.train import budget
from starling.train.averaging.evaluation import PartsEvaluation
from starling.train.averaging.loop import AveragingLoop
from starling.train.averaging.parts_work import PartsWork, Share
from starling.train.averaging.setup import set_up_averaging
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.prediction import PredictRequest, predict
from starling.train.trainer import fit
from tests.engine.data.cases import on_hosts
from tests.engine.hybrid.runs import cut, small_graph
from tests.support.trainable import trainable_graph
from tests.train.averaging.cases import ONE_PROCESS, PARTS, Tables, assert_identical, fit_as, tables, train, weights


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("schedule", "moments"), [("constant", "local"), ("cosine", "local"), ("cosine", "average")])
def test_one_part_equals_one_process_to_the_bit(place: Path, tmp_path: Path, every: int, schedule: str, moments: str) -> None:
    changes: Tables = {"schedule": {"name": schedule}, "model": {"norm": "batch"}}
    sync: Tables = {"sync": {"every": every, "moments": moments}}
    (found,) = train(place / "one" / "parts", tmp_path / "average", 1, changes, sync)
    alone = Trainer(tables(place / "g", changes, ONE_PROCESS), run=tmp_path / "alone").fit()
    assert_identical(found, alone)
    assert found.sync == "average"
    lines = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("average", "alone")
    ]
    assert [line["rate"] for line in lines[0]] == [line["rate"] for line in lines[1]]
    assert not (tmp_path / "average" / "scratch").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sync": {"every": 3, "correct": True, "correct_steps": 2}},
        {"strategy": {"name": "global"}, "model": {"name": "gcn", "edge_weights": True, "norm": "batch"}},
        {"strategy": {"name": "cluster", "clusters": 3}, "sync": {"moments": "reset"}},
        {"strategy": {"name": "saint", "count": 10, "coverage": 5}, "optimizer": {"name": "sgd", "momentum": 0.9}},
        {"data": {"normalize": "standard"}, "model": {"jump": "cat"}, "run": {"memory": 640 << 20}},
        {"sync": {"moments": "average", "correct": True}},
        {"sync": {"rounds": 3, "correct": True, "correct_steps": 1}, "strategy": {"batch_size": 2}},
    ],
    ids=["mini", "corrected", "global", "cluster", "saint", "scaled", "moments", "rounds"],
)
def test_any_number_of_workers_gives_the_same_bits(place: Path, tmp_path: Path, changes: Tables) -> None:
    path = place / "five" / "parts"
    (alone,) = train(path, tmp_path / "1", 1, changes)
    for workers in (2, 4):
        if "memory" in changes.get("run", {}):
            changes = merged(changes, {"run": {"memory": workers * (640 << 20)}})
        for found in train(path, tmp_path / str(workers), workers, changes):
            assert_identical(found, alone)
            assert found.workers == workers


def test_shares_of_an_epoch_are_its_steps_in_order() -> None:
    assert [list(Share(number, 3).of(8)) for number in range(3)] == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert [list(Share(number, 3).of(2)) for number in range(3)] == [[], [0], [1]], "fewer steps than rounds: none in some"
    assert list(Share(0, 1).of(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("moments", ["local", "average"])
def test_rounds_of_one_part_are_the_steps_of_one_process(place: Path, tmp_path: Path, moments: str) -> None:
    """The mean of one model is that model, however often it is taken."""
    sync: Tables = {"sync": {"rounds": 3, "moments": moments}}
    (found,) = train(place / "one" / "parts", tmp_path / "average", 1, sync)
    alone = Trainer(tables(place / "g", ONE_PROCESS), run=tmp_path / "alone").fit()
    assert found.scores == alone.scores
    assert found.losses == pytest.approx(alone.losses, rel=1e-12), "sums of losses are added up by rounds"
    for name, value in weights(alone).items():
        assert torch.equal(weights(found)[name], value), name


def test_a_round_for_every_step_with_whole_halos_is_the_gradient_of_all_parts(place: Path, tmp_path: Path) -> None:
    """With `sgd`, halos as deep as the model and one step a round, means of models are means of gradients: a slow twin."""
    path, sizes = place / "two-hops" / "parts", [0] * PARTS
    for part in range(PARTS):
        sizes[part] = int(np.asarray(open_parts(path).shard(part).node_table("train")).sum())
    full: Tables = {
        "strategy": {"name": "mini", "fanouts": "all,all", "batch_size": max(sizes)},
        "optimizer": {"name": "sgd", "lr": 0.3},
        "run": {"epochs": 3, "evaluate_every": 3},
        "model": {"dropout": 0.0},
        "sync": {"rounds": 2},
    }
    (found,) = train(path, tmp_path / "average", 1, full)
    whole: Tables = {"strategy": {"batch_size": sum(sizes)}}  # all targets a step, once an epoch
    alone = Trainer(tables(place / "g", full, {"sync": {"rounds": 1}}, whole, ONE_PROCESS), run=tmp_path / "alone").fit()
    for name, value in weights(alone).items():
        torch.testing.assert_close(weights(found)[name], value, rtol=1e-5, atol=1e-6)


def test_more_rounds_average_more_often(place: Path, tmp_path: Path) -> None:
    """Each averaging takes a share of every part's steps, begins with the mean before it, and is sent."""
    path, begun, sent = place / "five" / "parts", list[tuple[int, int, bytes]](), {}
    original = AveragingLoop._train_part

    def watched(self: AveragingLoop, part: Any, epochs: range, share: Share, rates: Any) -> Any:
        weights_now = torch.cat([value.detach().reshape(-1) for value in self._model.parameters()])
        begun.append((share.number, part.part, weights_now.numpy().tobytes()))
        return original(self, part, epochs, share, rates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AveragingLoop, "_train_part", watched)
        train(path, tmp_path / "watched", 1, {"sync": {"rounds": 2}, "run": {"epochs": 1}, "strategy": {"batch_size": 2}})
    assert [(number, part) for number, part, _ in begun] == [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 3)]
    assert (
        len({model for number, _, model in begun if number == 0}) == len({model for number, _, model in begun if number}) == 1
    )
    assert begun[0][2] != begun[3][2]
    for rounds in (1, 2):
        changes: Tables = {"sync": {"rounds": rounds, "moments": "local"}, "run": {"epochs": 1}}
        found = train(path, tmp_path / str(rounds), 2, changes)[0]
        line = json.loads((tmp_path / str(rounds) / "metrics.jsonl").read_text())
        sent[rounds] = sum(sum(worker["bytes_to"]) for worker in line["workers"])
    assert sent[2] - sent[1] == 2 * 8 * sum(value.numel() for value in found.model.parameters()), "one message each way"


def test_a_round_is_the_weighted_mean_of_parts_trained_alone(place: Path, tmp_path: Path) -> None:
    """Each part trained as a run of its own gives the models whose mean a round is."""
    path, kept = place / "five" / "parts", dict[int, torch.Tensor]()
    sgd: Tables = {"optimizer": {"name": "sgd", "lr": 0.1}, "run": {"epochs": 2}, "sync": {"every": 2}}
    original = AveragingLoop._train_part

    def watched(self: AveragingLoop, part: Any, *rest: Any) -> Any:
        losses = original(self, part, *rest)
        kept[part.part] = torch.cat([value.detach().reshape(-1).double() for value in self._model.parameters()])
        return losses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AveragingLoop, "_train_part", watched)
        (found,) = train(path, tmp_path / "run", 1, sgd)
    sizes = {0: 0, 1: 0, 3: 0}
    parts = open_parts(path)
    for part in sizes:
        sizes[part] = int(np.asarray(parts.shard(part).node_table("train")).sum())
    assert kept.keys() == sizes.keys(), "a part without training nodes is not trained"
    expected = sum(sizes[part] * kept[part] for part in kept) / sum(sizes.values())
    flat = torch.cat([value.reshape(-1).double() for value in found.model.parameters()])
    torch.testing.assert_close(flat, expected, rtol=1e-6, atol=1e-7)


MEMORIES: list[Tables] = [
    {"optimizer": {"name": "adam"}},
    {"optimizer": {"name": "adamw", "weight_decay": 0.1}},
    {"optimizer": {"name": "sgd", "momentum": 0.9}},
]


@pytest.mark.parametrize("optimizer", MEMORIES, ids=["adam", "adamw", "sgd"])
def test_averaged_moments_are_the_weighted_mean_of_those_of_parts(place: Path, tmp_path: Path, optimizer: Tables) -> None:
    """Every part of a round begins with the mean of what parts remembered when the round before it ended."""
    path, seen = place / "five" / "parts", list[tuple[int, dict[str, torch.Tensor], dict[str, torch.Tensor]]]()
    original = AveragingLoop._train_part

    def state(loop: AveragingLoop) -> dict[str, torch.Tensor]:
        memories = [loop._optimizer.state[weight] for weight in loop._model.parameters()]
        return {name: torch.cat([memory[name].detach().reshape(-1).double() for memory in memories]) for name in memories[0]}

    def watched(self: AveragingLoop, part: Any, *rest: Any) -> Any:
        self._optimizer.state = self._moments[-2]
        before = state(self)
        losses = original(self, part, *rest)
        seen.append((part.part, before, state(self)))
        return losses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AveragingLoop, "_train_part", watched)
        train(path, tmp_path / "run", 1, {"sync": {"moments": "average"}, "run": {"epochs": 2}}, optimizer)
    sizes = [int(np.asarray(open_parts(path).shard(part).node_table("train")).sum()) for part in range(PARTS)]
    (first, second), names = (seen[:3], seen[3:]), set(seen[0][1])
    assert names == ({"momentum_buffer"} if optimizer["optimizer"]["name"] == "sgd" else {"step", "exp_avg", "exp_avg_sq"})
    for name in names:
        mean = sum(sizes[part] * after[name] for part, _, after in first) / sum(sizes)
        assert isinstance(mean, torch.Tensor)
        assert mean.abs().sum() > 0
        for (_, begun, _), (_, anew, _) in zip(first, second, strict=True):
            assert not begun[name].any(), "nothing is remembered before the first round"
            torch.testing.assert_close(anew[name], mean, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_is_that_of_the_whole_graph(place: Path, tmp_path: Path, name: str) -> None:
    """The scores of a run are those `infer` finds for its weights, for every model, however small the blocks."""
    own = {"rgcn": {}, "gate": {}, "sgc": {}}.get(name, {"norm": "batch"})
    model: Tables = {"model": {"name": name, **own}, "run": {"epochs": 1, "evaluate_every": 1}}
    plain = {"hidden", "dropout"} if name == "sgc" else set()
    given = tables(place / "five" / "parts", model)
    given["model"] = {key: value for key, value in given["model"].items() if key not in plain}
    config = RunConfig.from_tables(merged(given, {"team": {"workers": 2}}))
    found = run_threads(2, lambda team: fit(config, tmp_path / "run", team=team))
    told = predict(PredictRequest(tmp_path / "run", tmp_path / "out.csv", graph=place / "g"))
    assert found[0].scores == found[1].scores == told.scores


def test_a_second_hop_of_halo_is_used(place: Path, tmp_path: Path) -> None:
    """With as many hops of halo as layers, full neighbourhoods are whole: part i's gradient is that of its targets in the graph."""
    full: Tables = {
        "strategy": {"name": "mini", "fanouts": "all,all", "batch_size": 37},
        "optimizer": {"name": "sgd", "lr": 0.3},
        "run": {"epochs": 1, "evaluate_every": 1},
        "model": {"dropout": 0.0},
    }
    # one step a part from the same weights: the mean of their moves, weighted by nodes, is the move of one step on all of them
    (found,) = train(place / "two-hops" / "parts", tmp_path / "average", 1, full)
    alone = Trainer(tables(place / "g", full, ONE_PROCESS), run=tmp_path / "alone").fit()
    for name, value in weights(alone).items():
        torch.testing.assert_close(weights(found)[name], value, rtol=1e-5, atol=1e-6)
    (near,) = train(place / "five" / "parts", tmp_path / "near", 1, full)
    assert any(not torch.allclose(weights(near)[name], value, rtol=1e-4) for name, value in weights(alone).items())


def test_correction_sees_edges_between_parts(place: Path, tmp_path: Path) -> None:
    changes: Tables = {"sync": {"correct": True, "correct_steps": 1}, "optimizer": {"name": "sgd", "lr": 0.2}}
    short: Tables = {"run": {"epochs": 1, "evaluate_every": 1}, "model": {"dropout": 0.0}, "strategy": {"batch_size": 37}}
    (plain,) = train(place / "five" / "parts", tmp_path / "plain", 1, short, {"optimizer": {"name": "sgd", "lr": 0.2}})
    (found,) = train(place / "five" / "parts", tmp_path / "corrected", 1, short, changes)
    # the correction is one full-batch step of one process, from the mean
    from starling.engine.source import SourceRequest, open_source
    from starling.nn.view import View

    source, model = open_source(place / "g", SourceRequest()), plain.model.train()
    rows = source.splits["train"]
    assert source.y is not None
    loss = torch.nn.functional.cross_entropy(
        model(View(source.whole), source.x)[torch.from_numpy(rows)], torch.from_numpy(source.y[rows])
    )
    loss.backward()  # type: ignore[no-untyped-call]
    for name, value in model.named_parameters():
        assert value.grad is not None
        torch.testing.assert_close(weights(found)[name], (value - 0.2 * value.grad).detach(), rtol=1e-4, atol=1e-6)


def test_rounds_and_their_records(place: Path, tmp_path: Path) -> None:
    changes: Tables = {"run": {"epochs": 5, "evaluate_every": 1}, "sync": {"every": 2}}
    (found,) = train(place / "five" / "parts", tmp_path / "run", 1, changes)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5]
    assert ["test" in line for line in lines] == [False, True, False, True, True], "evaluated when models were averaged"
    assert found.losses[-1] < found.losses[0]
    assert RunConfig.read(tmp_path / "run" / "config.toml").sync.every == 2


def test_averaged_moments_are_sent_with_the_weights(place: Path, tmp_path: Path) -> None:
    """Two workers, one message each way: 8 bytes a number, and for Adam two more numbers a weight and a count of steps a tensor.

    What a correction sends is weights only.
    """
    sent = {}
    for moments in ("local", "average"):
        sync: Tables = {"sync": {"moments": moments, "correct": True}, "run": {"epochs": 1}}
        found = train(place / "five" / "parts", tmp_path / moments, 2, sync)[0]
        line = json.loads((tmp_path / moments / "metrics.jsonl").read_text())
        sent[moments] = sum(sum(worker["bytes_to"]) for worker in line["workers"])
    tensors = list(found.model.parameters())
    numbers = 2 * sum(value.numel() for value in tensors) + len(tensors)
    assert sent["average"] - sent["local"] == 2 * 8 * numbers


BAD: list[tuple[Tables, str]] = [
    ({"sync": {"name": "gradient", "every": 2}}, "--every 2 is for --sync average"),
    ({"sync": {"name": "gradient", "correct": True}}, "--correct is for --sync average"),
    ({"team": {"parallel": "hybrid"}}, "Pass --parallel data"),
    ({"team": {"shuffle": "global"}}, "Leave it out"),
    ({"sync": {"staleness": 1}}, "--staleness and --in-flight are for --sync stale"),
    ({"team": {"workers": 6}}, "at most as many workers as parts, got 6 workers for 5 parts"),
    ({"run": {"memory": 1 << 20}}, "needs 640.0 MiB at least; got 1.0 MiB"),
    ({"embedding": {"dim": 4}, "sync": {"correct": True}}, "--correct moves the mean by steps on nodes of all parts"),
    ({"embedding": {"memory": 100}}, "'memory' of .embedding. is for learnt rows"),
    ({"sync": {"every": 0}}, "every"),
    ({"strategy": {"name": "cohesive"}}, "cohesive batches are found on the whole graph"),
    ({"sync": {"correct_steps": 2}}, "is for --correct, which is off"),
    ({"sync": {"rounds": 2, "every": 3}}, "got an averaging every 3 epochs and 2 of them an epoch. Leave one out"),
    ({"sync": {"name": "gradient", "rounds": 2}}, "is for --sync average, got --sync gradient"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message for _, message in BAD])
def test_wrong_settings_are_refused(place: Path, tmp_path: Path, changes: Tables, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        Trainer(tables(place / "five" / "parts", changes), run=tmp_path / "run").fit()
    assert not (tmp_path / "run").exists()


def test_no_training_nodes_anywhere_is_refused(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g", train=np.zeros(60, np.bool_))
    path = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2)
    with pytest.raises(InputError, match="no training nodes"):
        Trainer(tables(path), run=tmp_path / "run").fit()


def test_a_vertex_cut_is_refused(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "g")
    path = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2, np.arange(graph.manifest.edges) % 2)
    with pytest.raises(InputError, match="vertex-cut"):
        Trainer(tables(path), run=tmp_path / "run").fit()


def test_a_machine_without_all_shards_is_refused(place: Path, tmp_path: Path) -> None:
    """Halo features and evaluation come from every shard, so a worker's own would not do."""
    shutil.copytree(place / "five" / "parts", tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts" / "part-00001")
    with pytest.raises(InputError, match=r"Worker [01] .* reads every shard.* missing.* pass --sync gradient, for which"):
        train(tmp_path / "parts", tmp_path / "run", 2)


def test_a_scratch_folder_that_is_another_for_some_worker_is_refused(place: Path, tmp_path: Path) -> None:
    config = RunConfig.from_tables(tables(place / "five" / "parts", {"team": {"workers": 2}}))
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()

    def begin(team: Team) -> None:
        work = set_up_averaging(config, team).work
        assert isinstance(work, PartsWork)
        work.begin(tmp_path / str(team.rank))

    with pytest.raises(
        InputError, match=r"worker 1 does not see .* of worker 0\. Pass a --run directory that all machines share"
    ):
        run_threads(2, begin)


@pytest.mark.parametrize("learnt", [0, 128], ids=["features", "learnt rows"])
def test_memory_is_kept_to(tmp_path: Path, learnt: int) -> None:
    """More features, or rows and state, than the budget leaves beside the program, twice what parts may hold; evaluation too."""
    memory, nodes = (640 << 20), 60_000
    without = ("x",) if learnt else ()
    graph = trainable_graph(tmp_path / "g", nodes=nodes, features=350, edges=120_000, without=without)
    beside = memory - TRAINING_PROGRAM_BYTES
    assert (3 * 4 * nodes * learnt if learnt else (graph.path / "x.npy").stat().st_size) > beside
    path = cut(graph, tmp_path / "cut", 24, np.arange(nodes) * 24 // nodes)
    bounded: Tables = {"run": {"epochs": 1, "evaluate_every": 1, "memory": memory}, "strategy": {"batch_size": 256}}
    given = tables(path, bounded, {"embedding": {"dim": learnt}} if learnt else {})
    script = (
        "import json, sys, starling; print(starling.Trainer(json.loads(sys.argv[1]), run=sys.argv[2]).fit().peak_rss_bytes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(given), str(tmp_path / "run")], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= memory


def test_gradients_are_evaluated_part_by_part_where_features_do_not_fit(tmp_path: Path) -> None:
    """`--sync gradient` within a memory that cannot hold all features: the same losses, weights and scores."""
    x = np.random.default_rng(2).normal(size=(61, 200)).astype(np.float32)
    path = cut(small_graph(tmp_path / "g", x=x), tmp_path / "cut", 4, np.arange(61) % 4)
    found, evaluated = [], []
    original = PartsEvaluation.scores

    def watched(self: PartsEvaluation, *given: Any) -> Any:
        evaluated.append(memory)
        return original(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartsEvaluation, "scores", watched)
        for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
            patch.setattr(budget, name, 0)  # as if the program took nothing
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        for memory in (1 << 30, 90_000):  # the features are 48,800 bytes
            changes: Tables = {"team": {"parallel": "data", "workers": 2}, "run": {"memory": memory}}
            config = RunConfig.from_tables(tables(path, ONE_PROCESS, changes))
            found += on_hosts([0, 0], partial(fit_as, config, tmp_path / str(memory)))
    assert set(evaluated) == {90_000}
    assert not list(tmp_path.glob("starling-evaluation-*"))
    for result in found[1:]:
        assert result.losses == found[0].losses
        assert result.scores == found[0].scores
