"""``--parallel data`` as a user meets it: the command, its records, one worker, and one sentence for what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.stages import Stages
from starling.launch.trainer import Trainer
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.setup import set_up
from starling.train.trainer import fit
from tests.cli.test_train import run_json
from tests.engine.data.cases import data_config, learn_on_hosts, on_hosts, stage_threads
from tests.engine.hybrid.runs import cut
from tests.support.source import ROOT
from tests.support.trainable import trainable_graph

SAGE = {"name": "sage", "hidden": 8, "layers": 2}
STAGES = ["schedule", "sample", "fetch", "compact", "copy"]


@pytest.fixture(autouse=True)
def _cheap_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("STARLING_THREADS", "1")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return trainable_graph(tmp_path / "g")


@pytest.fixture
def parts(graph: Graph, tmp_path: Path) -> Path:
    return cut(graph, tmp_path / "cut", 3, np.random.default_rng(1).integers(0, 3, graph.nodes))


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_command(parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two real processes, three hops of samples; every epoch says how busy and how full the stages were."""
    how = ("--strategy", "mini", "--fanouts", "15,10,5", "--hidden", 8, "--batch-size", 10, "--epochs", 3)
    told = run_json(capsys, "train", parts, "--parallel", "data", *how, "--workers", 2, "--run", tmp_path / "run")
    assert (told["parallel"], told["workers"], told["epochs"]) == ("data", 2, 3)
    assert told["test"] > 1 / 3
    for line in lines_of(tmp_path / "run"):
        for worker in line["workers"]:
            assert list(worker["stages"]) == STAGES
            assert all(stage["seconds"] >= 0 and stage["fill"] >= 0 for stage in worker["stages"].values())
    config = RunConfig.read(tmp_path / "run" / "config.toml")
    assert (config.team.parallel, config.team.shuffle) == ("data", "local")
    assert config.model.settings["layers"] == 3  # as many as fan-outs


def test_a_graph_by_one_worker(graph: Graph, tmp_path: Path) -> None:
    """It is one part then, and the same as one process."""
    tables = {
        "data": {"path": graph.path},
        "model": SAGE,
        "strategy": {"name": "mini", "batch_size": 8, "fanouts": [3, 2]},
        "run": {"epochs": 1},
    }
    plain = Trainer(tables, run=tmp_path / "plain").fit()
    data = Trainer({**tables, "team": {"parallel": "data", "shuffle": "global"}}, run=tmp_path / "data").fit()
    np.testing.assert_allclose(data.losses, plain.losses, rtol=1e-4)


@pytest.mark.parametrize("mode", ["non-stop", "epoch", "off"])
def test_early_stopping_in_the_middle_ends_everybody(parts: Path, tmp_path: Path, mode: str) -> None:
    """Validation stops getting better long before the last epoch; stages have begun steps that nobody will compute."""
    config = data_config(parts, 3, SAGE, {"batch_size": 5, "fanouts": [2, 2]}, epochs=200, pipeline={"mode": mode})
    config = config.model_copy(
        update={
            "run": config.run.model_copy(update={"patience": 2, "evaluate_every": 1}),
            "optimizer": config.optimizer.model_copy(update={"lr": 1e-9}),
        }
    )
    learnt = learn_on_hosts(config, tmp_path / "run", [0, 1, 1])
    assert {len(worker.losses) for worker in learnt} == {3}
    assert stage_threads() == []


def test_local_only_sends_no_edges(parts: Path, tmp_path: Path) -> None:
    """Sampling asks nobody; what is sent is features of the halo, gradients and sums."""
    how = {"batch_size": 12, "fanouts": [3, 2]}
    whole, local = (
        learn_on_hosts(data_config(parts, 3, SAGE, how, local_only=alone), tmp_path / f"{alone}", [0, 1, 2])[0]
        for alone in (False, True)
    )
    assert local.bytes_sent < whole.bytes_sent
    assert local.losses[-1] < local.losses[0]
    assert not np.array_equal(local.losses, whole.losses)


