from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.stream.ids.texts import TextBuckets, Texts

words = st.lists(st.text(max_size=8), max_size=30)


@given(words, st.integers(0, 5), st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
def test_arrow_and_back_whatever_the_slice(strings: list[str], start: int, kind: pa.DataType) -> None:
    texts = Texts.from_arrow(pa.array(strings, kind)[start:])
    assert texts.to_arrow().to_pylist() == strings[start:]
    assert texts.lengths.tolist() == [len(text.encode()) for text in strings[start:]]
    assert texts.offsets[0] == 0


def test_dictionary_arrays_are_texts_too() -> None:
    array = pa.array(["b", "a", "b"]).dictionary_encode()
    assert Texts.from_arrow(array).to_arrow().to_pylist() == ["b", "a", "b"]


@given(words, st.data())
def test_select(strings: list[str], data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(strings), max_size=len(strings)))
    chosen = Texts.from_arrow(pa.array(strings, pa.string())).select(np.array(mask, np.bool_))
    assert chosen.to_arrow().to_pylist() == [text for text, wanted in zip(strings, mask, strict=True) if wanted]


@given(words, st.integers(1, 6), st.integers(1, 6))
def test_buckets_keep_the_order_of_arrival(strings: list[str], block: int, chunk: int) -> None:
    bucket = np.array([len(text) % 3 for text in strings], np.uint8)
    with tempfile.TemporaryDirectory() as directory, TextBuckets(Path(directory), 3) as buckets:
        for start in range(0, len(strings), block):
            part = pa.array(strings[start : start + block], pa.string())
            buckets.append(bucket[start : start + block], Texts.from_arrow(part))
        buckets.finish()
        for number in range(3):
            expected = [text for text in strings if len(text) % 3 == number]
            chunks = [texts.to_arrow().to_pylist() for texts in buckets.chunks(number, chunk)]
            assert [text for part in chunks for text in part] == expected
            assert all(len(part) <= chunk for part in chunks)
            assert buckets.sizes[number] == len(expected)


def test_buckets_are_removed_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(KeyError), TextBuckets(tmp_path, 2):
        raise KeyError
    assert not list(tmp_path.iterdir())
