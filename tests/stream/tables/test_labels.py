from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from starling.core.errors import InputError
from starling.core.manifest import Labels
from starling.stream.tables.labels import LabelColumn


def name(row: int) -> str:
    return f"node {row} of labels.npy"


def labelled(path: Path, *blocks: Any, classes: int | None = None, names: tuple[str, ...] = ()) -> tuple[np.ndarray, Labels]:
    column = LabelColumn(path / "y.npy", classes, names)
    try:
        for block in blocks:
            column.append(block, name)
        column.finish()
    finally:
        column.close()
    return np.load(column.path), column.describe()


def test_class_numbers(tmp_path: Path) -> None:
    y, labels = labelled(tmp_path, np.array([2, -1], np.int8), np.array([[0], [4]], np.uint8))
    assert y.dtype == np.int64
    assert y.tolist() == [2, -1, 0, 4]
    assert labels == Labels(kind="single", classes=5, labelled=3)


def test_the_number_and_names_of_classes_can_be_given(tmp_path: Path) -> None:
    assert labelled(tmp_path, np.array([0, 1]), classes=7)[1].classes == 7
    labels = labelled(tmp_path, np.array([0, 1]), names=("cat", "dog", "owl"))[1]
    assert labels == Labels(kind="single", classes=3, labelled=2, names=("cat", "dog", "owl"))


def test_class_names_are_sorted(tmp_path: Path) -> None:
    y, labels = labelled(tmp_path, pa.array(["owl", None]), pa.array(["cat", "owl"]))
    assert y.tolist() == [1, -1, 0, 1]
    assert labels == Labels(kind="single", classes=2, labelled=3, names=("cat", "owl"))
    y, labels = labelled(tmp_path, pa.array(["owl", "cat"]), names=("owl", "dog", "cat"))
    assert y.tolist() == [0, 2]
    assert labels == Labels(kind="single", classes=3, labelled=2, names=("owl", "dog", "cat"))


def test_whole_numbers_with_gaps_have_no_label_there(tmp_path: Path) -> None:
    assert labelled(tmp_path, pa.array([1, None]))[0].tolist() == [1, -1]


def test_several_classes_a_node(tmp_path: Path) -> None:
    y, labels = labelled(tmp_path, np.array([[0, 1, 1]]), np.array([[True, False, False]]))
    assert y.dtype == np.uint8
    assert y.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert labels == Labels(kind="multi", classes=3, labelled=2)


def test_real_numbers(tmp_path: Path) -> None:
    y, labels = labelled(tmp_path, np.array([0.5, np.nan]), np.array([3]))
    assert y.dtype == np.float32
    assert y[[0, 2]].tolist() == [0.5, 3.0]
    assert labels == Labels(kind="real", classes=0, labelled=2)


def test_rows_of_real_numbers_may_be_whole_later(tmp_path: Path) -> None:
    y, labels = labelled(tmp_path, np.array([[0.5, 2.0]]), np.array([[0, 1]], np.uint8))
    assert y.tolist() == [[0.5, 2.0], [0.0, 1.0]]
    assert labels == Labels(kind="real", classes=0, labelled=2)


def test_as_many_classes_as_the_user_says(tmp_path: Path) -> None:
    assert labelled(tmp_path, np.array([0, 10**12]), classes=10**12 + 1)[1].classes == 10**12 + 1


@pytest.mark.parametrize(
    ("blocks", "classes", "message"),
    [
        ([np.array([0, 9])], 7, "Expected labels in [0, 7), got 9 at node 1 of labels.npy. Pass --classes 10 or fix the file."),
        (
            [np.array([-2])],
            None,
            "Expected labels of at least 0, or -1 for none, got -2 at node 0 of labels.npy.",
        ),
        ([np.array([[0, 2]])], None, "Expected labels of 0 and 1 for several classes a node, got 2 at node 0 of labels.npy."),
        ([np.array([[0, 1]])], 3, "Expected 3 classes, got label rows of 2 at node 0"),
        ([np.array([0.5])], 3, "Expected labels of 3 classes, got real numbers at node 0 of labels.npy. Leave out --classes."),
        ([np.array([0, 10**12])], None, "got the label 1,000,000,000,000, which would make so many of them"),
        ([np.array([np.inf])], None, "Expected finite labels, or NaN for none, got inf at node 0"),
        ([np.array([1]), np.array([0.5])], None, "Expected labels as class numbers like the first ones, got real numbers"),
        ([np.array([1]), np.array([[0, 1]])], None, "got several classes at node 0"),
        ([pa.array(["a", "b"])], 1, "Expected 1 classes, got 2 different labels. Pass --classes 2 or fix the labels."),
        ([np.array(["2020-01-01"], "M8[D]")], None, "Expected labels, got datetime64"),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, blocks: list[Any], classes: int | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        labelled(tmp_path, *blocks, classes=classes)
    assert message in str(caught.value)
