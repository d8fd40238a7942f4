"""BBImprover: an error that falls as the database grows, in both profiles."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.scheduler_boxes import CellsBox, OneQueryBox, Spoilt, ZcdpBox
from treering.boxes.base import Rate
from treering.gate import Reserved
from treering.schedulers.improver import PAPER_C, BBImprover
from treering.theory import schedule

SCHEMA = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 2)})
QUERIES = [tr.parse(text, SCHEMA) for text in ("a = 1", "a = 0 AND b <= 1", "b = 2")]
NARROW = tr.Query.weighted(SCHEMA, [0.5, 0.5 + 2**-12], attributes=["a"], resolution=2**12)
"""A replaced row moves its answer by 2^-12 rows: even the paper's improver has something to promise."""
LESS_NARROW = tr.Query.weighted(SCHEMA, [0.5, 0.5 + 2**-6], attributes=["a"], resolution=2**6)
NEVER = 1e-9
START = 10_000


def cells(size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, SCHEMA.cells, size)


def database(size: int, seed: int = 0) -> TestDatabase:
    return TestDatabase(SCHEMA, cells(size, seed))


def share(db: TestDatabase, query: tr.Query) -> float:
    return db.rows.cells.count(query) / query.scale / db.size


# -- tight -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_epochs_are_those_of_the_schedule_and_errors_hold_and_fall(delta: float) -> None:
    db, box = database(START), CellsBox()
    improver = BBImprover(db, box, 1.0, delta, NEVER)
    budget = tr.Promise(1.0, delta).budget
    planned = schedule.improving_for(box.alpha, START, budget, NEVER, centred=True)
    assert improver.guarantee.alpha == improver.alpha_at(START) < 1
    bounds = []
    while db.size < 20 * START:
        for query, answer in zip(QUERIES, improver.ask_many(QUERIES), strict=True):
            assert abs(answer.value - share(db, query)) <= answer.error <= improver.alpha_at(db.size) + 1e-12
        bounds.append(improver.alpha_at(db.size))
        assert improver.guarantee.alpha == improver.alpha_at(db.size)
        assert improver.next_epoch == planned.next_size(db.size)
        db.append_cells(cells(improver.next_epoch - db.size, db.size))
    for epoch in improver.epochs:
        expected = planned.epoch(epoch.index)
        assert (epoch.size, epoch.epsilon, epoch.rho) == (expected.size, expected.epsilon, expected.rho)
        assert (epoch.beta, epoch.alpha, epoch.error) == (expected.beta, expected.alpha, None)
    parts = [event.part for event in db.journal.events() if isinstance(event, Reserved)]
    assert improver._gate.spent == sum(part.total for part in parts) < budget.total
    assert len(parts) > 5
    # Twentyfold growth: by the proven rate 20^-(2/3) or 20^-(1/2), up to logarithms.
    assert bounds[-1] < 0.4 * bounds[0]


def test_the_error_of_later_sizes_is_known_in_advance() -> None:
    db = database(START)
    improver = BBImprover(db, CellsBox(), 1.0, 1e-6, NEVER)
    sizes = [START, 2 * START - 1, 5 * START, 50 * START, 5000 * START]
    before = [improver.alpha_at(size) for size in sizes]
    improver.ask(QUERIES[0])
    assert [improver.alpha_at(size) for size in sizes] == pytest.approx(before)
    assert before[0] > before[2] > before[3] > before[4]
    assert before[4] < before[0] / 50


def test_a_batch_that_jumps_costs_one_run() -> None:
    db = database(START)
    improver = BBImprover(db, CellsBox(), 1.0, 1e-6, NEVER)
    improver.ask(QUERIES[0])
    planned = improver.alpha_at(10 * START)
    db.append_cells(cells(9 * START))
    assert [epoch.size for epoch in improver.epochs] == [START, 10 * START]
    assert improver.epochs[1].alpha <= planned


# -- paper -------------------------------------------------------------------------------------------------------------


def paper(db: TestDatabase, box: Any = None, **options: Any) -> BBImprover:
    given = {"epsilon": 1.0, "delta": 1e-3, "beta": NEVER, "profile": "paper", **options}
    return BBImprover(db, OneQueryBox(NARROW) if box is None else box, **given)


def test_the_paper_reruns_at_every_size_it_is_shown() -> None:
    db = database(1000)
    improver = paper(db)
    improver.ask(NARROW)
    for _ in range(20):
        db.append_cells([1])
    db.append_cells(cells(500))  # one run, at the end of the batch
    assert [epoch.size for epoch in improver.epochs] == [*range(1000, 1021), 1520]
    assert [epoch.index for epoch in improver.epochs] == [*range(21), 520]
    assert improver.next_epoch == 1521
    answer = improver.ask(NARROW)
    assert abs(answer.value - share(db, NARROW)) <= answer.error <= improver.alpha_at(1520) == improver.guarantee.alpha


@pytest.mark.parametrize("c", [None, 0.2])
def test_the_papers_numbers(c: float | None) -> None:
    """ε_t and β_t as in the proof; α_t by the box's rate."""
    db = database(1000)
    improver = paper(db, c=c)
    improver.ask(NARROW)
    db.append_cells(cells(234))
    free, rate = PAPER_C if c is None else c, OneQueryBox(NARROW).rate
    assert rate is not None
    for epoch, size in zip(improver.epochs, (1000, 1234), strict=True):
        epsilon = math.sqrt(free) / (3 * math.sqrt(math.log(1e3))) / size ** (0.5 + free)
        assert epoch.epsilon == pytest.approx(epsilon)
        assert epoch.rho is None
        assert epoch.beta == pytest.approx(NEVER / (2 * size**2))
        assert epoch.alpha == pytest.approx(rate.g / (epsilon * size) * math.log(2 * size**2 / NEVER))
    assert improver.spent == pytest.approx(sum((epoch.epsilon or 0) ** 2 / 2 for epoch in improver.epochs))


