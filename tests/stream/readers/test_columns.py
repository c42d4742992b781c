"""Roles of columns: what the user says, then names, then places; nothing is guessed silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from starling.core.errors import InputError
from starling.stream.readers.columns import Roles, edge_roles, names_edges, names_nodes, node_roles
from starling.stream.readers.source import Batch, Column, ColumnSource, Kind, Want

LETTER: dict[str, Kind] = {"i": "integer", "n": "number", "b": "boolean", "t": "text", "e": "empty"}


class Named(ColumnSource):
    """Columns with names and kinds, and nothing in them."""

    def __init__(self, names: str | int, kinds: str = "") -> None:
        self.name, self.named = "f.csv", isinstance(names, str)
        listed = names.split() if isinstance(names, str) else [str(place) for place in range(names)]
        letters = kinds or "i" * len(listed)
        self.columns = tuple(
            Column(place, name.strip("-"), LETTER[letter], LETTER[letter])
            for place, (name, letter) in enumerate(zip(listed, letters, strict=True))
        )

    def check(self, wanted: Mapping[int, Want]) -> None:
        pass

    def batches(self, wanted: Mapping[int, Want]) -> Iterator[Batch]:
        yield {}

    def place(self, row: int) -> str:
        return f"line {row}"


def edge(names: str | int, kinds: str = "", **asked: str) -> Roles:
    return edge_roles(Named(names, kinds), asked)


def node(option: str, names: str | int, kinds: str = "", **asked: str) -> Roles:
    return node_roles(Named(names, kinds), asked, option)


def test_edges_by_name() -> None:
    assert edge("src dst") == {"source": (0,), "destination": (1,)}
    assert edge("Target Source") == {"source": (1,), "destination": (0,)}
    assert edge("From_Node_Id ToNodeId W ts rel") == {
        "source": (0,),
        "destination": (1,),
        "weight": (2,),
        "time": (3,),
        "type": (4,),
    }
    assert edge("head relation tail", "iti") == {"source": (0,), "destination": (2,), "type": (1,)}


def test_edges_by_place() -> None:
    assert edge("a b") == {"source": (0,), "destination": (1,)}
    assert edge("weight a b")["source"] == (1,)
    assert edge(2) == {"source": (0,), "destination": (1,)}
    assert edge(3, "iin") == {"source": (0,), "destination": (1,), "weight": (2,)}


def test_columns_left_over_are_attributes_only_where_they_have_names() -> None:
    assert edge("u v a b c")["attr"] == (2, 3, 4)
    assert edge("- u v a id")["attr"] == (3,)  # a column without a name, and edge numbers, are no data
    with pytest.raises(InputError, match=r"4 columns and no header.*--column weight=2.*--column skip=2\+3"):
        edge(4)


def test_edges_as_asked() -> None:
    assert edge("a b c d e", source="b", destination="a", weight="c", attr="d+e") == {
        "source": (1,),
        "destination": (0,),
        "weight": (2,),
        "attr": (3, 4),
    }
    assert edge(3, "iti", source="0", destination="2", type="1") == {"source": (0,), "destination": (2,), "type": (1,)}
    assert edge("u v a b", attr="b")["attr"] == (3,)  # who names attributes names all of them
    assert edge("u v a b", skip="a")["attr"] == (3,)
    assert edge(5, "iinnn", weight="2", skip="3+4")["weight"] == (2,)
    assert edge("u v d+e", attr="d+e")["attr"] == (2,)  # a name with a plus in it


@pytest.mark.parametrize(
    ("names", "asked", "sentence"),
    [
        ("src b c", {}, "a source .column 'src'. and no destination.*--column destination=NAME"),
        ("only", {}, r"at least 2 columns .* got 1.*--delimiter"),
        ("u v weights w", {}, "Both column 'weights' and column 'w' .* may be the weight.*--column weight=weights"),
        ("u v wait", {"weight": "weight"}, "no column 'weight' in f.csv. Did you mean 'wait'"),
        ("u v w", {"wieght": "w"}, "no role 'wieght'.*Did you mean 'weight'"),
        ("u v w", {"weight": "w", "time": "w"}, "column 'w' of f.csv is named for two roles"),
        ("u v a b", {"weight": "a+b"}, r"one column for weight, got a\+b"),
        (3, {"weight": "w"}, "no column number .there is no header. 'w'"),
    ],
)
def test_edges_that_cannot_be_told(names: str | int, asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        edge(names, **asked)


def test_nodes_by_name() -> None:
    assert node("nodes", "id age height label split", "iinti") == {
        "id": (0,),
        "label": (3,),
        "split": (4,),
        "x": (1, 2),
    }
    assert node("nodes", "train_mask node_type ts x1 val test", "btinbb") == {
        "train": (0,),
        "val": (4,),
        "test": (5,),
        "type": (1,),
        "time": (2,),
        "x": (3,),
    }
    assert node("nodes", "name f0 f1", "tnn") == {"id": (0,), "x": (1, 2)}
    assert node("nodes", "paper_id f0", "in") == {"id": (0,), "x": (1,)}
    assert node("nodes", "name", "t") == {"id": (0,)}
    assert node("nodes", "- f0", "in") == {"x": (1,)}


def test_a_features_table_is_features_whatever_the_names() -> None:
    assert node("features", "x y type time", "nnii") == {"x": (0, 1, 2, 3)}
    assert node("features", "id y", "in") == {"id": (0,), "x": (1,)}
    assert node("features", 3, "inn") == {"x": (0, 1, 2)}
    assert node("features", 3, "tnn") == {"id": (0,), "x": (1, 2)}
    assert node("features", 3, "inn", id="0") == {"id": (0,), "x": (1, 2)}


def test_a_labels_table() -> None:
    assert node("labels", 1) == {"label": (0,)}
    assert node("labels", 2) == {"id": (0,), "label": (1,)}
    assert node("labels", "id subject", "it") == {"id": (0,), "label": (1,)}
    assert node("labels", "id c0 c1 c2") == {"id": (0,), "label": (1, 2, 3)}
    assert node("labels", "class") == {"label": (0,)}


@pytest.mark.parametrize(
    ("option", "names", "asked", "sentence"),
    [
        ("nodes", 3, {}, "a first line that names the columns .*--column nodes.id=0"),
        ("nodes", "id y class", {}, "Both column 'y' and column 'class' .*--column nodes.label=y"),
        ("nodes", "id a", {"lable": "a"}, "no role 'nodes.lable'.*Did you mean 'nodes.label'"),
        ("features", "id", {}, "no column of features, only ids"),
        ("labels", "id label note", {}, "column 'note' of f.csv has no role.*--column labels.skip=NAME"),
    ],
)
def test_tables_that_cannot_be_told(option: str, names: str | int, asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        node(option, names, **asked)


def test_which_words_are_headers() -> None:
    assert names_edges(["Source", "Target"])
    assert not names_edges(["source", "b"])
    assert names_nodes(["name", "label"])
    assert not names_nodes(["ann", "red"])
