"""Any text at all, given as edges or as a table, is read or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from tests.stream.readers.collected import edges_of, open_graph, rows_of

WORDS = ("0", "1", "2", "-3", "1.5", "nan", "a", "ann", "ü", "train", "true", "id", "label", "split", "src", "dst", "w")
PIECES = (*WORDS, ",", ";", "\t", " ", "  ", "#", "%", "//", '"', '""', "\n", "\r\n", "\r")
texts = st.lists(st.sampled_from([*PIECES, ",", "\n", "\n"]), max_size=40).map("".join)


def refusal_of(place: Path, text: str, option: str) -> str | None:
    """The sentence of an `InputError`; any other exception is the test's failure."""
    (place / "edges.csv").write_text("0,1\n", newline="")
    (place / "given.csv").write_text(text, newline="")
    try:
        if option == "edges":
            edges_of(open_graph(place / "given.csv").edges)
        else:
            rows_of(open_graph(place / "edges.csv", **{option: str(place / "given.csv")}).tables[0])
    except InputError as error:
        return str(error)
    return None


@settings(max_examples=300, deadline=None)
@given(text=texts, option=st.sampled_from(["edges", "nodes", "features", "labels"]))
def test_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, option: str) -> None:
    refusal = refusal_of(tmp_path_factory.mktemp("t"), text, option)
    assert refusal is None or ("\n" not in refusal and "given.csv" in refusal)
