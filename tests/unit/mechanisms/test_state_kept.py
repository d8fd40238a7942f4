"""What PMWG's public state keeps: records up to a number, and summaries whose arrays are stored apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.mechanisms import state as module
from treering.mechanisms.histogram.hypothesis import KeptHistogram
from treering.mechanisms.state import KeptRecords, Measurement, Records, RunState, Summary, TightState
from treering.theory.sparse import RunScales

SCHEMA = tr.Schema({"a": tr.integers(0, 29), "b": tr.integers(0, 3)})
ONES = [tr.Query.where(SCHEMA, a=value) for value in range(30)]
PAIRS = [tr.Query.where(SCHEMA, a=value, b=[0, 1]) for value in range(30)]


@pytest.mark.parametrize(
    ("later", "share", "error"), [(100, 0.25, 0.125), (200, 0.375, 0.3125), (400, 0.4375, 0.40625)]
)
def test_half_of_the_new_rows_are_taken_to_match(later: int, share: float, error: float) -> None:
    assert Measurement(0.25, 0.125, 100).at(later) == (share, error)


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_record_holds_up_to_alpha_itself() -> None:
    records = Records(alpha=0.3125)
    records.keep(ONES[0], Measurement(0.25, 0.125, 100))
    assert len(records._standing(200)) == 1
    assert len(records._standing(201)) == 0
    assert len(Records(alpha=0.3125)) == 0


@pytest.mark.parametrize("most", [6, 7])
def test_of_too_many_records_the_latest_half_is_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their complements, which are looked up by these records alone."""
    monkeypatch.setattr(module, "MOST_RECORDS", most)
    records = Records(alpha=0.2)
    for number in range(most):
        records.keep(ONES[number], Measurement(0.5, 0.125, 100))
        assert (len(records), len(records._complements)) == (number + 1, number + 1)
    records.keep(ONES[most], Measurement(0.5, 0.125, 100))
    kept = [*ONES[most - 3 : most], ONES[most]]
    assert list(records._records) == [query.digest for query in kept]
    assert records._complements == {(~query).digest: query.digest for query in kept}
    for query in kept:
        assert records.best(~query, 100) == (0.5, 0.125)


def test_room_is_made_at_the_size_of_the_new_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 4)
    records = Records(alpha=0.2)
    for number in range(4):
        records.keep(ONES[number], Measurement(0.5, 0.125, 100))
    records.keep(ONES[4], Measurement(0.5, 0.125, 100_000))
    assert list(records._records) == [ONES[4].digest]
    assert list(records._complements) == [(~ONES[4]).digest]


def test_complements_are_noted_where_they_are_conjunctions() -> None:
    """Of a set of one attribute, and of a table whose complement is a conjunction; those of others are computed."""
    records = Records(alpha=0.2)
    table = PAIRS[0] | PAIRS[1] | tr.Query.where(SCHEMA, a=5, b=3)
    for query in (ONES[0], PAIRS[0], ~PAIRS[1], table):
        records.keep(query, Measurement(0.25, 0.125, 100))
    assert records._complements == {(~ONES[0]).digest: ONES[0].digest, PAIRS[1].digest: (~PAIRS[1]).digest}
    for query in (ONES[0], PAIRS[0], ~PAIRS[1], table):
        assert records.best(query, 200) == (0.375, 0.3125)
        assert records.best(~query, 200) == (0.625, 0.3125)


def test_a_records_complement_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    records, computed = Records(alpha=0.2), list[tr.Query]()
    inverted = tr.Query.__invert__

    def invert(query: tr.Query) -> tr.Query:
        computed.append(query)
        return inverted(query)

    monkeypatch.setattr(tr.Query, "__invert__", invert)
    for share in (0.25, 0.5):
        records.keep(ONES[0], Measurement(share, 0.125, 100))
        records.keep(PAIRS[0], Measurement(share, 0.125, 100))
    assert computed == [ONES[0]]
    assert records.best(ONES[0], 100) == (0.5, 0.125)
    assert records.best(PAIRS[1], 100)[0] == 0.5
    assert computed == [ONES[0]], "a conjunction's complement is looked up"


def test_what_still_holds_is_kept_as_bytes() -> None:
    records = Records(alpha=0.2)
    records.keep(ONES[0], Measurement(0.25, 0.125, 100))
    records.keep(ONES[1], Measurement(0.5, 0.0625, 1000))
    records.keep(PAIRS[1], Measurement(0.75, 0.1875, 1000))
    kept = records.standing(1000)
    assert kept.records.dtype == kept.complements.dtype == np.uint8
    rows = kept.records.view(module._RECORD)
    assert rows["digest"].tolist() == [ONES[1].digest, PAIRS[1].digest]
    assert [rows[name].tolist() for name in ("share", "error", "size")] == [[0.5, 0.75], [0.0625, 0.1875], [1000, 1000]]
    assert kept.complements.tobytes() == (~ONES[1]).digest + ONES[1].digest
    again = Records(alpha=0.2)
    again.keep(ONES[2], Measurement(0.125, 0.125, 1000))
    again.restore(kept)
    assert len(again) == 3
    assert again.best(~ONES[1], 1000) == (0.5, 0.0625)
    assert again.best(~ONES[2], 1000) == (0.875, 0.125)
    assert Records(alpha=0.2).standing(1).records.tobytes() == b""


# -- summaries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [None, np.linspace(0.5, 1, 7)])
def test_a_summary_comes_back_from_its_arrays(vector: Any) -> None:
    histogram = KeptHistogram(vector, 1.5, 0.75, 0.25, 4)
    records, pairs = np.arange(56, dtype=np.uint8), np.arange(64, dtype=np.uint8)
    state = TightState(2.5, 100, run=RunState(1, 2, RunScales(1.0, 2.0, None)))
    summary = Summary(90, state, histogram, KeptRecords(records, pairs))
    bare, arrays = summary.unloaded()
    assert arrays == (b"" if vector is None else vector.tobytes(), records.tobytes(), pairs.tobytes())
    assert bare.histogram.vector is None
    assert (bare.records.records.tobytes(), bare.records.complements.tobytes()) == (b"", b"")
    for each in (bare, bare.loaded(arrays)):
        assert (each.start, each.state) == (90, state)
        kept = each.histogram
        assert (kept.total, kept.kept, kept.even, kept.steps) == (1.5, 0.75, 0.25, 4)
    again = bare.loaded(arrays)
    assert (again.records.records.tolist(), again.records.complements.tolist()) == (records.tolist(), pairs.tolist())
    if vector is None:
        assert again.histogram.vector is None
    else:
        assert again.histogram.vector is not None
        assert again.histogram.vector.tolist() == vector.tolist()
