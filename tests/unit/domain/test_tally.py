"""Entries are sorted into disjoint groups by what a public model says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.domain.tally import MOST_CUTS, Tally

FEATURES = np.array([[0.5, 0.0], [-0.5, 0.0], [0.25, 0.5], [0.0, 0.0]])
LABELS = np.array([1.0, 1.0, -1.0, -1.0])


@pytest.mark.parametrize(
    ("of", "cuts", "found"),
    [
        ("margins", (0.0,), [1, 0, 0, 0]),  # a score of 0 is a prediction of −1, and its margin is not above 0
        ("scores", (0.0,), [3, 1, 2, 0]),
        ("scores", (-0.25, 0.0, 0.25), [7, 1, 4, 2]),
        ("misses", (0.5, 1.0), [0, 2, 2, 1]),
        ("distances", (0.5, 1.25), [0, 2, 1, 1]),
    ],
)
def test_each_entry_is_in_one_group(of: Any, cuts: tuple[float, ...], found: list[int]) -> None:
    tally = Tally((1.0, 0.0), of, cuts)
    assert tally.sort(FEATURES, LABELS).tolist() == found
    assert max(found) < tally.groups


def test_groups() -> None:
    assert Tally((1.0,), "scores", (0.0, 1.0)).groups == 6
    assert Tally((1.0,), "misses", (0.0, 1.0)).groups == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"of": "counts"}, "of"),
        ({"cuts": ()}, "cuts"),
        ({"cuts": (1.0, 1.0)}, "cuts"),
        ({"cuts": (2.0, 1.0)}, "cuts"),
        ({"cuts": tuple(float(each) for each in range(MOST_CUTS + 1))}, "cuts"),
        ({"cuts": (float("nan"),)}, "finite"),
        ({"theta": (float("inf"),)}, "finite"),
    ],
)
def test_what_is_no_tally_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(tr.ParameterError, match=words):
        Tally(**{"theta": (1.0,), "of": "scores", "cuts": (0.0,), **wrong})
