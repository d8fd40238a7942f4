"""Numbers, bytes and arrays: each has one text, and what is not exactly that is refused."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treering.trusted.ledger.codec.numbers import (
    Unfit,
    read_array,
    read_bytes,
    read_float,
    read_fraction,
    read_integer,
    write_array,
    write_bytes,
    write_float,
    write_fraction,
    write_integer,
)


def not_a_number(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 2**63, 2**4096 - 1, 2**4096, -(2**4096), np.int8(-7), np.uint64(2**64 - 1)])
def test_integers(value: Any) -> None:
    raw = write_integer(value)
    assert read_integer(raw) == value
    # JSON readers refuse integers of very many digits.
    assert isinstance(raw, str) == (abs(int(value)) >= 2**4096)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None])
def test_what_is_no_integer_is_not_written(value: Any) -> None:
    with pytest.raises(Unfit, match=f"is {type(value).__name__}, not an integer"):
        write_integer(value)


@pytest.mark.parametrize("raw", [True, 1.0, None, [], "", "1x", "7", "0x07", "0X7", "-0x0", " 0x7"])
def test_what_is_no_integer_is_not_read(raw: Any) -> None:
    with pytest.raises(Unfit, match="is not an integer"):
        read_integer(raw)


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0.1, 0.1),
        (-0.0, -0.0),
        (5, 5),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.longdouble(0.25), 0.25),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (np.float32("inf"), "inf"),
        (math.nan, "nan"),
        (not_a_number(0x7FF8000000000001), "nan:7ff8000000000001"),
        (not_a_number(0xFFF8000000000000), "nan:fff8000000000000"),
        (2**5000, hex(2**5000)),
    ],
)
def test_floats(value: Any, raw: Any) -> None:
    written = write_float(value)
    assert (written, type(written)) == (raw, type(raw))
    read = read_float(raw)
    if type(value) is int:
        assert (read, type(read)) == (value, int)
    else:
        assert bits(read) == bits(float(value))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="no wider floats here")
def test_a_wider_float_loses_no_digits_silently() -> None:
    with pytest.raises(Unfit, match="is longdouble, which has more digits than a float"):
        write_float(np.longdouble(1) / 3)


@pytest.mark.parametrize("value", [True, "0.5", None, 1j])
def test_what_is_no_float_is_not_written(value: Any) -> None:
    with pytest.raises(Unfit, match="not an integer"):
        write_float(value)


@pytest.mark.parametrize(
    "raw",
    [
        *(None, True, [], "", "Infinity", "+inf", "NaN"),
        *("nan:", "nan:x", "nan:7ff8000000000000", "nan:3ff0000000000000", "nan:7ff0000000000000"),
        *("nan:7FF8000000000001", "nan:10000000000000000", "nan:-1"),
    ],
)
def test_what_is_no_float_is_not_read(raw: Any) -> None:
    with pytest.raises(Unfit, match="is not a number|is not an integer"):
        read_float(raw)


def test_fractions() -> None:
    for value in (Fraction(0), Fraction(-1, 3), Fraction(2**5000, 3), Fraction(1, 2**5000)):
        assert read_fraction(write_fraction(value)) == value
    assert write_fraction(Fraction(2, 4)) == "1/2"
    wrong: Any
    for wrong in (0.5, 1, "1/2", None):
        with pytest.raises(Unfit, match=f"is {type(wrong).__name__}, not a fraction"):
            write_fraction(wrong)
    for wrong in (0.5, 1, None, "1", "1/", "/2", "2/4", "1/-2", "1/0", "01/2", "1 / 2", "1/2/3"):
        with pytest.raises(Unfit, match="is not a fraction|is not an integer"):
            read_fraction(wrong)


# -- bytes and arrays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\0" * 100_000, bytes(range(256)) * 3, np.random.default_rng(1).bytes(999)]
)
def test_bytes(data: bytes) -> None:
    raw = write_bytes(data)
    assert read_bytes(raw, len(data)) == data
    assert len(raw) <= 2 + 4 * -(-len(data) // 3)  # never longer than as they are
    for length in (len(data) - 1, len(data) + 1):
        with pytest.raises(Unfit, match="has packed bytes of another length"):
            read_bytes(raw, length)


def packed(data: bytes) -> str:
    return "z:" + base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (None, "is not packed bytes"),
        (b"b:", "is not packed bytes"),
        ("c:AAAA", "is not packed bytes"),
        ("b:A", "cannot be unpacked"),
        ("b:AA AA", "cannot be unpacked"),
        ("b:AAB=", "has packed bytes with stray bits"),
        ("z:AAAA", "cannot be unpacked"),
        (packed(zlib.compress(b"ab")[:-1]), "of another length"),
        (packed(zlib.compress(b"ab") + b"!"), "of another length"),
        (packed(zlib.compress(b"ab" * 10**6)), "of another length"),
    ],
)
def test_what_are_no_packed_bytes(raw: Any, match: str) -> None:
    with pytest.raises(Unfit, match=match):
        read_bytes(raw, 2)


@pytest.mark.parametrize(
    "array",
    [
        np.array(7),
        np.array([], dtype=np.float64),
        np.arange(64),
        np.arange(65),
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
        np.array([[0.1, math.nan], [-0.0, math.inf]]),
        np.array([2**63 - 1, -(2**63)]),
        np.arange(100, dtype=">i4"),
        np.linspace(0, 1, 5, dtype=">f8"),
        np.array([True, False]),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_arrays(array: Any) -> None:
    raw = write_array(array)
    read = read_array(raw)
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not read.flags.writeable
    assert ("values" in raw) == (array.dtype.kind in "iu" and array.size <= 64)
    assert write_array(read) == raw


def test_an_array_has_the_same_bytes_on_every_machine() -> None:
    for kind in ("<", ">"):
        raw = write_array(np.arange(100, dtype=f"{kind}i8"))
        assert read_bytes(raw["data"], 800)[:16] == bytes([0] * 8 + [1] + [0] * 7)


@pytest.mark.parametrize("value", [[1, 2], np.array(["a"]), np.array([None]), np.array([1]).view(np.matrix), 1j])
def test_what_is_no_array_of_numbers(value: Any) -> None:
    with pytest.raises(Unfit, match="is not an array of numbers"):
        write_array(value)


GOOD = {"dtype": "<i8", "shape": [2], "values": [1, 2]}


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (None, "is not an array"),
        ({"dtype": "<i8", "shape": [2]}, "is not an array"),
        ({**GOOD, "data": ""}, "is not an array"),
        *(
            ({**GOOD, "dtype": dtype}, "has no dtype of numbers")
            for dtype in (None, 7, "x", "i8", "|O", "<U1", "<i8,", "V3")
        ),
        *(({**GOOD, "shape": shape}, "has no shape") for shape in (None, 2, [2.0], [True], [-2], [1] * 65)),
        ({**GOOD, "shape": [2**40]}, "is an array that is too large"),
        ({**GOOD, "shape": [3]}, "has another number of entries than its shape says"),
        ({**GOOD, "shape": [2, 0]}, "has another number of entries than its shape says"),
        *(({**GOOD, "values": values}, "that are not integers") for values in (None, [1, 2.0], [True, 2], ["1", "2"])),
        ({**GOOD, "dtype": "<f8"}, "that are not integers"),
        ({**GOOD, "values": [2**63, 1]}, "has an entry that is too large"),
        ({**GOOD, "dtype": "|u1", "values": [-1, 1]}, "has an entry that is too large"),
        ({"dtype": "<i8", "shape": [1], "data": write_bytes(bytes(7))}, "of another length"),
        ({"dtype": "<i8", "shape": [1], "other": 7}, "is not packed bytes"),
    ],
)
def test_what_is_no_array(raw: Any, match: str) -> None:
    with pytest.raises(Unfit, match=match):
        read_array(raw)


def test_an_array_may_have_a_terabyte_and_no_more() -> None:
    raw = {"dtype": "|u1", "values": [1]}
    with pytest.raises(Unfit, match="has another number of entries than its shape says"):
        read_array({**raw, "shape": [2**40]})
    with pytest.raises(Unfit, match="is an array that is too large"):
        read_array({**raw, "shape": [2**40 + 1]})
    with pytest.raises(Unfit, match="has another number of entries than its shape says"):
        read_array({**raw, "shape": [2] * 63 + [0]})  # as many dimensions as NumPy has, and one that is empty


def test_bytes_are_packed_at_the_fastest_level() -> None:
    """The second byte of what zlib gives says the level: ledgers of one version have equal lines for equal events."""
    assert base64.b64decode(write_bytes(bytes(1000))[2:])[:2] == b"\x78\x01"


def test_bytes_that_packing_does_not_shorten_stay_as_they_are() -> None:
    for length in range(1, 40):
        data = bytes(length)
        shorter = len(zlib.compress(data, 1)) < length
        assert write_bytes(data)[:2] == ("z:" if shorter else "b:")
        assert read_bytes(write_bytes(data), length) == data
