"""What is written reads back the same; what is not TOML is refused with a sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.config.toml import parse_value, read_tables, write_tables
from starling.core.errors import InputError

SCALARS = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab c.é", max_size=4), inner),
    max_leaves=6,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc-_ ü", min_size=1, max_size=5), st.dictionaries(st.text('xyz." ', max_size=4), VALUES)))
def test_round_trip(tables: dict[str, dict[str, Any]]) -> None:
    assert tomllib.loads(write_tables(tables)) == tables


def test_by_hand() -> None:
    tables = {"run": {"lr": 1e-05, "seed": 3, "left out": None, "fanouts": (15, "all")}, "model": {}}
    assert write_tables(tables) == '[run]\nlr = 1e-05\nseed = 3\nfanouts = [15, "all"]\n\n[model]\n'


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), ("true", True), ("[15, 10]", [15, 10]), ("batch", "batch"), ("'a'", "a"), ("", "")]
)
def test_values_of_flags(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"epochs = 3\n", "'epochs' outside a table"), (b"[run\n", "is not valid TOML"), (b"\xff\xfe", "is not valid TOML")],
)
def test_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_tables(tmp_path / "c.toml")
    with pytest.raises(InputError, match="Cannot read"):
        read_tables(tmp_path / "none.toml")
