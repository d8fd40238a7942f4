"""Measurements that are paid for once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.domain.workload import random_conjunctions
from treering.mechanisms import state as records_module
from treering.mechanisms.state import Measurement, Records

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
LATE = tr.parse("late = 'yes'", SCHEMA)
BOTH = tr.parse("late = 'yes' AND month <= 3", SCHEMA)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 1), st.data())
def test_a_record_bounds_the_truth_at_every_later_size(
    size: int, more: int, truth: float, error: float, off: float, data: st.DataObject
) -> None:
    share = truth + (2 * off - 1) * error
    matching = data.draw(st.integers(0, more))
    later = (truth * size + matching) / (size + more)
    guess, bound = Measurement(share, error, size).at(size + more)
    assert abs(guess - later) <= bound + 1e-12


def test_a_query_its_complement_and_nothing_else() -> None:
    records = Records(alpha=0.1)
    assert records.best(LATE, 100) == (0.5, math.inf)
    records.keep(LATE, Measurement(0.3, 0.05, 100))
    assert records.best(LATE, 100) == (0.3, 0.05)
    assert records.best(~LATE, 100) == (0.7, 0.05)
    assert records.best(BOTH, 100)[1] == math.inf
    records.keep(BOTH, Measurement(0.1, 0.05, 100))
    assert records.best(~BOTH, 100) == (0.9, 0.05)
    assert len(records) == 2


def test_the_complement_of_a_conjunction_is_found_when_it_was_measured_as_a_table() -> None:
    records = Records(alpha=0.1)
    records.keep(~BOTH, Measurement(0.9, 0.05, 100))
    share, error = records.best(BOTH, 100)
    assert share == pytest.approx(0.1)
    assert error == 0.05


def test_a_share_of_zero_is_a_record_like_any_other() -> None:
    """Others took 0 for "nothing known"."""
    records = Records(alpha=0.1)
    records.keep(LATE, Measurement(0.0, 0.01, 100))
    assert records.best(LATE, 100) == (0.0, 0.01)


def test_a_later_measurement_replaces_an_earlier_one() -> None:
    records = Records(alpha=0.1)
    records.keep(LATE, Measurement(0.3, 0.05, 100))
    records.keep(LATE, Measurement(0.4, 0.05, 200))
    assert records.best(LATE, 200) == (0.4, 0.05)
    assert len(records) == 1


def test_a_wide_conjunction_has_no_complement_and_no_trouble() -> None:
    wide = tr.Schema({f"x{i}": tr.integers(0, 99) for i in range(5)})
    query = tr.Query.where(wide, **{name: range(50) for name in wide.names})
    records = Records(alpha=0.1)
    records.keep(~tr.Query.where(wide, x0=range(50), x1=1), Measurement(0.2, 0.05, 100))
    assert records.best(query, 100)[1] == math.inf


def test_what_no_longer_holds_goes_first_then_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MOST_RECORDS", 10)
    queries = list(dict.fromkeys(random_conjunctions(SCHEMA, 60, np.random.default_rng(3))))[:20]
    records = Records(alpha=0.1)
    for number, query in enumerate(queries[:10]):
        records.keep(query, Measurement(0.5, 0.05, 100 if number < 6 else 1000))
    records.keep(queries[10], Measurement(0.5, 0.05, 1000))
    assert len(records) == 5  # six had expired at 1,000 rows
    for query in queries[11:17]:
        records.keep(query, Measurement(0.5, 0.05, 1000))
    assert len(records) <= 10
    assert records.best(queries[16], 1000)[1] == 0.05


def test_records_are_taken_up_as_they_were_kept() -> None:
    before, after = Records(alpha=0.1), Records(alpha=0.1)
    queries = list(dict.fromkeys(random_conjunctions(SCHEMA, 30, np.random.default_rng(4))))
    for number, query in enumerate([LATE, ~BOTH, *queries]):
        before.keep(query, Measurement(1 / (number + 3), 0.05, 1000 + number))
    kept = before.standing(1100)
    after.restore(kept)
    assert list(after._records.items()) == list(before._standing(1100).items())
    asked = [*queries, LATE, ~LATE, BOTH, ~BOTH]
    assert [after.best(query, 1100) for query in asked] == [before.best(query, 1100) for query in asked]
    again = after.standing(1100)
    assert again.records.tobytes() == kept.records.tobytes()
    assert again.complements.tobytes() == kept.complements.tobytes() != b""
