"""``starling partition`` keeps to ``--memory``, measured in a process of its own, or refuses before it starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from starling.cli.main import run
from starling.core.memory import parse_bytes
from tests.support.command import starling

ALLOCATOR = 8 << 20
"""What malloc may keep of freed memory from one run to the next."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory") / "graph"
    sizes = ["--nodes", "1000000", "--edges", "1600000", "--classes", "4", "--seed", "7"]
    assert run(["generate", "dcsbm", *sizes, "-q", "-o", str(place)]) == 0
    return place


@pytest.mark.parametrize(
    "flags",
    [
        ("--method", "spring"),
        ("--method", "hash", "--balance", "train,val,test,edges", "--tolerance", "0.1"),
    ],
    ids=["shards", "balance"],
)
def test_the_least_memory_that_is_accepted_is_kept_to(flags: tuple[str, ...], graph: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    assert run(["generate", "dcsbm", "--nodes", "500", "--edges", "4000", "--classes", "4", "-q", "-o", str(small)]) == 0
    warmed = starling("partition", small, "-p", 2, *flags, "-o", tmp_path / "warm", "--json")  # compiling takes memory, once
    assert warmed.status == 0, warmed.err
    asked = ("partition", graph, "-p", 2, *flags, "-o", tmp_path / "parts", "--json")
    refused = starling(*asked, "--memory", "200MiB")
    assert refused.status == 2, refused.err
    found = re.search(r"needs --memory of at least (\d+\.\d) MiB, got 200\.0 MiB", refused.err)
    assert found is not None, refused.err
    least = parse_bytes(f"{float(found[1]) + 0.1:.1f}MiB")
    done = starling(*asked, "--memory", least)
    assert done.status == 0, done.err
    assert done.json["peak_rss_bytes"] <= least + ALLOCATOR
