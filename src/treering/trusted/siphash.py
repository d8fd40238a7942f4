"""SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012), of many short texts at once.

A pseudo-random function: without the key, digests tell nothing of texts but which are equal, and nobody can make two
texts of one digest.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treering.arrays import Array, Ints, Words

KEY_BYTES: Final = 16
_TOGETHER: Final = 2**13
"""How many texts are hashed together: their state lies in a core's cache."""

_INITIAL: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(data: bytes, starts: Ints, lengths: Ints, key: bytes) -> Words:
    """The digests of texts, as two rows of words. Text i is ``lengths[i]`` bytes of ``data``, from ``starts[i]`` on."""
    found = np.empty((2, len(lengths)), dtype=np.uint64)
    octets = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data + bytes(8), dtype=np.uint8), 8)
    words = lengths // 8
    for number in np.unique(words).tolist():  # Texts of as many words are hashed together.
        same = np.flatnonzero(words == number)
        for start in range(0, len(same), _TOGETHER):
            chosen = same[start : start + _TOGETHER]
            found[:, chosen] = _hashed(octets, starts[chosen], lengths[chosen], number, key)
    return found


def _hashed(octets: Array, starts: Ints, lengths: Ints, words: int, key: bytes) -> Words:
    """The digests of texts that have this many whole words; ``octets`` are the eight bytes from each place on."""
    halves = np.frombuffer(key, "<u8").tolist() * 2
    state = [np.full(len(starts), start ^ half, dtype=np.uint64) for start, half in zip(_INITIAL, halves, strict=True)]
    state[1] ^= np.uint64(0xEE)  # Which stands for 128 bits.
    for place in range(words + 1):
        block = octets[starts + 8 * place].view("<u8")[:, 0].astype(np.uint64, copy=False)
        if place == words:
            rest = (8 * (lengths % 8)).astype(np.uint64)
            block &= (np.uint64(1) << rest) - np.uint64(1)
            block |= (lengths & 0xFF).astype(np.uint64) << np.uint64(56)
        state[3] ^= block
        _rounds(state, 2)
        state[0] ^= block
    state[2] ^= np.uint64(0xEE)
    _rounds(state, 4)
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= np.uint64(0xDD)
    _rounds(state, 4)
    return np.stack((first, state[0] ^ state[1] ^ state[2] ^ state[3]))


def _rounds(state: list[Words], number: int) -> None:
    a, b, c, d = state
    for _ in range(number):
        a += b
        b = _turned(b, 13) ^ a
        a = _turned(a, 32)
        c += d
        d = _turned(d, 16) ^ c
        a += d
        d = _turned(d, 21) ^ a
        c += b
        b = _turned(b, 17) ^ c
        c = _turned(c, 32)
    state[:] = a, b, c, d


def _turned(words: Words, bits: int) -> Words:
    """The words with their bits turned to the left."""
    turned = words << np.uint64(bits)
    turned |= words >> np.uint64(64 - bits)
    return turned
