"""Shares that move: what rings have not used is given up for others, and no row ever pays more than the whole."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.vaults import BETA, SCHEMA, crash, frame, mechanism, states, with_line
from treering.trusted.ledger.lines import MECHANISM, Line, body
from treering.trusted.ledger.shares import Spec, with_shares
from treering.vault.kinds import lowered
from treering.vault.vault import Vault

LATE = "late = 'yes'"
ROWS = 20_000
KINDS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])


def made(place: Path, delta: float = 1e-6) -> Vault:
    """A vault as `treering create` makes it, with rows."""
    vault = Vault.create(place, SCHEMA, 1.0, delta, beta=BETA)
    vault.append(frame(ROWS))
    return vault


def specs(*shares: Fraction) -> list[Spec]:
    return [Spec(f"m{number}", "rings", share, {}) for number, share in enumerate(shares)]


def paid(vault: Vault, position: int) -> Fraction:
    """What a row has paid to all mechanisms, exactly."""
    gates = [member.mechanism._gate for member in vault._members]
    return sum((gate.budget.total - gate.left(position) for gate in gates), Fraction(0))


def whole(vault: Vault) -> Fraction:
    return vault._store._record.origin.promise.budget.total


# -- in a vault --------------------------------------------------------------------------------------------------------


@KINDS
def test_what_rings_have_not_used_can_be_given_to_another(delta: float, tmp_path: Path) -> None:
    with made(tmp_path / "vault", delta) as vault:
        known = vault.ask(LATE)
        spent = vault.spent
        assert vault.add("continual", 0.3) == "continual"
        assert [each["share"] for each in vault.status()["mechanisms"]] == [0.7, 0.3]
        assert vault.status()["share_left"] == 0
        budgets = [member.mechanism._gate.budget.total for member in vault._members]
        assert sum(budgets) == whole(vault)
        assert budgets[0] == Fraction(7, 10) * whole(vault)
        # Rings go on: what is known stays, nothing was paid, and rows to come bring what all of them may charge.
        assert vault.ask(LATE) == known
        assert vault.spent == pytest.approx(spent, rel=1e-12)
        assert vault.left(ROWS + 1) == pytest.approx(vault.total)
        vault.append(frame(ROWS, seed=2))
        assert vault.ask(LATE).size == 2 * ROWS
        before = states(vault)
        status = vault.status()["mechanisms"]
    with Vault.open(tmp_path / "vault") as vault:
        assert states(vault) == before
        assert vault.status()["mechanisms"] == status
        vault.ask("month = 1", "continual")
        vault.ask("month = 1", "rings")
    assert Vault.read(tmp_path / "vault").status()["mechanisms"][0]["share"] == 0.7
    tr.Vault.read(tmp_path / "vault").verify()


def test_what_nobody_has_is_taken_first(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, share=0.6) as vault:
        vault.add("continual", 0.4)
        assert [each["share"] for each in vault.status()["mechanisms"]] == [0.6, 0.4]
        vault.add("continual", 0.1)
        assert [each["share"] for each in vault.status()["mechanisms"]] == [0.5, 0.4, 0.1]


@KINDS
def test_all_that_is_not_used_can_be_taken_and_series_are_kept_current(delta: float, tmp_path: Path) -> None:
    with made(tmp_path / "vault", delta) as vault:
        vault.ask(LATE)
        vault.ask("month = 3")
        before = (vault.status(), states(vault))
        with pytest.raises(tr.ParameterError, match=r"share must be at most 0\.93\d*, .* not 0\.95") as caught:
            vault.add("continual", 0.95)
        assert (vault.status(), states(vault)) == before
        most = float(str(caught.value).split("at most ")[1].split(",")[0])
        vault.add("continual", most)
        for day in range(40):  # beyond two segments
            vault.append(frame(50, seed=day))
            vault.ask_many([LATE, "month = 3"], "rings")
        with pytest.raises((tr.GuaranteeError, tr.BudgetExceeded)):
            vault.ask("month <= 6 AND late = 'no'", "rings", within=1000)
        assert max(paid(vault, position) for position in range(1, vault.size + 1, 7)) <= whole(vault)
    tr.Vault.read(tmp_path / "vault").verify()


def test_rings_that_were_never_asked_keep_a_little(tmp_path: Path) -> None:
    with made(tmp_path / "vault") as vault:
        with pytest.raises(tr.ParameterError, match="share must be at most 0.99"):
            vault.add("ermg", 1, target=LATE, features=["month"])
        vault.add("ermg", 0.99, target=LATE, features=["month"])
        assert [each["share"] for each in vault.status()["mechanisms"]] == [0.01, 0.99]


def test_others_need_their_share(tmp_path: Path) -> None:
    for kind in ("pmwg", "continual"):
        refused = pytest.raises(tr.ParameterError, match="the others have the whole promise")
        with Vault.create(tmp_path / kind, SCHEMA, 1.0, mechanism=kind) as vault, refused:
            vault.add("rings", 0.1)


def test_a_crash_leaves_the_shares_as_they_are_on_record(tmp_path: Path) -> None:
    vault = made(tmp_path / "vault")
    vault.ask(LATE)
    vault.add("ermg", 0.25, target=LATE, features=["month"])
    status = vault.status()["mechanisms"]
    crash(vault)
    with Vault.open(tmp_path / "vault") as again:
        assert again.status()["mechanisms"] == status
        again.model()


@settings(max_examples=15)
@given(st.data(), st.sampled_from([0.0, 1e-6]))
def test_in_any_life_no_row_pays_more_than_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, delta: float
) -> None:
    place = tmp_path_factory.mktemp("lives") / "vault"
    vault = made(place, delta)
    questions = ["late = 'yes'", "month = 3", "month <= 6", "late = 'yes' AND month = 1"]
    for step in range(data.draw(st.integers(3, 10))):
        deed = data.draw(st.sampled_from(["ask", "ask", "grow", "add", "open"]))
        if deed == "ask":
            name = data.draw(st.sampled_from([each["name"] for each in vault.status()["mechanisms"]]))
            vault.ask(data.draw(st.sampled_from(questions)), name)
        elif deed == "grow":
            vault.append(frame(500, seed=step))
        elif deed == "add":
            share = data.draw(st.fractions(Fraction(1, 100), Fraction(1, 2)))
            spare = mechanism(vault).spare / whole(vault)
            kind = data.draw(st.sampled_from(["rings", "continual"]))
            if share <= spare:
                vault.add(kind, share)
        else:
            before = states(vault)
            crash(vault)
            vault = Vault.open(place)
            assert states(vault) == before
        assert sum(each.share for each in vault._store._record.specs) <= 1
        assert all(
            paid(vault, position) <= whole(vault) for position in (1, ROWS, ROWS + 1, vault.size, vault.size + 1)
        )
    vault.close()
    Vault.read(place).verify()


# -- arithmetic, and what cannot be on record --------------------------------------------------------------------------


def test_what_is_spare_is_given_in_order_until_it_is_enough() -> None:
    half, third = Fraction(1, 2), Fraction(1, 3)
    there = specs(half, third)
    assert lowered(there, [half, third], Fraction(1, 6)) == {}
    assert lowered(there, [half, third], Fraction(1, 3)) == {"m0": third}
    assert lowered(there, [Fraction(1, 12), third], half) == {"m0": Fraction(5, 12), "m1": Fraction(1, 12)}
    assert lowered(there, [Fraction(0), Fraction(0)], half) == {}
    assert lowered([], [], Fraction(1)) == {}


def test_shares_that_are_lowered_again_and_again_stay_short_fractions() -> None:
    """What a ledger has left is a multiple of 1/(30!·2^100) of the share: unrounded, a share would grow by 208 bits."""
    there = specs(Fraction(1))
    for _ in range(20):
        (own,) = there
        spare = own.share * Fraction(3**130 + 1, 3**131)
        (kept,) = lowered(there, [spare], 1 - own.share + spare).values()
        assert own.share - spare <= kept <= own.share - spare + Fraction(1, 2**96)
        assert kept.denominator.bit_length() <= 256
        there = with_shares(there, {own.name: kept})


def test_a_share_on_record_below_what_was_paid_is_found(tmp_path: Path) -> None:
    """Whoever forges a line that takes back what rows have paid for: the history no longer fits into the share."""
    with made(tmp_path / "vault") as vault:
        vault.ask(LATE)
    given = {"name": "forged", "kind": "continual", "share": "99/100", "options": {}, "shares": {"rings": "1/100"}}
    with_line(tmp_path / "vault", Line(MECHANISM, body(**given)))
    with pytest.raises(tr.BudgetExceeded):
        Vault.open(tmp_path / "vault")
    with pytest.raises(tr.BudgetExceeded):
        Vault.read(tmp_path / "vault").verify()
