"""Training under torchrun, as on two machines: each has a config, the shards of its own worker, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.launch.train_worker import train
from starling.train.config import RunConfig
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.source import ROOT
from tests.support.trainable import trainable_graph

CONFIG = """
[data]
path = "parts"
[model]
name = "gcn"
hidden = 8
dropout = 0.3
[strategy]
name = "mini"
batch_size = 12
[run]
epochs = 3
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    return cut(trainable_graph(folder / "g"), folder / "cut", 2, np.arange(60) % 2)


def machine(folder: Path, parts: Path, text: str = CONFIG, shards: tuple[int, ...] = (0, 1)) -> Path:
    """What one machine has."""
    (folder / "parts").mkdir(parents=True)
    (folder / "birds.toml").write_text(text)
    (folder / "spec.json").write_text(json.dumps({"config": "birds.toml", "run": "run"}))
    shutil.copy(parts / "manifest.json", folder / "parts")
    for shard in shards:
        shutil.copytree(parts / f"part-{shard:05d}", folder / "parts" / f"part-{shard:05d}")
    return folder


def torchrun(machines: list[Path]) -> Any:
    """Train on all of them, one worker on each; the result."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents = []
    for number, here in enumerate(machines):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(machines)}", "--nproc-per-node=1"]
        place = [f"--node-rank={number}", "--master-addr=127.0.0.1", f"--master-port={port}"]
        worker = ["-m", "starling.launch.worker", "starling.launch.train_worker:train", "spec.json", "--threads=1"]
        agents.append(
            subprocess.Popen([*command, *place, *worker], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    outputs = [agent.communicate(timeout=200) for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(machines), outputs
    assert all(printed == "" for printed, _ in outputs[1:])
    return json.loads(outputs[0][0])


def test_two_machines_learn_what_one_does(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RunConfig.read(machine(tmp_path / "one", parts) / "birds.toml")
    config = whole.model_copy(update={"team": whole.team.model_copy(update={"workers": 2})})
    expected = run_threads(2, lambda team: fit(config, tmp_path / "expected", team=team))[0].losses
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("STARLING_THREADS", raising=False)
    result = torchrun([machine(tmp_path / f"machine-{number}", parts, shards=(number,)) for number in (0, 1)])
    assert tuple(result["losses"]) == expected
    assert result["summary"]["workers"] == 2
    assert (tmp_path / "machine-0" / "run" / "summary.json").is_file()
    assert not (tmp_path / "machine-1" / "run").exists()


def fail(here: Path, workers: int, rank: int, how: signal.Signals) -> list[str]:
    """Train for ever under torchrun, until that happens to a worker; the sentences of all workers."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    worker = ["-m", "starling.launch.worker", "starling.launch.train_worker:train", f"{here}/spec.json", "--deadline=3"]
    with subprocess.Popen([*command, *worker], cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as agent:
        started: list[psutil.Process] = []
        try:
            started = under_way(here / "live", agent, workers)
            started[rank].send_signal(how)
            _, printed = agent.communicate(timeout=60)
        finally:  # not all children of this process: its own servers of processes are among them
            for process in [*started, agent]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
    assert agent.returncode == 1
    assert psutil.wait_procs(started, 0)[1] == []
    return [line for line in printed.splitlines() if line.startswith("starling: ")]


def under_way(live: Path, agent: subprocess.Popen[str], workers: int) -> list[psutil.Process]:
    """The workers' processes by rank, when they have trained for an epoch."""
    end = time.monotonic() + 120
    while not (live.exists() and '["epoch"' in live.read_text()):
        assert agent.poll() is None, agent.stderr and agent.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
    started = [child for child in psutil.Process(agent.pid).children() if "starling.launch.worker" in child.cmdline()]
    assert len(started) == workers
    return sorted(started, key=lambda worker: int(worker.environ()["RANK"]))


@pytest.mark.parametrize(
    ("workers", "rank", "how", "cause"),
    [
        (2, 0, signal.SIGKILL, "was killed or ended without a word: its process is gone."),
        (4, 3, signal.SIGKILL, "was killed or ended without a word: its process is gone."),
        (2, 1, signal.SIGSTOP, "is stopped (SIGSTOP, or a debugger), for "),
    ],
)
def test_a_worker_that_cannot_speak_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, rank: int, how: signal.Signals, cause: str
) -> None:
    """Another names it, what it was doing and what became of it, and nobody names anybody else."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    shards = cut(trainable_graph(tmp_path / "g"), tmp_path / "cut", workers, np.arange(60) % workers)
    text = CONFIG.replace("epochs = 3", "epochs = 1000000")
    here = machine(tmp_path / "here", shards, text, shards=tuple(range(workers)))
    (here / "spec.json").write_text(json.dumps({"config": "birds.toml", "run": "run", "live": "live"}))
    (told,) = fail(here, workers, rank, how)
    phase = r"(epoch \d+, step \d+|evaluation after epoch \d+)"
    assert re.match(rf"starling: Worker {rank} of {workers} \({phase}\) {re.escape(cause)}", told), told


def refused(folder: Path, workers: int = 2, **spec: Any) -> str:
    with pytest.raises(InputError) as caught:
        run_threads(
            workers, lambda team: train(team, {"config": str(folder / "birds.toml"), "run": str(folder / "run"), **spec})
        )
    assert not (folder / "run").exists()
    return str(caught.value)


def test_what_workers_cannot_train_on(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine(tmp_path / "few", parts, shards=(0,))
    assert "part-00001 is missing" in refused(here)
    assert "got 3 workers for 2 parts" in refused(here, workers=3)
    other = machine(tmp_path / "other", parts, CONFIG + "[team]\nworkers = 4\n")
    assert "birds.toml is for 4 workers, and 2 were started" in refused(other)
    slow = machine(tmp_path / "slow", parts, CONFIG + '[team]\ntransport = "gloo"\n')
    assert "Pass them --transport instead" in refused(slow)
    card = machine(tmp_path / "card", parts, CONFIG + 'device = "cuda"\n')
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert "Workers were started on the device cpu, and" in (told := refused(card))
    assert "birds.toml says cuda. Pass them --device cuda, or change the 'device' of [run]." in told
    trainable_graph(tmp_path / "whole" / "g")
    (tmp_path / "whole" / "birds.toml").write_text(CONFIG.replace('"parts"', '"g"'))
    assert "Workers share a parts directory" in refused(tmp_path / "whole")
    with pytest.raises(InputError, match="got no config"):
        train(Team(), {"run": "x"})


def test_a_run_is_never_overwritten(tmp_path: Path, parts: Path) -> None:
    here = machine(tmp_path / "here", parts)
    (here / "run").mkdir()
    (here / "run" / "config.toml").write_text("")
    with pytest.raises(InputError, match="a run is never overwritten"):
        run_threads(2, lambda team: train(team, {"config": str(here / "birds.toml"), "run": str(here / "run")}))
