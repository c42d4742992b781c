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


def test_reverses_of_the_same_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is right, and what is wrong is the wish for reverses: the advice is another, also that of the note."""
    assert imported(tmp_path, "a1,p1,author__writes__paper\n", "--undirected") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "Undirected edges have reverses of the same type. Import them as --directed, with --inverse" in told
    assert imported(tmp_path, "p1,p2,paper__cites__paper\n", "--undirected", "--quiet") == 0
    assert "note" not in capsys.readouterr().out
    assert imported(tmp_path, "a1,p1,author__writes__paper\n", "--quiet", "--force") == 0
    assert "edges have no reverse; add --inverse if they go both ways" in " ".join(capsys.readouterr().out.split())
