"""The public histogram's small parts, each against its definition: what is stored, cached, refused and drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from treering.domain.attribute import categories, integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, QueryError
from treering.mechanisms.histogram import hypothesis as module
from treering.mechanisms.histogram.hypothesis import Hypothesis, KeptHistogram, cells_at
from treering.mechanisms.histogram.step import projection, tilting

SCHEMA = Schema({"a": integers(0, 3), "one": categories("only"), "b": integers(0, 2)})
QUERY = Query.where(SCHEMA, a=[0, 1])
EITHER = Query.where(SCHEMA, a=0) | Query.where(SCHEMA, b=0)
WEIGHTED = Query.weighted(SCHEMA, [0.25, 0.5, 0.75, 0.5], attributes=["a"])


def stored(hypothesis: Hypothesis) -> tuple[list[float] | None, float, float, float, int]:
    kept = hypothesis.keep()
    vector = None if kept.vector is None else kept.vector.tolist()
    return vector, kept.total, kept.kept, kept.even, kept.steps


# -- what is stored ----------------------------------------------------------------------------------------------------


def test_a_new_histogram_is_even_and_holds_nothing() -> None:
    hypothesis = Hypothesis(SCHEMA)
    assert stored(hypothesis) == (None, 1.0, 0.0, 1.0, 0)
    assert (hypothesis.steps, repr(hypothesis)) == (0, "Hypothesis(12 cells, 0 steps)")
    assert hypothesis._shape == (4, 3), "an attribute of one value is no axis"
    assert hypothesis.marginal(["a", "one", "b"]).tolist() == np.full((4, 1, 3), 1 / 12).tolist()
    hypothesis.project(QUERY, 0.6)
    assert (hypothesis.steps, repr(hypothesis)) == (1, "Hypothesis(12 cells, 1 step)")


def test_a_warm_start_is_stored_relative_to_its_largest_cell() -> None:
    shares = np.arange(12) * 3.0
    hypothesis = Hypothesis.warm(SCHEMA, shares, 0.25)
    vector, total, kept, even, steps = stored(hypothesis)
    assert vector == (shares / 33).tolist()
    assert total == pytest.approx(6.0)
    assert (kept, even, steps) == (0.75, 0.25, 0)
    assert Hypothesis.warm(SCHEMA, shares.reshape(4, 3), 0.25).fingerprint() == hypothesis.fingerprint()


@pytest.mark.parametrize("weight", [1e-100, 1.0])
def test_the_weight_of_a_warm_start_may_be_at_either_end(weight: float) -> None:
    assert stored(Hypothesis.warm(SCHEMA, np.ones(12), weight))[2:4] == (1 - weight, weight)


@pytest.mark.parametrize("weight", [9.9e-101, math.nextafter(1, 2), 0.0, -0.5, math.nan])
def test_the_weight_of_a_warm_start_is_not_beyond(weight: float) -> None:
    with pytest.raises(ParameterError, match="uniform_weight must lie between 1e-100 and 1"):
        Hypothesis.warm(SCHEMA, np.ones(12), weight)


@pytest.mark.parametrize("bad", [-1e-300, math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_one_bad_number_spoils_a_warm_start(bad: float, place: int) -> None:
    shares = np.ones(12)
    shares[place] = bad
    with pytest.raises(ParameterError, match="distribution must be 12 finite non-negative numbers"):
        Hypothesis.warm(SCHEMA, shares, 0.5)
    shares = np.zeros(12)
    shares[place] = 1e-300
    assert Hypothesis.warm(SCHEMA, shares, 0.5).marginal(SCHEMA.names).reshape(-1)[place] == pytest.approx(
        0.5 + 0.5 / 12
    )
    for length in (11, 13):
        with pytest.raises(ParameterError, match="distribution must be 12"):
            Hypothesis.warm(SCHEMA, np.ones(length), 0.5)


def test_there_is_room_for_so_many_cells_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 12)
    Hypothesis(SCHEMA)
    monkeypatch.setattr(module, "MAX_CELLS", 11)
    with pytest.raises(GuaranteeError, match=r"room for 11 \(2\^26\) of them; this schema has 12 cells"):
        Hypothesis(SCHEMA)


def test_what_is_kept_is_a_copy() -> None:
    hypothesis = Hypothesis(SCHEMA)
    for steps in (0, 1):
        kept, before = hypothesis.keep(), hypothesis.fingerprint()
        hypothesis.project(QUERY, 0.4)
        hypothesis.grow(0.5)
        hypothesis.project(QUERY, 0.3)
        assert hypothesis.fingerprint() != before
        hypothesis.restore(kept)
        assert (hypothesis.fingerprint(), hypothesis.steps) == (before, steps)
        hypothesis.project(QUERY, 0.6)
        hypothesis.restore(kept)
        assert hypothesis.fingerprint() == before, "what was restored is not what moves"
        hypothesis = Hypothesis(SCHEMA)
        hypothesis.project(QUERY, 0.7)


def test_every_number_shows_in_the_fingerprint() -> None:
    vector = np.linspace(0.1, 1, 12)
    changes = [
        KeptHistogram(vector, 2.0, 0.75, 0.25, 3),
        KeptHistogram(vector[::-1].copy(), 2.0, 0.75, 0.25, 3),
        KeptHistogram(None, 2.0, 0.75, 0.25, 3),
        KeptHistogram(vector, 2.5, 0.75, 0.25, 3),
        KeptHistogram(vector, 2.0, 0.5, 0.25, 3),
        KeptHistogram(vector, 2.0, 0.75, 0.5, 3),
        KeptHistogram(vector, 2.0, 0.75, 0.25, 4),
    ]
    found = set()
    for kept in changes:
        hypothesis = Hypothesis(SCHEMA)
        hypothesis.restore(kept)
        found.add(hypothesis.fingerprint())
    assert len(found) == len(changes)


@pytest.mark.parametrize("shape", [(11,), (13,), (4, 3)])
def test_what_was_kept_elsewhere_is_refused(shape: tuple[int, ...]) -> None:
    hypothesis = Hypothesis(SCHEMA)
    before = hypothesis.fingerprint()
    with pytest.raises(ParameterError, match="kept must have a number for each of the 12 cells"):
        hypothesis.restore(KeptHistogram(np.ones(shape), 1.0, 1.0, 0.0, 1))
    assert hypothesis.fingerprint() == before


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "move",
    [
        lambda h: h.grow(0.5),
        lambda h: h.project(QUERY, 0.3),
        lambda h: h.restore(Hypothesis(SCHEMA).keep()),
    ],
)
@pytest.mark.parametrize("query", [QUERY, EITHER])
def test_a_query_is_answered_anew_after_every_move(query: Query, move: Callable[[Hypothesis], object]) -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.125)
    before = hypothesis.answer(query)
    assert hypothesis.answer(query) == before
    move(hypothesis)
    matching = [a <= 1 if query is QUERY else 0 in (a, b) for a in range(4) for b in range(3)]
    expected = float(hypothesis.marginal(SCHEMA.names).reshape(-1) @ np.array(matching))
    assert hypothesis.answer(query) == pytest.approx(expected, rel=1e-12)
    assert hypothesis.answer(query) != pytest.approx(before, rel=1e-3)


def test_a_hard_query_is_summed_once_for_its_answer_and_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.125)
    summed: list[Query] = []
    compute = Hypothesis._summed

    def counted(self: Hypothesis, query: Query) -> tuple[float, float]:
        summed.append(query)
        return compute(self, query)

    monkeypatch.setattr(Hypothesis, "_summed", counted)
    hypothesis.answer(QUERY)
    hypothesis.plan(QUERY, 0.5)
    assert summed == [QUERY]
    hypothesis.answer(~QUERY)
    assert len(summed) == 2


def test_no_answer_is_above_one() -> None:
    """Though the cells may sum to a little more, by rounding."""
    hypothesis = Hypothesis.warm(SCHEMA, [1.0] * 3 + [1e-12] * 9, 1e-12)
    hypothesis._total *= 0.999
    first = Query.where(SCHEMA, a=0)
    table = first | Query.where(SCHEMA, a=1, b=1)
    assert (first.masks is None, table.masks is None) == (False, True)
    assert hypothesis.marginal(["a"])[0] > 1
    assert [hypothesis.answer(query) for query in (first, table)] == [1.0, 1.0]
    assert hypothesis.answer_many([first, table, first]).tolist() == [1.0] * 3


def test_a_batch_is_one_product_unless_it_is_one_query_or_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.125)
    both = Query.where(SCHEMA, a=[0, 1], b=2)
    expected = [hypothesis.answer(query) for query in (QUERY, both)]
    single: list[object] = []
    alone = Hypothesis.answer

    def answer(self: Hypothesis, query: Query) -> float:
        single.append(query)
        return alone(self, query)

    monkeypatch.setattr(Hypothesis, "answer", answer)
    for limit, batch, number in ((12, [QUERY, both], 0), (11, [QUERY, both], 2), (12, [both], 1)):
        monkeypatch.setattr(module, "MARGINAL_CELLS", limit)
        del single[:]
        assert hypothesis.answer_many(batch) == pytest.approx(expected[-len(batch) :], rel=1e-12)
        assert len(single) == number


def test_a_marginals_attributes_are_a_list() -> None:
    hypothesis = Hypothesis(SCHEMA)
    assert hypothesis.marginal(["a"]).tolist() == hypothesis.marginal(("a",)).tolist() == [0.25] * 4
    assert hypothesis.marginal([]).tolist() == 1.0
    with pytest.raises(QueryError, match="attributes must be a list of names, each once, in the schema's order"):
        hypothesis.marginal("a")


# -- moves -------------------------------------------------------------------------------------------------------------


def test_growth_mixes_in_the_even_distribution() -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.25)
    for share, kept in ((0.0, 0.75), (0.25, 0.5625), (0.5, 0.28125), (2.0**-60, 0.28125)):
        hypothesis.grow(share)
        assert stored(hypothesis)[2:4] == (kept, 1 - kept)
    tiny = Hypothesis.warm(SCHEMA, np.arange(12), 1e-30)
    tiny.grow(1e-30)
    assert stored(tiny)[2] == 1.0
    assert stored(tiny)[3] == pytest.approx(2e-30, rel=1e-12)


def test_plans_are_the_projection_and_the_tilt_of_the_spectrum() -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.125)
    cells = hypothesis.marginal(SCHEMA.names).reshape(4, 3)
    for query, values, masses in (
        (QUERY, [0.0, 1.0], [cells[2:].sum(), cells[:2].sum()]),
        (EITHER, [0.0, 1.0], [cells[1:, 1:].sum(), cells[0].sum() + cells[1:, 0].sum()]),
        (WEIGHTED, [0.25, 0.5, 0.75], [cells[0].sum(), cells[[1, 3]].sum(), cells[2].sum()]),
    ):
        spectrum = np.array(values), np.array(masses)
        found = hypothesis._spectrum(query)
        assert found[0].tolist() == values
        assert found[1] == pytest.approx(spectrum[1], rel=1e-13)
        assert hypothesis.plan(query, 0.4).factors == pytest.approx(projection(query, spectrum, 0.4).factors)
        for complement, rate in ((False, 0.5), (True, -0.5)):
            step = hypothesis.exponential_step(query, 0.5, complement=complement)
            expected = tilting(query, spectrum, rate)
            assert step.rate == rate
            assert step.factors == pytest.approx(expected.factors)
            assert step.log_normaliser == pytest.approx(expected.log_normaliser)
    assert hypothesis.exponential_step(QUERY, 5e-324, complement=False).rate == 5e-324


def test_a_step_after_a_step_touches_the_block_alone() -> None:
    hypothesis = Hypothesis.warm(SCHEMA, np.arange(12), 0.125)
    hypothesis.project(QUERY, 0.6)
    before = hypothesis.keep().vector
    step = hypothesis.project(QUERY, 0.4)
    after = hypothesis.keep().vector
    assert before is not None
    assert after is not None
    assert after[6:].tolist() == before[6:].tolist()
    ratio = step.factors[1] / step.factors[0]
    assert after[:6] == pytest.approx(before[:6] * ratio, rel=1e-15)
    hypothesis.project(EITHER, 0.4)
    assert stored(hypothesis)[1:4] == (1.0, 1.0, 0.0), "a table's factors reach every cell"


# -- synthetic rows ----------------------------------------------------------------------------------------------------


def quantiles(places: npt.NDArray[np.float64], shares: list[Fraction]) -> list[int]:
    """For each place, the first cell at whose end the cumulative distribution is beyond it."""
    ends = [sum(shares[: index + 1], Fraction(0)) for index in range(len(shares))]
    return [
        next((index for index, end in enumerate(ends) if end > place), len(shares) - 1) for place in places.tolist()
    ]


@pytest.mark.parametrize("slice_", [1, 2, 3, 7, 8, 2**20])
@pytest.mark.parametrize("level", [0.0, 1 / 64])
def test_cells_are_the_quantiles(slice_: int, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eighths and sixty-fourths, which floats hold exactly; also where one cell ends and another begins."""
    monkeypatch.setattr(module, "_SLICE", slice_)
    vector = np.array([1.0, 0.0, 2.0, 0.5, 0.0, 0.0, 4.0, 0.5])
    slope = (1 - 8 * level) / 8
    shares = [Fraction(slope) * Fraction(each) + Fraction(level) for each in vector.tolist()]
    assert sum(shares) == 1
    places = np.arange(129) / 128
    assert cells_at(places, 8, vector, slope, level).tolist() == quantiles(places, shares)


