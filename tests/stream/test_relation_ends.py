"""Names of relations that say which types they join are held to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from starling.cli.main import run

NODES = "id,type\na1,author\np1,paper\np2,paper\n"


def imported(tmp_path: Path, edges: str, *flags: str) -> int:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text("source,destination,type\n" + edges)
    return run(
        ["import", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), *flags, "-o", str(tmp_path / "g")]
    )


@pytest.mark.parametrize(
    ("edges", "sentence"),
    [
        ("a1,p1,editor__edits__paper\n", "names the node type 'editor', which no node has"),
        (
            "a1,p1,author__writes__paper\np1,p2,author__writes__paper\n",
            "source of type 'author', got one of type 'paper' at edge 1",
        ),
        ("a1,p1,author__writes__author\n", "destination of type 'author', got one of type 'paper' at edge 0"),
    ],
)
def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], edges: str, sentence: str) -> None:
    assert imported(tmp_path, edges) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("flags", [[], ["--inverse"]])
def test_what_fits_and_names_that_say_nothing(tmp_path: Path, flags: list[str]) -> None:
    assert imported(tmp_path, "a1,p1,author__writes__paper\np1,p2,cites\n", *flags) == 0
