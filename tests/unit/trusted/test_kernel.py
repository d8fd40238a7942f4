"""The kernel: who pays what, in which order, and what never leaves."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.databases import TestDatabase
from treering.budget.promise import Budget
from treering.gate import FINE, Compared, Crossing, Measured, RunEnded, RunRequest, RunStarted
from treering.noise import Gaussian, Laplace, Noise
from treering.protocols import Gate
from treering.trusted.cells import MAX_COUNT, Cells
from treering.trusted.kernel import Kernel
from treering.trusted.noise import Answering
from treering.trusted.operations.run import named

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
JFK = tr.parse("origin = 'JFK'", SCHEMA)
SPRING = tr.parse("month BETWEEN 3 AND 5", SCHEMA)
HALF = tr.Query.weighted(SCHEMA, [0.5, 0.25], attributes=["origin"])
RUN = RunRequest(10.0, 20.0)
NUMERIC = RunRequest(10.0, 20.0, Laplace(5.0))
RICH = Budget("pure", Fraction(1000))


def database(rows: int = 240) -> TestDatabase:
    return TestDatabase(SCHEMA, [cell % SCHEMA.cells for cell in range(rows)])


def kernel(total: float = 1000, kind: Any = "pure", rows: int = 240) -> tuple[Kernel, TestDatabase]:
    db = database(rows)
    return db.open_gate(Budget(kind, Fraction(total))), db


def test_the_kernel_is_a_gate() -> None:
    gate: Gate = kernel()[0]
    assert gate.schema is SCHEMA
    assert gate.size == 240


OPERATIONS: dict[str, tuple[Callable[[Kernel], Any], Fraction, Fraction]] = {
    "measure": (lambda k: k.measure([JFK], Laplace(10.0)), Fraction(1, 10), Fraction(1, 200)),
    "measure two": (lambda k: k.measure([JFK, SPRING], Laplace(10.0)), Fraction(2, 10), Fraction(2, 200)),
    # Weights 1/2 and 1/4 differ by 1/4: the answer moves by a quarter of a row.
    "measure weighted": (lambda k: k.measure([HALF], Laplace(10.0)), Fraction(1, 40), Fraction(1, 3200)),
    "measure constant": (lambda k: k.measure([tr.Query.all(SCHEMA)], Laplace(10.0)), Fraction(0), Fraction(0)),
    "measure nothing": (lambda k: k.measure([], Laplace(10.0)), Fraction(0), Fraction(0)),
    "run": (lambda k: k.begin_run(RUN), Fraction(2, 10), Fraction(2, 100)),
    "numeric run": (lambda k: k.begin_run(NUMERIC), Fraction(4, 10), Fraction(2, 100) + Fraction(1, 50)),
    "histogram": (lambda k: k.histogram(Laplace(10.0)), Fraction(2, 10), Fraction(1, 100)),
    "one marginal": (lambda k: k.histogram(Laplace(10.0), [1]), Fraction(2, 10), Fraction(1, 100)),
    "select": (lambda k: k.select([JFK, SPRING], 10.0), Fraction(2, 10), Fraction(4, 800)),
    "select weighted": (lambda k: k.select([HALF], 10.0), Fraction(2, 40), Fraction(4, 12800)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_costs_are_derived_from_scales_and_sensitivity(name: str) -> None:
    operation, epsilon, rho = OPERATIONS[name]
    pure, _ = kernel()
    assert operation(pure).cost.epsilon == epsilon
    assert pure.spent == epsilon
    zcdp, _ = kernel(kind="zcdp")
    assert operation(zcdp).cost.rho == rho
    assert zcdp.spent == rho


@pytest.mark.parametrize(
    ("operation", "rho"),
    [
        (lambda k: k.measure([JFK, SPRING], Gaussian(10.0)), Fraction(2, 200)),
        (lambda k: k.measure([HALF], Gaussian(10.0)), Fraction(1, 3200)),
        (lambda k: k.histogram(Gaussian(10.0)), Fraction(2, 200)),
        (lambda k: k.begin_run(RunRequest(10.0, 20.0, Gaussian(5.0))), Fraction(2, 100) + Fraction(1, 50)),
    ],
)
def test_gaussian_noise_needs_a_zcdp_budget(operation: Callable[[Kernel], Any], rho: Fraction) -> None:
    zcdp, _ = kernel(kind="zcdp")
    assert operation(zcdp).cost.rho == rho
    pure, db = kernel()
    with pytest.raises(tr.ParameterError, match="delta > 0"):
        operation(pure)
    assert pure.spent == db.touched == len(pure.history) == 0


@pytest.mark.parametrize("name", [name for name in OPERATIONS if OPERATIONS[name][1] > 0])
def test_a_refusal_touches_nothing(name: str) -> None:
    poor, db = kernel(total=0.01)
    with pytest.raises(tr.BudgetExceeded, match=r"needs epsilon 0.*, and 0\.01 is left of 0\.01") as caught:
        OPERATIONS[name][0](poor)
    assert caught.value.requested == OPERATIONS[name][1]
    assert poor.spent == db.touched == len(poor.history) == 0


@pytest.mark.parametrize("size", [0, 10, 240])
def test_the_charge_comes_before_the_touch(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, db = kernel(rows=size)
    order: list[str] = []

    def spy(owner: Any, method: str, word: str) -> None:
        original = getattr(owner, method)

        def spied(*arguments: Any) -> Any:
            order.append(word)
            return original(*arguments)

        monkeypatch.setattr(owner, method, spied)

    spy(type(gate._desk.charges), "charge", "charge")
    spy(Cells, "count_many", "touch")
    spy(type(gate._desk.own(Answering)), "take", "noise")
    spy(type(db.journal), "write", "journal")
    gate.measure([JFK], Laplace(1.0))
    assert order == ["charge", "touch", "noise", "journal"]


def test_answers_are_near_the_truth() -> None:
    gate, _ = kernel()
    measured = gate.measure([JFK, HALF, SPRING], Laplace(0.005))
    assert isinstance(measured, Measured)
    # HALF has weights 2/4 and 1/4, and 120 rows of each. Its noise has four times the scale, 0.02: a draw other than 0
    # has probability 4e-22.
    assert measured.values == (120, 120 * 2 + 120, 60)
    released = gate.histogram(Laplace(0.02), [0])
    assert released.counts.tolist() == [120, 120]
    assert gate.histogram(Laplace(0.02)).counts.shape == SCHEMA.shape
    assert gate.select([SPRING, JFK], 0.02).index == 1
    assert gate.select([SPRING, JFK], 0.02, estimates=[0, 119]).index == 0
    assert gate.select([tr.parse("month = 1", SCHEMA), HALF], 0.02).index == 1


def test_a_run_from_start_to_crossing() -> None:
    gate, db = kernel()
    sharp = RunRequest(0.02, 0.02, Laplace(0.02))
    run = gate.begin_run(sharp)
    assert run == RunStarted(240, run.cost, 0, sharp)
    assert gate.first_exceeding(0, [SPRING, JFK], [100, 121]) == Compared(240, 0, 2, None)
    db.append_cells([SCHEMA.cell({"origin": "JFK", "month": 1})] * 5)
    crossed = gate.first_exceeding(0, [SPRING, JFK, SPRING], [100, 121, 0])
    assert crossed == Compared(245, 0, 2, Crossing(1, 125))
    with pytest.raises(tr.Halted, match="run 0 is over"):
        gate.first_exceeding(0, [SPRING], [0])
    assert gate.begin_run(sharp).run == 1


def test_two_sided_and_weighted_comparisons() -> None:
    gate, _ = kernel()
    sharp = RunRequest(0.02, 0.01)
    gate.begin_run(sharp)
    queries = [JFK, JFK, HALF, HALF]
    assert gate.first_exceeding(0, queries, [5, 5, 20, 20], [118, 122, 345, 375]).crossing is None
    assert gate.first_exceeding(0, queries, [5, 5, 20, 20], [118, 126, 345, 375]).crossing == Crossing(1, None)
    gate.begin_run(sharp)
    assert gate.first_exceeding(1, queries, [5, 5, 15, 10], [118, 122, 375, 360]).crossing == Crossing(2, None)


def test_a_reach_compares_the_same_on_a_finer_grid() -> None:
    """120 rows match one query, and 360 quarters the other."""
    gate, _ = kernel(total=10_000)
    for reach in (FINE, FINE + 1, 3 * FINE):
        run = gate.begin_run(RunRequest(0.02, 0.01, Laplace(0.001))).run
        assert gate.first_exceeding(run, [JFK, HALF], [122, 365], reach=reach).crossing is None
        assert gate.first_exceeding(run, [JFK, HALF], [5, 5], [118, 357], reach).crossing is None
        crossing = gate.first_exceeding(run, [JFK, HALF], [122, 355], reach=reach).crossing
        assert crossing is not None
        assert crossing.index == 1
        assert crossing.value == pytest.approx(FINE * 360, abs=FINE / 2)


@pytest.mark.parametrize("beyond", [MAX_COUNT, -MAX_COUNT])
@pytest.mark.parametrize("place", [0, 1])
def test_one_bar_or_estimate_beyond_all_counts_is_refused(beyond: int, place: int) -> None:
    gate, db = kernel()
    gate.begin_run(RunRequest(0.02, 0.01))
    touched, wide, fits = db.touched, [5, 5], [MAX_COUNT - 1, 1 - MAX_COUNT]
    wide[place] = beyond
    with pytest.raises(tr.ParameterError, match=r"bars must be integers below 2\^61"):
        gate.first_exceeding(0, [JFK, JFK], wide)
    with pytest.raises(tr.ParameterError, match=r"estimates must be integers below 2\^61"):
        gate.first_exceeding(0, [JFK, JFK], fits, wide)
    with pytest.raises(tr.ParameterError, match=r"estimates must be integers below 2\^61"):
        gate.select([JFK, JFK], 1.0, wide)
    assert db.touched == touched
    assert gate.first_exceeding(0, [JFK], fits[:1]).crossing is None


def test_a_reach_is_at_least_what_a_replaced_row_moves() -> None:
    """Weights 1/2 and 1/4: a quarter of a row."""
    gate, db = kernel()
    gate.begin_run(RunRequest(0.02, 0.01))
    assert gate.first_exceeding(0, [HALF], [1000], reach=FINE // 4).crossing is None
    touched = db.touched
    for queries, reach in (([HALF], FINE // 4 - 1), ([HALF, JFK], FINE - 1), ([JFK], 0), ([JFK], -FINE), ([JFK], True)):
        with pytest.raises(tr.ParameterError, match="reach"):
            gate.first_exceeding(0, queries, [1000] * len(queries), reach=reach)
    with pytest.raises(tr.ParameterError, match="reach must be a whole number from 1 to"):
        gate.first_exceeding(0, [JFK], [1000], reach=2**61)
    with pytest.raises(tr.ParameterError, match=r"bars must be integers below 2\^45"):
        gate.first_exceeding(0, [JFK], [2**45], reach=FINE)
    assert db.touched == touched
    assert gate.first_exceeding(0, [JFK], [1000], reach=FINE).crossing is None


def test_long_batches_cross_at_the_first_place() -> None:
    gate, _ = kernel(total=10_000)
    for place in (0, 1, 63, 64, 191, 192, 5000):
        run = gate.begin_run(RunRequest(0.02, 0.01)).run
        bars = [200] * 6000
        bars[place] = bars[place + 1] = 100
        compared = gate.first_exceeding(run, [JFK] * 6000, bars)
        assert compared.crossing == Crossing(place, None)
        assert compared.asked == place + 1
    assert gate.begin_run(RUN).run == 7
    assert gate.first_exceeding(7, [], []).asked == 0


def test_an_abandoned_run_is_refunded() -> None:
    pure, _ = kernel()
    pure.begin_run(NUMERIC)
    assert pure.end_run(0) == RunEnded(240, 0, Fraction(3, 10))
    assert pure.spent == Fraction(1, 10)  # 1/s1: all that a run of nothing but "below" can lose
    zcdp, _ = kernel(kind="zcdp")
    zcdp.begin_run(NUMERIC)
    assert zcdp.end_run(0).refund == Fraction(1, 50)  # the answer that was never given
    assert zcdp.spent == Fraction(2, 100)
    for gate in (pure, zcdp):
        with pytest.raises(tr.Halted):
            gate.end_run(0)


ELSEWHERE = tr.parse("x = 1", tr.Schema({"x": tr.integers(0, 1)}))


@pytest.mark.parametrize(
    ("operation", "error", "match"),
    [
        (lambda k: k.measure([ELSEWHERE], Laplace(1.0)), tr.QueryError, "another schema"),
        (lambda k: k.measure(["origin = 'JFK'"], Laplace(1.0)), tr.QueryError, "must be a Query"),
        (lambda k: k.measure([JFK], Laplace(2.0**49)), tr.ParameterError, "scale"),
        (lambda k: k.measure([JFK], Laplace(float("nan"))), tr.ParameterError, "scale"),
        (lambda k: k.measure([JFK], Laplace(0.0)), tr.ParameterError, "scale"),
        (lambda k: k.measure([JFK], Laplace(-1.0)), tr.ParameterError, "scale"),
        (lambda k: k.measure([JFK], Laplace(5e-324)), tr.ParameterError, "denormal"),
        (lambda k: k.begin_run(RunRequest(float("inf"), 1.0)), tr.ParameterError, "threshold_scale"),
        (lambda k: k.begin_run(RunRequest(1.0, 0.0)), tr.ParameterError, "query_scale"),
        (lambda k: k.begin_run(RunRequest(1.0, 2.0**60)), tr.ParameterError, "scale"),
        (lambda k: k.first_exceeding(0, [JFK], [1, 2]), tr.Halted, "never begun"),
        (lambda k: k.histogram(Laplace(1.0), [1, 0]), tr.ParameterError, "attributes"),
        (lambda k: k.histogram(Laplace(1.0), [2]), tr.ParameterError, "attributes"),
        (lambda k: k.select([], 1.0), tr.ParameterError, "queries"),
        (lambda k: k.select([JFK], float("nan")), tr.ParameterError, "scale"),
        (lambda k: k.select([JFK], 1.0, [1.5]), tr.ParameterError, "estimates"),
    ],
)
def test_bad_requests(operation: Callable[[Kernel], Any], error: type[Exception], match: str) -> None:
    gate, db = kernel()
    with pytest.raises(error, match=match):
        operation(gate)
    assert gate.spent == db.touched == len(gate.history) == 0


@pytest.mark.parametrize(
    ("bars", "estimates"),
    [([1, 2], None), ([1.5], None), ([2**62], None), ([True], None), ([1], [None]), ([1], [2**70]), ([1], [])],
)
def test_bad_comparisons_leave_the_run_alone(bars: Any, estimates: Any) -> None:
    gate, db = kernel()
    gate.begin_run(RUN)
    with pytest.raises(tr.ParameterError, match="bars|estimates"):
        gate.first_exceeding(0, [JFK], bars, estimates)
    assert db.touched == 0
    assert gate.first_exceeding(0, [JFK], [10**6]).crossing is None


def test_too_many_cells_for_a_histogram() -> None:
    wide = TestDatabase(tr.Schema({f"x{i}": tr.integers(0, 999) for i in range(4)}), [5, 7])
    gate = wide.open_gate(RICH)
    with pytest.raises(tr.ParameterError, match="at most 16,777,216"):
        gate.histogram(Laplace(1.0))
    assert gate.histogram(Laplace(0.02), [3]).counts.sum() == 2


def test_nothing_private_shows() -> None:
    gate, _ = kernel()
    gate.begin_run(RUN)
    assert repr(gate) == "<Kernel>"
    assert repr(named(gate._desk, 0)) == "<Run>"
    assert repr(gate._desk.journal) == "<MemoryJournal>"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(gate)
    threshold = gate._desk.journal.secret(0)
    assert repr(threshold) == "<Secret>"
    assert not any("threshold=" in repr(event) or "Secret" in repr(event) for event in gate.history)


def test_a_forked_child_is_refused() -> None:
    gate, _ = kernel()
    child = os.fork()
    if child == 0:
        try:
            gate.measure([JFK], Laplace(1.0))
        except tr.TreeringError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.measure([JFK], Laplace(1.0))


def test_threads_share_one_budget() -> None:
    """A hundred threads race for a budget that holds ten charges: ten get through."""
    gate, _ = kernel(total=1)
    outcomes: list[bool] = []

    def work() -> None:
        try:
            gate.measure([JFK], Laplace(10.0))
        except tr.BudgetExceeded:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=work) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(outcomes) == 10
    assert gate.spent == 1


NOISES = st.builds(Laplace, st.floats(0.5, 50)) | st.builds(Gaussian, st.floats(0.5, 50))


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["measure", "histogram", "run", "compare", "end", "select", "grow", "note"]), NOISES),
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None)
def test_a_restored_kernel_is_the_live_one(steps: list[tuple[str, Noise]]) -> None:
    """Whatever happened: a second kernel over the same journal has spent the same and holds the same secrets."""
    db = database()
    budget = Budget("zcdp", Fraction(3))
    gate = db.open_gate(budget)
    for step, noise in steps:
        runs = list(gate._desk.charges.runs)
        try:
            match step:
                case "measure":
                    gate.measure([JFK, HALF], noise)
                case "histogram":
                    gate.histogram(noise, [0])
                case "run":
                    gate.begin_run(RunRequest(20.0, 20.0, noise))
                case "compare" if runs:
                    gate.first_exceeding(runs[0], [JFK, HALF], [150, 500])
                case "end" if runs:
                    gate.end_run(runs[-1])
                case "select":
                    gate.select([JFK, SPRING], 9.0)
                case "grow":
                    db.append_cells([1, 2, 3])
                case "note":
                    with gate.transaction():
                        gate.note({"step": step})
        except tr.BudgetExceeded:
            pass
    again = db.open_gate(budget)
    assert again.spent == gate.spent <= budget.total
    assert again._desk.charges.next_run == gate._desk.charges.next_run
    assert {run: named(again._desk, run)._threshold.value for run in again._desk.charges.runs} == {
        run: named(gate._desk, run)._threshold.value for run in gate._desk.charges.runs
    }
    assert list(again.history) == list(gate.history)


def test_what_was_charged_in_a_failed_transaction_stays_charged() -> None:
    gate, db = kernel()

    def fail() -> None:
        with gate.transaction():
            gate.measure([JFK], Laplace(10.0))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gate.spent == db.open_gate(RICH).spent == Fraction(1, 10)