def test_cells_of_an_even_histogram() -> None:
    places = np.array([0.0, 0.1, 0.125, 0.999, 1.0])
    assert cells_at(places, 8, None, 0.0, 0.125).tolist() == [0, 0, 1, 7, 7]


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 16])
def test_a_systematic_sample_takes_the_middles(rows: int) -> None:
    schema = Schema({"a": integers(0, 7)})
    vector = np.array([1.0, 0.0, 2.0, 0.5, 0.0, 0.0, 4.0, 0.5])
    hypothesis = Hypothesis.warm(schema, vector, 0.25)
    shares = [Fraction(3, 4) * Fraction(each) / 8 + Fraction(1, 32) for each in vector.tolist()]
    middles = (np.arange(rows) + 0.5) / max(1, rows)
    assert hypothesis.sample(rows)["a"].to_pylist() == quantiles(middles, shares)
    even = Hypothesis(schema).sample(rows)["a"].to_pylist()
    assert even == [int(8 * middle) for middle in middles.tolist()]


def test_draws_are_a_shuffle_of_the_quantiles_of_random_places() -> None:
    schema = Schema({"a": integers(0, 7)})
    hypothesis = Hypothesis.warm(schema, np.arange(8), 0.25)
    drawn = hypothesis.sample(50, np.random.default_rng(3))["a"].to_pylist()
    places = np.sort(np.random.default_rng(3).random(50))
    shares = [Fraction(3, 4) * each / 28 + Fraction(1, 32) for each in range(8)]
    assert sorted(drawn) == quantiles(places, shares)
    assert drawn != sorted(drawn)
