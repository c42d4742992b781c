"""Standard input: looked at, then read from its first byte, plain or packed, without waiting for its end."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from starling.core.errors import InputError
from starling.stream.readers.textinput import StandardInput
from tests.stream.readers.collected import edges_of, open_graph


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_edges_from_standard_input(pack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"# comment\n" + b"".join(b"%d %d 0.5\n" % (i, i + 1) for i in range(50_000))
    feed(monkeypatch, pack(text))  # type: ignore[operator]
    reader = open_graph("-").edges
    assert (reader.expected, reader.total_bytes, reader.roles) == (None, None, ("weight",))
    edges = edges_of(reader)
    assert edges.pairs == [(i, i + 1) for i in range(50_000)]
    assert reader.place(7) == "line 9 of standard input"


def test_the_line_of_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"0,1\n" * 5000 + b"0,x\n")
    with pytest.raises(InputError, match="got 'x' at line 5001 of standard input"):
        edges_of(open_graph("-").edges)


def test_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"")
    with pytest.raises(InputError, match="Standard input is empty"):
        open_graph("-")


def test_only_the_first_rows_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as incoming, os.fdopen(theirs, "wb", buffering=0) as outgoing:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=incoming))
        outgoing.write(b"#\n" * 20 + b"5,6\n" * 200)
        source = StandardInput()  # returns though the pipe is still open
        with source.head() as head:
            assert head.read() == b"#\n" * 20 + b"5,6\n" * 100
        threading.Timer(0.05, outgoing.close).start()
        with source.open() as text:
            assert text.read() == b"#\n" * 20 + b"5,6\n" * 200


def test_standard_input_can_only_be_the_edges(tmp_path: object) -> None:
    for options in ({"nodes": "-"}, {"labels": "-"}):
        with pytest.raises(InputError, match="can only be the edges"):
            open_graph("a.csv", **options)
    with pytest.raises(InputError, match="can only be the edges"):
        open_graph("-", "a.csv")
