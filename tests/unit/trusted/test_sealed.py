from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable

import pytest

from treering.trusted.sealed import Sealed, commitment, salt


class Box(Sealed):
    __slots__ = ("content",)

    def __init__(self, content: int) -> None:
        self.content = content


SECRET = 8_675_309


@pytest.mark.parametrize("show", [repr, str, "{}".format, "%s".__mod__])
def test_nothing_shows_the_content(show: Callable[[object], str]) -> None:
    assert show(Box(SECRET)) == "<Box>"


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy, Box.__getstate__])
def test_no_second_copy_is_made(duplicate: Callable[[Box], object]) -> None:
    with pytest.raises(TypeError, match="Box holds private values") as caught:
        duplicate(Box(SECRET))
    assert str(SECRET) not in str(caught.value)


def test_it_stays_sealed_inside_other_things() -> None:
    assert str(SECRET) not in repr({"box": [Box(SECRET)]})
    with pytest.raises(TypeError):
        pickle.dumps({"box": [Box(SECRET)]})
    with pytest.raises(TypeError):
        copy.deepcopy([Box(SECRET)])


def test_there_is_no_dict() -> None:
    assert not hasattr(Box(SECRET), "__dict__")


# -- commitments -------------------------------------------------------------------------------------------------------


def test_salts_are_as_long_as_their_hashes_and_never_the_same() -> None:
    """256 bits: nobody can try them all, so that a commitment to few possible contents hides which it is."""
    salts = [salt() for _ in range(1000)]
    assert {len(each) for each in salts} == {32}
    assert len(set(salts)) == 1000


def test_a_commitment_binds_every_content_and_where_one_ends() -> None:
    key = bytes(range(32))
    contents = [(), (b"",), (b"", b""), (b"ab",), (b"a", b"b"), (b"b", b"a"), (b"ab", b""), (b"\0" * 7 + b"\2ab",)]
    made = [commitment(key, *each) for each in contents]
    assert len(set(made)) == len(contents)
    assert commitment(key, b"a", b"b") == made[4] != commitment(bytes(32), b"a", b"b")
    # What is on record must be found again by every later version.
    parts = b"".join(len(each).to_bytes(8, "big") + each for each in (b"a", b"b"))
    assert made[4] == hashlib.sha256(key + parts).hexdigest()
