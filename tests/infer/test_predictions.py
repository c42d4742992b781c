"""Predictions under the user's ids, in every form of file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from starling.core.errors import InputError
from starling.engine.row_table import RowTable
from starling.infer.predictions import Meaning, Predictions, write_predictions

ROWS = np.array([[0.1, 0.9], [2.0, -1.0], [-3.0, 0.0]], np.float32)
IDS = {"numbers": np.array([7, 3, 5]), "names": pa.array(["ann", "bob", "é"])}


def predictions(meaning: Meaning, ids: str = "numbers", names: tuple[str, ...] = (), width: int = 2) -> Predictions:
    table = RowTable(3, width, memory=1 << 20)
    table.write(0, ROWS[:, :width])
    index = SimpleNamespace(user_ids=lambda start, stop: IDS[ids][start:stop])
    return Predictions(table, cast(Any, index), meaning, names)


def test_csv(tmp_path: Path) -> None:
    write_predictions(predictions("class", "names", ("no", "yes")), tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().splitlines() == ['"id","prediction"', '"ann","yes"', '"bob","no"', '"é","yes"']
    write_predictions(predictions("labels"), tmp_path / "q.csv")
    read = pyarrow.csv.read_csv(tmp_path / "q.csv").to_pydict()
    assert read == {"id": [7, 3, 5], "prediction_0": [1, 1, 0], "prediction_1": [1, 0, 0]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "q.csv"]


def test_parquet(tmp_path: Path) -> None:
    write_predictions(predictions("labels", "names"), tmp_path / "p.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    assert read == {"id": ["ann", "bob", "é"], "prediction": [[1, 1], [1, 0], [0, 0]]}
    write_predictions(predictions("numbers", width=1), tmp_path / "q.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "q.parquet").to_pydict()
    assert read["prediction"] == pytest.approx([0.1, 2.0, -3.0])


def test_npy(tmp_path: Path) -> None:
    write_predictions(predictions("class"), tmp_path / "p.npy")
    read = np.load(tmp_path / "p.npy")
    assert read["id"].tolist() == [7, 3, 5]
    assert read["prediction"].tolist() == [1, 0, 1]
    write_predictions(predictions("class", "names", ("no", "yes")), tmp_path / "q.npy")
    read = np.load(tmp_path / "q.npy")
    assert read.tolist() == [("ann", "yes"), ("bob", "no"), ("é", "yes")]
    write_predictions(predictions("numbers"), tmp_path / "r.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy")["prediction"], ROWS)


def test_refused(tmp_path: Path) -> None:
    for name, sentence in (("p.txt", "ends in .csv, .parquet, .npy"), ("none/p.csv", "Create it first")):
        with pytest.raises(InputError, match=sentence):
            write_predictions(predictions("class"), tmp_path / name)
    (tmp_path / "p.csv").write_text("mine")
    with pytest.raises(InputError, match="--force"):
        write_predictions(predictions("class"), tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "mine"
    write_predictions(predictions("class"), tmp_path / "p.csv", force=True)
    assert (tmp_path / "p.csv").read_text() != "mine"