def test_replay_of_the_papers_profile() -> None:
    db = database(1000)
    improver = paper(db)
    improver.ask(NARROW)
    for _ in range(5):
        db.append_cells([1, 2])
    replayed = paper(db)
    assert (replayed.state, replayed.spent, replayed.next_epoch) == (improver.state, improver.spent, 1011)
    assert replayed.ask(NARROW) == improver.ask(NARROW)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"c": 0.1}, "c"),
        ({"profile": "paper", "delta": 0.0}, "delta"),
        *(({"profile": "paper", "c": bad}, "c") for bad in (0, -1, float("nan"), "0.1")),
        ({"profile": "loose"}, "profile"),
        ({"beta": 1.5}, "beta"),
        ({"delta": -1}, "delta"),
        ({"box": None}, "box"),
    ],
)
def test_bad_parameters_are_refused_by_name(options: dict[str, Any], name: str) -> None:
    db = database(100)
    given = {"box": CellsBox(), "epsilon": 1.0, "delta": 1e-6, **options}
    with pytest.raises(tr.ParameterError, match=name) as caught:
        BBImprover(db, **given)
    assert caught.value.parameter == name
    assert len(db.journal.events()) == 0


class NoRate(CellsBox):
    @property
    def rate(self) -> Rate | None:
        return None


class LogRate(OneQueryBox):
    """A rate with a logarithm of the size, which the paper's improver takes."""

    @property
    def rate(self) -> Rate | None:
        plain = super().rate
        assert plain is not None
        return Rate(plain.p, plain.g, plain.p1, 1.0)


@pytest.mark.parametrize(
    ("box", "options", "match"),
    [
        (ZcdpBox(), {"delta": 0.0}, "ZcdpBox is private under zCDP only"),
        (ZcdpBox(), {"profile": "paper"}, "zCDP only"),
        (NoRate(), {"profile": "paper"}, r"NoRate is no \(p, g\)-black box"),
        (CellsBox(), {"profile": "paper", "epsilon": 1.5}, "epsilon must be at most 1"),
    ],
)
def test_what_no_schedule_can_be_made_for_is_refused_at_once(box: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(tr.GuaranteeError, match=match):
        BBImprover(database(100), box, **{"epsilon": 1.0, "delta": 1e-6, **options})


def test_any_rate_will_do_for_the_papers_improver() -> None:
    improver = paper(database(5000), LogRate(NARROW))
    improver.ask(NARROW)
    plain = paper(database(5000))
    assert improver.guarantee.alpha == pytest.approx(plain.guarantee.alpha * math.log(5000))


def test_the_papers_free_parameter_is_bounded_by_the_start() -> None:
    improver = paper(database(4), c=2.5)
    with pytest.raises(tr.GuaranteeError, match="c must be at most half of the starting size"):
        improver.ask(NARROW)


@pytest.mark.parametrize(
    ("box", "options", "size"),
    [
        (CellsBox(), {}, 100),
        (CellsBox(), {"delta": 0.0}, 100),
        (OneQueryBox(LESS_NARROW), {"profile": "paper"}, 2),
    ],
)
def test_too_few_rows_are_refused_for_free_with_a_number_that_would_do(
    box: Any, options: dict[str, Any], size: int
) -> None:
    given = {"epsilon": 1.0, "delta": 1e-3, "beta": NEVER, **options}
    db = database(size)
    improver, query = BBImprover(db, box, **given), LESS_NARROW if options.get("profile") else QUERIES[0]
    with pytest.raises(tr.GuaranteeError, match="no error below 1 is guaranteed") as refusal:
        improver.ask(query)
    assert (improver.spent, db.touched, len(db.journal.events())) == (0, 0, 0)
    needed = int(re.findall(r"about ([\d,]+) rows", str(refusal.value))[0].replace(",", ""))
    db.append_cells(cells(needed - size))
    assert improver.guarantee.alpha < 1
    assert improver.ask(query).size == needed
    with pytest.raises(tr.GuaranteeError):
        BBImprover(database(needed * 2 // 3), box, **given).ask(query)


def test_a_box_that_never_becomes_accurate() -> None:
    class Constant(CellsBox):
        def alpha(self, *_: Any) -> float:
            return 2.0

    with pytest.raises(tr.GuaranteeError, match="No start would do"):
        BBImprover(database(100), Constant(), 1.0, 1e-6).ask(QUERIES[0])


def test_if_the_first_epoch_fails_the_guarantee_is_that_of_the_next() -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no luck")

    db = database(START)
    improver = BBImprover(db, Spoilt({0: fail}), 1.0, 1e-6, NEVER)
    with pytest.raises(tr.GuaranteeError, match="no luck"):
        improver.ask(QUERIES[0])
    assert improver.next_epoch is not None
    promised = improver.guarantee
    assert "nothing is answered yet" in promised.statement
    db.append_cells(cells(improver.next_epoch - START))
    assert improver.ask(QUERIES[0]).error <= promised.alpha == improver.guarantee.alpha
