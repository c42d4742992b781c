"""``starling forecast`` and ``starling train --auto``: the recommended command runs and keeps to its memory; mistakes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from starling.cli.main import run
from starling.launch import calibrate
from starling.plan.calibration import Machine, default_path
from starling.store.graph import Graph
from tests.engine.hybrid.test_typed import build
from tests.support.command import starling
from tests.support.rates import calibration, calibration_file
from tests.support.trainable import trainable_graph

NUMBERS = ("--nodes", 100_000, "--edges", 1_000_000, "--features", 64)


@pytest.fixture(autouse=True)
def rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a calibrated machine of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calibration_file(default_path())


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return trainable_graph(tmp_path_factory.mktemp("forecast") / "graph", nodes=4000, edges=40_000, features=64)


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    status = run(["forecast", *map(str, arguments), "--json"])
    told = capsys.readouterr()
    assert status == 0, told.err
    return json.loads(told.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run([*map(str, arguments)]) == 2
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if line.startswith("starling:")]
    assert len(lines) == 1, told.err
    return lines[0]


@pytest.mark.parametrize("more", [(), ("--strategy", "saint")], ids=["any", "saint"])
def test_the_recommended_command_stays_within_its_memory(
    more: tuple[str, ...], graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--model", "sage", "--hidden", 32, "--layers", 3, "--worker-memory", "1GiB", *more)
    found = asked(capsys, graph.path, *flags)
    plan = found["plans"][found["recommended"]]
    assert found["command"] == plan["command"]
    program, *words = shlex.split(found["command"])
    assert program == "starling"
    done = starling(*words, "--epochs", 2, "--run", tmp_path / "run", "--json")
    assert done.status == 0, done.err
    assert done.json["strategy"] == plan["strategy"]
    assert done.json["peak_rss_bytes"] <= plan["memory_bytes"] <= found["worker_memory_bytes"]


def test_a_plan_of_workers_runs_and_sends_what_it_says(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(capsys, graph.path, "--workers", 2, "--worker-memory", "2GiB", "--strategy", "global", "--parallel", "hybrid")
    plan = next(plan for plan in found["plans"] if plan["workers"] == 2 and plan["boundary"] == 1)
    done = starling(*shlex.split(plan["command"])[1:], "--epochs", 3, "--run", tmp_path / "run", "--json")
    assert done.status == 0, done.err
    assert done.json["workers"] == 2
    assert done.json["peak_rss_bytes"] <= plan["memory_bytes"]
    assert plan["bytes_per_epoch"] == pytest.approx(done.json["bytes_sent_per_epoch"], rel=0.02)


def test_train_takes_the_recommendation(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        str(graph.path),
        "--auto",
        "--worker-memory",
        "1GiB",
        "--epochs",
        "1",
        "--run",
        str(tmp_path / "run"),
        "--json",
    ]
    assert run([*words, "--strategy", "mini", "--fanouts", "3,3"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["strategy"] == "mini"
    assert "--auto takes mini, one process" in told.err
    config = (tmp_path / "run" / "config.toml").read_text()
    assert "fanouts = [3, 3]" in config
    assert "memory = " in config


@pytest.mark.parametrize("fanouts", ["flag", "file"])
def test_fan_outs_are_kept_to(fanouts: str, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Given alone, they ask for mini-batches, and for as many layers as there are of them."""
    (tmp_path / "run.toml").write_text("[strategy]\nfanouts = [4, 3, 2]\n")
    given = ["--fanouts", "4,3,2"] if fanouts == "flag" else ["--config", str(tmp_path / "run.toml")]
    words = ["train", str(graph.path), "--auto", "--epochs", "1", "--run", str(tmp_path / "run"), "--json", *given]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "mini"
    assert "layers = 3" in (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize(("setting", "words"), [("run.seed=abc", "'seed' of [run]"), ("model.layers=two", "'layers'")])
def test_auto_checks_settings_first(setting: str, words: str, graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refused(capsys, "train", graph.path, "--auto", "--set", setting)


def test_a_table_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["forecast", *map(str, NUMBERS), "--workers", "4", "--worker-memory", "2GiB", "--network", "1Gbit"]) == 0
    told = capsys.readouterr().out
    assert "Recommended:" in told
    assert "Run with: starling train graph --model sage" in told
    assert "Assumed" in told
    assert max(map(len, told.split("Run with:")[0].splitlines())) <= 80


def test_clusters_that_are_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(
        capsys,
        *NUMBERS,
        "--strategy",
        "global",
        "--workers",
        2,
        "--worker-memory",
        "4GiB",
        "--network",
        "1Gbit",
        "--simulate",
        64,
    )
    points = found["simulation"]["points"]
    assert [point["workers"] for point in points] == [1, 2, 4, 8, 16, 32, 64]
    assert points[0]["efficiency"] == 1


def test_a_machine_that_was_never_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    default_path().unlink()
    monkeypatch.setattr(calibrate, "calibrate", lambda *, quick, progress: calibration(quick=quick))
    assert run(["forecast", *map(str, NUMBERS), "--json"]) == 0
    told = capsys.readouterr()
    assert "never calibrated" in told.err
    assert json.loads(told.out)["calibration"]["quick"]
    assert default_path().is_file(), "the next forecast need not measure again"


def test_another_machines_rates_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Machine(processor="Abacus", cores=64, memory_bytes=1 << 40, system="Linux")
    file = calibration_file(tmp_path / "other.json", other)
    assert run(["forecast", *map(str, NUMBERS), "--calibration", str(file)]) == 0
    assert "another machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Expected a graph or parts directory"),
        (("--nodes", 10, "--edges", 5), "got no --features"),
        ((*NUMBERS, "--train-share", 0), "Expected from 1 to 100,000 training nodes"),
        ((*NUMBERS, "--network", "fast"), "such as 1Gbit"),
        ((*NUMBERS, "--worker-memory", "lots"), "such as 512MiB"),
        ((*NUMBERS, "--model", "sagee"), "Did you mean 'sage'"),
        ((*NUMBERS, "--strategy", "globel"), "Did you mean 'global'"),
        ((*NUMBERS, "--fanouts", "5"), "Expected 2 fan-outs"),
        ((*NUMBERS, "--batch-size", 100_001), "at most the 50,000 training nodes"),
        ((*NUMBERS, "--calibration", "nowhere.json"), "There is no calibration in nowhere.json"),
        ((*NUMBERS, "--workers", 2, "--worker-memory", "100MiB"), "Nothing fits 100.0 MiB a worker"),
        ((*NUMBERS, "--model", "rgat"), "The model rgat reads edge types, and the graph has none. Say --relations"),
        ((*NUMBERS, "--strategy", "saint", "--simulate", 4), "in one process, so there is no cluster to simulate"),
        (("nowhere",), "nowhere does not exist"),
        (("--nodes", 10, "--edges", 1_000_000, "--features", 8), "Expected at most 100 edges between 10 nodes"),
        ((*NUMBERS, "--strategy", "global", "--fanouts", "5,5"), "--fanouts is for the strategy mini"),
        ((*NUMBERS, "--strategy", "saint", "--parallel", "hybrid", "--workers", 2), "is not trained by 2 workers"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[object, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refused(capsys, "forecast", *arguments)


def test_a_graph_and_numbers_contradict(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has its own numbers" in refused(capsys, "forecast", graph.path, "--nodes", 5)


def test_worker_memory_without_auto_is_refused(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Pass --auto too" in refused(capsys, "train", graph.path, "--worker-memory", "1GiB")


def test_what_does_not_fit_is_an_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A script sees every plan and why none was taken, on standard output, beside the sentence and the status."""
    assert run(["forecast", *map(str, NUMBERS), "--worker-memory", "100MiB", "--json"]) == 2
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["recommended"] is None
    assert found["command"] is None
    assert found["refusal"].startswith("Nothing fits 100.0 MiB a worker")
    assert found["refusal"] in told.err
    assert not any(plan["fits"] for plan in found["plans"])


def test_relations_are_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, *NUMBERS, "--model", "rgat", "--relations", 5, "--worker-memory", "64GiB")
    plain = asked(capsys, *NUMBERS, "--model", "gat", "--worker-memory", "64GiB")
    assert found["plans"][0]["memory_bytes"] > plain["plans"][0]["memory_bytes"], "a row for every source and relation"
    assert "--model rgat" in found["command"]


def test_features_of_each_type_are_not_forecast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The graph has features, so the advice is not to import it with some."""
    told = refused(capsys, "forecast", build(tmp_path / "typed", author=3).path)
    assert "the graph has features of each node type. Forecast from numbers: starling forecast --nodes 45 --edges 160" in told


def test_link_prediction_is_not_forecast(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Forecasts are for tasks on nodes" in refused(capsys, "train", graph.path, "--task", "link", "--auto")


def took(capsys: pytest.CaptureFixture[str], graph: Graph, tmp_path: Path, *flags: object) -> Any:
    """What `train --auto` ran, by its own answer."""
    words = [
        "train",
        graph.path,
        "--auto",
        "--worker-memory",
        "4GiB",
        "--epochs",
        1,
        "--run",
        tmp_path / "run",
        "--json",
        *flags,
    ]
    done = starling(*words)
    assert done.status == 0, done.err
    return done.json, (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize("flags", [("--batches", 5), ("--strategy", "cohesive", "--batches", 5)], ids=["alone", "named"])
def test_auto_keeps_to_batches(
    flags: tuple[object, ...], graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, config = took(capsys, graph, tmp_path, *flags)
    assert told["strategy"] == "cohesive"
    assert "batches = 5" in config


@pytest.mark.parametrize(
    ("flags", "line"),
    [(("--boundary", 0.5), "boundary = 0.5"), (("--strategy", "cohesive", "--balance-workers"), "balance_workers = true")],
    ids=["boundary", "balance"],
)
def test_auto_keeps_to_what_only_workers_do(
    flags: tuple[object, ...], line: str, graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, config = took(capsys, graph, tmp_path, "--workers", 2, *flags)
    assert told["workers"] == 2
    assert line in config


def test_auto_with_models_averaged_says_how_to_cut_first(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "train", graph.path, "--auto", "--sync", "average", "--worker-memory", "4GiB")
    assert "the graph must be cut first. Run: starling partition" in said


def test_auto_points_out_another_machines_rates(graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration_file(default_path(), Machine(processor="Abacus", cores=64, memory_bytes=1 << 40, system="Linux"))
    words = [
        "train",
        str(graph.path),
        "--auto",
        "--epochs",
        "1",
        "--run",
        str(tmp_path / "run"),
        "--json",
        "--strategy",
        "mini",
    ]
    assert run(words) == 0
    assert "another machine" in capsys.readouterr().err
