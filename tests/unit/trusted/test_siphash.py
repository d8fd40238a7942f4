"""SipHash of many texts: the vectors of its authors, and a plain implementation of one text at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from treering.trusted.rows.persons import Persons
from treering.trusted.siphash import siphash

KEY = bytes(range(16))
MASK = 2**64 - 1


def digests(texts: list[bytes], key: bytes = KEY) -> list[bytes]:
    """The digests of some texts."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    found = siphash(b"".join(texts), np.cumsum(lengths) - lengths, lengths, key)
    return [found[:, place].astype("<u8").tobytes() for place in range(len(texts))]


def turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def rounds(v: list[int], number: int) -> None:
    for _ in range(number):
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
        v[0] = turned(v[0], 32)
        v[2] = (v[2] + v[1]) & MASK
        v[0] = (v[0] + v[3]) & MASK
        v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
        v[2] = turned(v[2], 32)


def plain(text: bytes, key: bytes) -> bytes:
    """The oracle."""
    low, high = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    initial = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [start ^ part for start, part in zip(initial, (low, high, low, high), strict=True)]
    v[1] ^= 0xEE
    padded = text + bytes(7 - len(text) % 8) + bytes([len(text) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(v, 4)
    return first.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_the_vectors_of_its_authors() -> None:
    assert [each.hex() for each in digests([b"", b"\x00"])] == [
        "a3817f04ba25a8e66df67214c7550293",
        "da87c1d86b99af44347659119b22fc45",
    ]


@given(st.lists(st.binary(max_size=40), max_size=20), st.binary(min_size=16, max_size=16))
def test_digests_are_those_of_one_text_at_a_time(texts: list[bytes], key: bytes) -> None:
    assert digests(texts, key) == [plain(text, key) for text in texts]


def test_long_texts_and_many_texts() -> None:
    texts = [b"x" * 300, *(str(number).encode() for number in range(20_000))]
    found = digests(texts)
    assert [found[place] for place in (0, 1, 8_192, 20_000)] == [
        plain(texts[place], KEY) for place in (0, 1, 8_192, 20_000)
    ]
    assert len(set(found)) == len(texts)


def test_long_ids_have_digests_of_their_own() -> None:
    """However they come, and also where one of them is what stands for another."""
    persons = Persons("person", 1, b"k" * 32)
    names = ["x" * 256, "x" * 257, "x" * 258, "y" * 100_000, "x", ""]
    found = persons.digests(names)
    assert len(set(found.to_pylist())) == len(names)
    assert found.equals(persons.digests(pa.chunked_array([pa.array(names)])))
    assert set(found.to_pylist()).isdisjoint(Persons("person", 1, b"l" * 32).digests(names).to_pylist())
