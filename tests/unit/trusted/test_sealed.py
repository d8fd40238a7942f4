from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from treering.trusted.sealed import Sealed


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
