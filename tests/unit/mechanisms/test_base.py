"""What every mechanism has, and says when it has not."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from support.plans import batch_price
from treering.mechanisms.base import Answering
from treering.mechanisms.continual import ContinualHistogram

SCHEMA = tr.Schema({"a": tr.integers(0, 3)})


def mechanisms(rows: int = 0) -> list[Answering]:
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells(np.ones(rows, dtype=np.int64))
    return [tr.PMWG(db, 1.0, alpha=0.2, beta=0.05), ContinualHistogram(db, 1.0)]


def test_what_answers_queries_learns_no_model() -> None:
    for mechanism in mechanisms():
        assert mechanism.answers
        for update in (False, True):
            with pytest.raises(tr.QueryError, match="answers queries, and learns no model"):
                mechanism.learnt(update=update)


def test_no_rows_are_drawn_from_what_was_not_released() -> None:
    _, histogram = mechanisms()
    with pytest.raises(tr.QueryError, match="rows"):
        histogram.sample(3)


def test_without_rows_there_is_no_guarantee_yet() -> None:
    for mechanism in mechanisms():
        described = mechanism.describe()
        assert described["guarantee"]["statement"].startswith("none yet: ")
        assert described["guarantee"]["alpha"] is None
        assert (described["spent"], described["remaining"]) == (0.0, 1.0)
    for mechanism in mechanisms(1_000_000):
        guarantee = mechanism.describe()["guarantee"]
        assert (guarantee["epsilon"], guarantee["delta"], guarantee["size"]) == (1.0, 0.0, 1_000_000)


def test_a_price_of_a_batch_is_that_of_its_first_query_where_this_pays_for_all() -> None:
    _, histogram = mechanisms(10_000)
    assert batch_price(histogram, []) == 0
    assert batch_price(histogram, ["a = 1", "a = 2"]) == histogram.price("a = 3") == 1
    histogram.ask("a = 1")
    assert batch_price(histogram, ["a = 1", "a = 2"]) == histogram.price("a = 3") == 0
