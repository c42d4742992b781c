"""Convolutions of PyG whose rows depend on each other, which a team may not split."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from starling.core.errors import InputError
from starling.core.exchange import Alone
from starling.nn import pyg as pyg_module
from starling.nn.graph import local_graph
from starling.nn.pyg import pyg_layer
from starling.nn.view import View

pyg_norm = pytest.importorskip("torch_geometric.nn").norm


class Two(Alone):
    """One of two workers that has all it needs."""

    workers = 2


@pytest.mark.parametrize(
    ("name", "options", "inside"),
    [
        ("GENConv", {}, "BatchNorm1d"),
        ("GENConv", {"norm": "layer"}, None),
        ("GENConv", {"norm": None}, None),
        ("GENConv", {"norm": None, "msg_norm": True}, None),
        ("SAGEConv", {"aggr": "lstm"}, "LSTM"),
        ("SAGEConv", {"aggr": "max"}, None),
    ],
)
def test_convolutions_that_mix_rows_are_refused_by_several_workers(
    name: str, options: dict[str, Any], inside: str | None
) -> None:
    layer = pyg_layer(name, 3, 2, options)
    graph, rows = local_graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0])), torch.randn(2, 3)
    assert layer(View(graph), rows).shape == (2, 2)
    if inside is None:
        assert layer(View(graph, Two()), rows).shape == (2, 2)
        return
    with pytest.raises(InputError, match=f"{name} has .*{inside}.* inside.*--parallel data"):
        layer(View(graph, Two()), rows)


@pytest.mark.parametrize(
    ("norm", "mixes"),
    [("PairNorm()", True), ("LayerNorm(2)", True), ("LayerNorm(2, mode='node')", False), ("MessageNorm()", False)],
)
def test_norms_of_pyg_over_all_rows(norm: str, mixes: bool) -> None:
    found = pyg_module._mixes_rows(torch.nn.Sequential(torch.nn.Linear(2, 2), eval(f"pyg_norm.{norm}")))
    assert (found is not None) is mixes


def test_no_file_is_left(tmp_path: Path) -> None:
    """In a new process: a kind of convolution is compiled once."""
    script = "from starling.nn.pyg import pyg_layer; pyg_layer('GATConv', 3, 2, {}); pyg_layer('SAGEConv', 3, 2, {})"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=200)
    assert not list(tmp_path.glob("**/*.py"))
