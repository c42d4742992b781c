"""Whatever happens to a file, nothing but `InputError` comes out, and it is one line."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from tests.stream.readers.collected import edges_of, open_graph, rows_of

PAIRS = np.arange(600).reshape(2, 300) % 97


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, PAIRS)
    return file.getvalue()


def npz(compressed: bool) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(
        file,
        edge_index=PAIRS,
        num_nodes=np.int64(97),
        meta='{"name": "n"}',
        y=np.arange(97) % 3,
        x_data=np.ones(97, np.float32),
        x_indices=np.arange(97) % 5,
        x_indptr=np.arange(98),
        x_shape=np.array([97, 5]),
    )
    return file.getvalue()


def parquet(compression: str) -> bytes:
    file = io.BytesIO()
    table = pa.table({"src": PAIRS[0], "dst": PAIRS[1], "type": [f"t{i % 7}" for i in range(300)]})
    pq.write_table(table, file, row_group_size=100, compression=compression)
    return file.getvalue()


def text() -> bytes:
    return b"src,dst,w\n" + b"".join(b"%d,%d,0.5\n" % pair for pair in zip(*PAIRS.tolist(), strict=True))


FILES = {
    "e.npy": npy(),
    "stored.npz": npz(False),
    "deflated.npz": npz(True),
    "snappy.parquet": parquet("snappy"),
    "plain.parquet": parquet("none"),
    "e.csv": text(),
    "e.csv.gz": gzip.compress(text(), mtime=0),
}


@pytest.mark.parametrize("name", FILES)
def test_the_whole_file_is_fine(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    edges = edges_of(open_graph(tmp_path / name).edges)
    assert (edges.source, edges.destination) == (PAIRS[0].tolist(), PAIRS[1].tolist())


def refusal_of(path: Path) -> str | None:
    """Read everything; the sentence of an `InputError`, and any other exception is the test's failure."""
    try:
        graph = open_graph(path)
        edges_of(graph.edges)
        for table in graph.tables:
            rows_of(table)
    except InputError as error:
        return str(error)
    return None


damages = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60, deadline=None)
@given(damage=damages, kept=st.one_of(st.just(1.0), st.floats(0, 1)))
def test_only_one_sentence_comes_out(
    tmp_path_factory: pytest.TempPathFactory, name: str, damage: list[tuple[float, int]], kept: float
) -> None:
    content = bytearray(FILES[name])
    for place, value in damage:
        content[int(place * len(content))] = value
    path = tmp_path_factory.mktemp("d") / name
    path.write_bytes(bytes(content[: int(kept * len(content))]))
    refusal = refusal_of(path)
    assert refusal is None or ("\n" not in refusal and name in refusal)