def test_normalized_features_are_those_of_one_process(graph: Graph, parts: Path) -> None:
    """Rows that are pulled are scaled as the worker's own are; columns by the training nodes of all workers."""
    x, train = np.asarray(graph.node_table("x")), np.asarray(graph.node_table("train"))
    expected = {
        "rows": x / x.sum(axis=1, keepdims=True),
        "standard": (x - x[train].mean(axis=0)) / x[train].std(axis=0),
    }
    for how, wanted in expected.items():
        config = data_config(parts, 3, SAGE, {"batch_size": 36})
        config = config.model_copy(update={"data": config.data.model_copy(update={"normalize": how})})

        def rows(team: Team, config: RunConfig = config, wanted: Any = wanted) -> None:
            for batch in set_up(config, team).work.batches(1):
                position = batch.views[0].graph.position
                np.testing.assert_allclose(batch.x, wanted[position], rtol=1e-4, atol=1e-5)

        on_hosts([0, 1, 1], rows)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"name": "global"}, {}, "compute mini-batches of their own, got the strategy global"),
    ({"name": "cluster"}, {}, "compute mini-batches of their own, got the strategy cluster"),
    ({"name": "mini", "sampling": "layerwise", "fanouts": [5, 5]}, {}, "Layer-wise sampling draws from all rows"),
    ({"name": "mini", "fanouts": [5, 5, 5]}, {}, "Expected 2 fan-outs, one a layer, got 3"),
    ({"name": "mini", "sampling": "weighted", "fanouts": [5, 5]}, {}, "Weighted sampling reads the edge table 'weight'"),
    ({"name": "mini", "batch_size": 10**6}, {}, "Lower --batch-size"),
    ({"name": "mini"}, {"boundary": 0.5}, "--boundary is for --parallel hybrid"),
    ({"name": "mini"}, {"overlap": False}, "--overlap off is for --parallel hybrid"),
    ({"name": "mini"}, {"local_only": True, "shuffle": "global"}, "--local-only computes each part's own targets"),
    ({"name": "mini"}, {"parallel": "hybrid", "local_only": True}, "--local-only is for --parallel data"),
    ({"name": "mini"}, {"parallel": "hybrid", "shuffle": "global"}, "--shuffle global is for --parallel data"),
]


def test_a_pipeline_for_nobody_is_refused(parts: Path) -> None:
    tables = {"data": {"path": parts}, "pipeline": {"mode": "off"}}
    with pytest.raises(InputError, match="Leave it out"):
        RunConfig.from_tables(tables)
    assert RunConfig.from_tables({**tables, "team": {"parallel": "data"}}).pipeline.mode == "off"


@pytest.mark.parametrize(("strategy", "team", "said"), REFUSED)
def test_what_cannot_be_is_one_sentence(
    parts: Path, tmp_path: Path, strategy: dict[str, Any], team: dict[str, Any], said: str
) -> None:
    tables = {"data": {"path": parts}, "model": SAGE, "strategy": strategy, "team": {"parallel": "data", **team}}
    with pytest.raises(InputError, match=said):
        Trainer(tables, run=tmp_path / "run").fit()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("hosts", [[0], [0, 1], [0, 0, 1, 1]], ids=lambda hosts: f"{len(hosts)} workers")
def test_a_stage_of_ones_own(parts: Path, tmp_path: Path, stage: str, hosts: list[int]) -> None:
    """Any stage can be replaced from Python: here by one that notes what it gives, and goes on as before."""
    config = data_config(parts, len(hosts), SAGE, {"batch_size": 20, "fanouts": [2, 2]}, epochs=1)

    def work(team: Team) -> tuple[list[str], list[float]]:
        given: list[str] = []

        def noted(stages: Stages) -> Stages:
            def own(item: Any) -> Any:
                result = getattr(stages, stage)(item)
                given.append(type(result).__name__)
                return result

            return replace(stages, **{stage: own})

        result = fit(config, tmp_path / "run", team=team, stages=noted)
        return given, list(result.losses)

    kinds = dict(zip(STAGES, ("Scheduled", "Sampled", "RowsUnderWay", "FilledBatch", "FilledBatch"), strict=True))
    expected = learn_on_hosts(config, tmp_path / "plain", hosts)[0].losses
    for given, losses in on_hosts(hosts, work):
        assert given == [kinds[stage]] * 2  # 36 targets, 20 a step
        np.testing.assert_array_equal(losses, expected)


def test_stages_of_other_runs_are_refused(graph: Graph, tmp_path: Path) -> None:
    plain = RunConfig.from_tables({"data": {"path": graph.path}, "model": SAGE})
    with pytest.raises(InputError, match="Stages prepare the batches of --parallel data"):
        fit(plain, tmp_path / "plain", stages=lambda stages: stages)
