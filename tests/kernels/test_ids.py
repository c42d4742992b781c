from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.ids import (
    arrange_texts,
    buckets_of,
    find_hashes,
    hash_integers,
    hash_texts,
    match_integers,
    move_numbers,
    number_hashes,
    number_texts,
)
from starling.stream.ids.texts import Texts

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)
words = st.lists(st.text("ab☃", max_size=10), max_size=40)


def slow_mix(value: int) -> int:
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & WORD
    return value ^ value >> 31


def slow_text_hash(text: str) -> int:
    data = text.encode()
    hashed = len(data) * GOLDEN & WORD
    for start in range(0, len(data), 8):
        hashed = slow_mix(hashed ^ int.from_bytes(data[start : start + 8], "little"))
    return slow_mix(hashed)


def texts_of(strings: list[str]) -> Texts:
    return Texts.from_arrow(pa.array(strings, pa.string()))


def slow_numbers(ids: list[object]) -> list[int]:
    first: dict[object, int] = {}
    return [first.setdefault(user, len(first)) for user in ids]


@given(integers)
def test_integer_hashes(ids: list[int]) -> None:
    hashes = np.empty(len(ids), np.uint64)
    hash_integers(np.array(ids, np.int64), hashes)
    assert hashes.tolist() == [slow_mix((user + GOLDEN) & WORD) for user in ids]


@given(words)
def test_text_hashes(strings: list[str]) -> None:
    texts = texts_of(strings)
    hashes = np.empty(len(texts), np.uint64)
    hash_texts(texts.offsets, texts.data, hashes)
    assert hashes.tolist() == [slow_text_hash(text) for text in strings]


def test_hashes_are_part_of_the_format() -> None:
    hashes = np.empty(1, np.uint64)
    hash_integers(np.array([0]), hashes)
    assert int(hashes[0]) == 0xE220A8397B1DCDAF  # the first output of SplitMix64 seeded with 0
    texts = texts_of(["starling"])
    hash_texts(texts.offsets, texts.data, hashes)
    assert int(hashes[0]) == slow_mix(slow_mix((8 * GOLDEN & WORD) ^ int.from_bytes(b"starling", "little")))


def test_buckets_are_ranges_of_the_hash() -> None:
    hashes = np.array([0, 2**62, 2**63 - 1, 2**63, WORD], np.uint64)
    bucket = np.empty(5, np.uint8)
    buckets_of(hashes, 4, bucket)
    assert bucket.tolist() == [0, 1, 1, 2, 3]


@given(st.lists(st.sampled_from([0, 1, 2**32, 2**33, 5, WORD]), max_size=30), st.integers(0, 30))
def test_numbers_of_hashes_that_collide(hashes: list[int], cut: int) -> None:
    """Hashes with equal low halves meet in one slot; numbering goes on after the table has moved to a larger one."""
    array = np.array(hashes, np.uint64)
    keys, numbers = np.empty(40, np.uint64), np.zeros(40, np.uint32)
    number, first = np.empty(len(hashes), np.uint32), np.empty(len(hashes), np.bool_)
    known = number_hashes(array[:cut], keys, numbers, 0, number[:cut], first[:cut])
    new_keys, new_numbers = np.empty(64, np.uint64), np.zeros(64, np.uint32)
    move_numbers(keys, numbers, new_keys, new_numbers)
    known = number_hashes(array[cut:], new_keys, new_numbers, known, number[cut:], first[cut:])
    assert number.tolist() == slow_numbers(list(hashes))
    assert first.tolist() == [user not in hashes[:i] for i, user in enumerate(hashes)]
    assert known == len(set(hashes))


@given(words, st.booleans())
def test_numbers_of_texts(strings: list[str], same_hash: bool) -> None:
    texts = texts_of(strings)
    hashes = np.zeros(len(texts), np.uint64) if same_hash else texts.hashes()  # equal hashes: the bytes decide
    rows = 2 * len(strings) + 1
    number, first = np.empty(len(texts), np.uint32), np.empty(len(texts), np.bool_)
    known = number_texts(
        texts.offsets, texts.data, hashes, np.empty(rows, np.uint64), np.zeros(rows, np.uint32),
        np.zeros(len(strings) + 1, np.int64), np.empty(len(texts.data), np.uint8), 0, number, first,
    )  # fmt: skip
    assert number.tolist() == slow_numbers(list(strings))
    assert first.tolist() == [text not in strings[:i] for i, text in enumerate(strings)]
    assert known == len(set(strings))


def test_texts_arranged_by_bucket_by_hand() -> None:
    texts = texts_of(["one", "", "two", "four"])
    lengths, arranged = np.empty(4, np.int32), np.empty(10, np.uint8)
    arrange_texts(
        np.array([1, 0, 1, 0], np.uint8), texts.offsets, texts.data, np.array([0, 2]), np.array([0, 4]), lengths, arranged
    )
    assert lengths.tolist() == [0, 4, 3, 3]
    assert bytes(arranged) == b"fouronetwo"


@given(st.sets(st.integers(-50, 50)), st.lists(st.integers(-60, 60), max_size=30))
def test_finding_integers(stored: set[int], asked: list[int]) -> None:
    ids = np.array(sorted(stored), np.int64)
    hashes, wanted = np.empty(len(ids), np.uint64), np.empty(len(asked), np.uint64)
    hash_integers(ids, hashes)
    hash_integers(np.array(asked, np.int64), wanted)
    order = np.argsort(hashes)
    found = np.empty(len(asked), np.int64)
    find_hashes(wanted, hashes[order], 0, len(asked), found)
    assert found.tolist() == np.searchsorted(hashes[order], wanted).tolist()
    match_integers(np.array(asked, np.int64), hashes[order], order, ids, found)
    position = {user: i for i, user in enumerate(ids.tolist())}
    assert found.tolist() == [position.get(user, -1) for user in asked]
