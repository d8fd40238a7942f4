"""Several mechanisms under one promise, what they cost, and what a vault says about itself."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.charges import most_paid
from support.vaults import BETA, SCHEMA, frame, full, guarded, mechanism, questions, surely_easy
from treering.vault.vault import Vault

NAN = float("nan")
STATUS = {
    *(
        "identity",
        "name",
        "created",
        "cells",
        "versions",
        "size",
        "erased",
        "batches",
        "dropped",
        "epsilon",
        "delta",
        "rows_per_person",
        "person",
        "promise",
    ),
    *("unit", "total", "spent", "remaining", "share_left", "hard_queries", "potential", "guarantee", "epochs"),
    *("mechanisms", "source", "entries", "head"),
}


def bare(place: Path, **given: Any) -> Vault:
    return Vault.create(place, SCHEMA, 1.0, mechanism=None, **given)


# -- shares ------------------------------------------------------------------------------------------------------------


def test_shares_that_sum_to_one_fit_exactly(tmp_path: Path) -> None:
    with bare(tmp_path / "vault") as vault:
        vault.add("pmwg", 0.3)
        assert vault.status()["share_left"] == 0.7
        vault.add("continual", 0.7)
        assert vault.status()["share_left"] == 0
        with pytest.raises(tr.ParameterError, match="share cannot be had: the others have the whole promise"):
            vault.add("pmwg", 1e-9)


def test_three_thirds_fit(tmp_path: Path) -> None:
    with bare(tmp_path / "vault") as vault:
        names = [vault.add("continual", Fraction(1, 3)) for _ in range(3)]
        assert names == ["continual", "continual2", "continual3"]
        totals = [mechanism(vault, number)._gate.budget.total for number in range(3)]
        assert totals == [Fraction(1, 3)] * 3
    with Vault.open(tmp_path / "vault") as vault:
        assert sum(mechanism(vault, number)._gate.budget.total for number in range(3)) == 1


def test_more_than_the_whole_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with bare(tmp_path / "vault") as vault:
        vault.add("pmwg", 0.3)
        before = vault.status()
        with pytest.raises(tr.ParameterError, match="share must be at most 0.7, .* not 0.8") as caught:
            vault.add("pmwg", 0.8)
        assert caught.value.parameter == "share"
        assert vault.status() == before


@pytest.mark.parametrize("share", [0, -0.1, 1.5, NAN, math.inf, "0.1", None, True])
def test_what_is_no_share(tmp_path: Path, share: Any) -> None:
    with bare(tmp_path / "vault") as vault, pytest.raises(tr.ParameterError, match="share"):
        vault.add("pmwg", share)


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("nothing", {}, "kind"),
        ("PMWG", {}, "kind"),
        (None, {}, "kind"),
        ("pmwg", {"speed": 3}, "speed"),
        ("pmwg", {"alpha": 2}, "alpha"),
        ("pmwg", {"alpha": Fraction(1, 20)}, "options"),
        ("pmwg", {"name": "a b"}, "name"),
        ("pmwg", {"name": 7}, "name"),
        ("continual", {"alpha": 0.1}, "alpha"),
        ("continual", {"beta": 0}, "beta"),
        ("continual", {"beta": NAN}, "options"),
        ("scheduler", {"box": "none"}, "box"),
        ("scheduler", {"box": {}}, "box"),
        ("scheduler", {"box": "mwem"}, "queries"),
        ("scheduler", {"box": "answers", "queries": 3}, "queries"),
        ("scheduler", {"box": "marginals", "ways": "many"}, "ways"),
        ("ermg", {"target": "late = 'yes'"}, "target"),
        ("ermg", {"target": "late = 'yes'", "features": ["month"], "radius": -1}, "radius"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, kind: Any, options: Any, name: str) -> None:
    with bare(tmp_path / "vault") as vault:
        before = vault.status()
        with pytest.raises(tr.TreeringError, match=name):
            vault.add(kind, 0.1, **options)
        assert vault.status() == before


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    with bare(tmp_path / "vault") as vault:
        assert vault.add("pmwg", 0.1, name="flights") == "flights"
        with pytest.raises(tr.ParameterError, match="'flights' is taken"):
            vault.add("continual", 0.1, name="flights")
        assert vault.add("pmwg", 0.1) == "pmwg"
        assert vault.add("pmwg", 0.1) == "pmwg2"


def test_each_mechanism_keeps_to_its_share(tmp_path: Path) -> None:
    """One that has spent its own has nothing left, whatever the others leave."""
    with Vault.create(tmp_path / "vault", SCHEMA, 60.0, 1e-6, mechanism=None) as vault:
        vault.add("pmwg", 0.3, alpha=0.1, beta=BETA, measure_first=False, name="small")
        vault.add("pmwg", 0.7, alpha=0.1, beta=BETA, measure_first=False, name="large")
        vault.append(frame(3000))
        total = Fraction(vault._store._record.origin.promise.budget.total)
        for name, share in (("small", Fraction(3, 10)), ("large", Fraction(7, 10))):
            with pytest.raises(tr.BudgetExceeded) as caught:
                vault.ask_many(questions(500), name)
            assert caught.value.total == total * share
            assert caught.value.spent + caught.value.requested > caught.value.total
        assert 0 < vault.spent <= float(total)
        assert vault.status()["remaining"] == pytest.approx(float(total) - vault.spent)


def test_a_promise_per_person_is_stricter_per_row(tmp_path: Path) -> None:
    pure = Vault.create(tmp_path / "pure", SCHEMA, 1.0, rows_per_person=4, mechanism="continual")
    zcdp = Vault.create(tmp_path / "zcdp", SCHEMA, 1.0, 1e-6, rows_per_person=4, mechanism="continual")
    single = Vault.create(tmp_path / "single", SCHEMA, 1.0, 1e-6, mechanism="continual")
    assert (pure.total, pure.status()["unit"]) == (0.25, "epsilon")
    assert zcdp.total * 16 == pytest.approx(single.total)
    assert zcdp.status()["unit"] == "rho"
    for vault in (pure, zcdp, single):
        vault.append(frame(5000))
        vault.ask("late = 'yes'")
        assert vault.spent == pytest.approx(vault.total)
        vault.close()


# -- prices ------------------------------------------------------------------------------------------------------------


def paid(vault: Vault, query: tr.Query, name: str) -> None:
    """Asking costs no more than was said, and the price was free."""
    before, head = vault.spent, vault.status()["head"]
    said = vault.price(query, name)
    assert (vault.spent, vault.status()["head"]) == (before, head)
    vault.ask(query, name)
    assert vault.spent - before <= said * (1 + 1e-9) + 1e-12


@settings(max_examples=5, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["guard", "measure", "continual", "scheduler"]), st.integers(0, 10**6)),
        min_size=10,
        max_size=40,
    )
)
def test_nothing_costs_more_than_its_price(
    tmp_path_factory: pytest.TempPathFactory, life: list[tuple[str, int]]
) -> None:
    place = tmp_path_factory.mktemp("prices") / "vault"
    with Vault.create(place, SCHEMA, 1000.0, 1e-6, mechanism=None) as vault:
        vault.add("pmwg", 0.4, alpha=0.1, beta=BETA, measure_first=False, name="guard")
        vault.add("pmwg", 0.2, alpha=0.1, beta=BETA, name="measure")
        vault.add("continual", 0.2)
        vault.add("scheduler", 0.2)
        vault.append(frame(20_000))
        for name, seed in life:
            paid(vault, questions(1, seed)[0], name)
            if seed % 4 == 0:
                vault.append(frame(seed % 5000, seed=seed))


def test_a_price_is_that_of_the_next_question(tmp_path: Path) -> None:
    with full(tmp_path / "vault") as vault:
        first = vault.price("late = 'yes'")
        assert first > 0
        vault.ask("late = 'yes'")
        assert vault.spent == pytest.approx(first)
        assert vault.price("month <= 12") == 0
        for name in ("continual", "scheduler", "improver"):
            assert vault.price("late = 'yes'", name) > 0
            vault.ask("late = 'yes'", name)
            assert vault.price("late = 'yes'", name) == 0


def test_an_empty_vault_has_no_prices(tmp_path: Path) -> None:
    with full(tmp_path / "vault", rows=0) as vault:
        for name in ("pmwg", "continual", "scheduler"):
            with pytest.raises(tr.GuaranteeError, match="empty"):
                vault.price("late = 'yes'", name)


# -- what it says ------------------------------------------------------------------------------------------------------


def test_status_says_everything_as_plain_values(tmp_path: Path) -> None:
    with full(tmp_path / "vault") as vault:
        vault.ask_many(questions(30))
        for name in ("measured", "continual", "scheduler"):
            vault.ask("late = 'yes'", name)
        status = vault.status()
        assert set(status) == STATUS
        assert json.loads(json.dumps(status, allow_nan=False)) == status
        assert (status["size"], status["cells"], status["batches"]) == (20_000, 72, 1)
        assert status["spent"] + status["remaining"] == pytest.approx(status["total"])
        assert status["spent"] == pytest.approx(math.fsum(each["spent"] for each in status["mechanisms"]))
        assert status["hard_queries"] == mechanism(vault).hard_queries > 0
        assert status["potential"] == mechanism(vault).potential
        assert status["guarantee"]["alpha"] == 0.1
        assert status["mechanisms"][3]["epochs"][0]["size"] == 20_000
        assert [each["share"] for each in status["mechanisms"]] == [0.4, 0.1, 0.1, 0.2, 0.1, 0.1]
        lines = list(vault.ledger())
        assert (status["entries"], status["head"]) == (len(lines), lines[-1]["hash"])
    with bare(tmp_path / "empty") as vault:
        vault.add("pmwg", 1.0)
        assert vault.status()["guarantee"]["statement"].startswith("none yet: the database is empty")


def test_the_ledger_has_every_line_and_its_costs_give_what_is_spent(tmp_path: Path) -> None:
    """What is spent is the most that any row has paid. Where every line is about all rows, that is the sum."""
    with full(tmp_path / "vault") as vault:
        for number in range(3):
            for name in ("pmwg", "measured", "continual", "scheduler", "improver"):
                vault.ask_many(questions(10, number), name)
            vault.model()
            vault.append(frame(5000, seed=number), key=f"batch {number}")
        lines = list(vault.ledger())
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
        assert all({"seq", "kind", "cost", "size", "hash"} <= set(line) for line in lines)
        assert json.loads(json.dumps(lines, allow_nan=False)) == lines
        assert len({line["hash"] for line in lines}) == len(lines)
        total = 0.0
        for number, member in enumerate(vault._members):
            own = [line for line in lines if line["mechanism"] == member.spec.name]
            spent = mechanism(vault, number).spent
            assert most_paid(own) == pytest.approx(spent, rel=1e-12)
            summed = math.fsum(line["cost"] for line in own)
            assert summed == pytest.approx(4 * spent if member.spec.kind == "continual" else spent, rel=1e-12)
            total += spent
        assert vault.spent == pytest.approx(total, rel=1e-12)
        assert vault.left(20_000) == pytest.approx(vault.total - vault.spent, rel=1e-9)
        assert vault.left(1) < vault.left(20_001) < vault.left(vault.size) < vault.left(vault.size + 1)
        sizes = [line["size"] for line in lines if line["kind"] == "rows"]
        assert sizes == [20_000, 25_000, 30_000, 35_000]
        assert [line["key"] for line in lines if line["key"]] == ["batch 0", "batch 1", "batch 2"]
        assert list(Vault.read(tmp_path / "vault").ledger(after=len(lines) - 2)) == lines[-2:]


def test_a_pure_promise_counts_refunds(tmp_path: Path) -> None:
    """Runs that are abandoned give back what they can no longer lose; the ledger shows it, and sums to the rest."""
    with guarded(tmp_path / "vault", delta=0.0) as vault:
        vault.ask_many(questions(100))
        vault.ask_many([surely_easy(vault, frame(20_000))] * 4000)
        lines = list(vault.ledger())
        assert math.fsum(line["cost"] for line in lines) == pytest.approx(vault.spent, rel=1e-12)
        refunds = [line["cost"] for line in lines if line["kind"] == "RunEnded"]
        assert refunds
        assert all(cost < 0 for cost in refunds)


def test_auto_plans_for_the_share_that_the_mechanism_has(tmp_path: Path) -> None:
    kinds = []
    for number, share in enumerate((1.0, 0.0001)):
        with Vault.create(tmp_path / str(number), SCHEMA, epsilon=1.0, alpha=0.05, share=share, rows=10**6) as vault:
            kinds += [each["kind"] for each in vault.status()["mechanisms"]]
    assert kinds == ["continual", "pmwg"]


@pytest.mark.parametrize("given", [{}, {"target": "late = 'yes'"}, {"features": ["origin"]}])
def test_a_learner_needs_what_to_learn_and_from_what(tmp_path: Path, given: dict[str, Any]) -> None:
    with (
        Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault,
        pytest.raises(tr.ParameterError, match="target and features must be given"),
    ):
        vault.add("ermg", 0.5, **given)
