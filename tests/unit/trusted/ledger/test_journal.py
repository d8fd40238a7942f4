"""What a journal does about a lease that nobody gave back: it counts what was leased, and ends the run."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import treering as tr
from support.faulty_disk import faulty_disk
from support.vaults import (
    BETA,
    DELTA,
    EPSILON,
    SCHEMA,
    asked,
    crash,
    frame,
    guarded,
    kinds,
    leased,
    mechanism,
    questions,
    surely_easy,
    surely_hard,
)
from treering.vault.vault import Vault


def runs(vault: Vault) -> list[int]:
    """The runs in progress."""
    return list(mechanism(vault)._gate._desk.charges.runs)


def test_a_full_disk_shows_one_crossing_and_that_ends_the_run(tmp_path: Path) -> None:
    """Within a lease "below" needs no commit, "above" does. Whoever sees which of them fails has seen one crossing of
    the run, which is what the run was charged for: it must not go on with the same threshold."""
    place = tmp_path / "vault"
    with faulty_disk() as disk:
        vault = guarded(place)
        hard, easy = surely_hard(vault, frame(20_000)), surely_easy(vault, frame(20_000))
        assert vault.ask(easy).kind == "easy"
        assert leased(vault)
        (run,), spent, true = runs(vault), vault.spent, asked(vault)
        disk.arm(apsw.FullError, 0)
        assert vault.ask(easy).kind == "easy"
        with pytest.raises(tr.VaultError, match="may have shown one crossing"):
            vault.ask(hard)
        crash(vault)
    with Vault.open(place) as vault:
        assert run not in runs(vault)
        assert kinds(vault)[-2:] == ["Compared", "RunEnded"]
        assert vault.spent == spent, "a run that may have halted is not refunded"
        assert asked(vault) > true
        assert not leased(vault)
        vault.ask(easy)
        assert vault.spent > spent, "the next guarded question begins a run of its own"
        assert vault.verify()["entries"] == len(kinds(vault))


def test_the_run_ends_in_the_commit_that_counts_its_lease(tmp_path: Path) -> None:
    """Between the two the next opening would find a run without a lease, and take it up."""
    place = tmp_path / "vault"
    vault = guarded(place)
    vault.ask_many(questions(30))
    assert leased(vault)
    crash(vault)
    with faulty_disk() as disk:
        for passing in range(30):
            disk.arm(apsw.FullError, passing)
            try:
                vault = Vault.open(place)
            except tr.VaultError:
                continue
            break
        disk.disarm()
        found = kinds(vault)
        assert found[-2:] == ["Compared", "RunEnded"]
        assert found.count("RunEnded") <= found.count("RunStarted")
        crash(vault)


def test_a_lease_that_was_given_back_lets_the_run_go_on(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    with guarded(place) as vault:
        vault.ask_many(questions(30))
        before = runs(vault)
        assert before
    with Vault.open(place) as vault:
        assert runs(vault) == before


def test_rows_that_came_during_a_run_pay_for_it_also_if_another_mechanism_stands_before(tmp_path: Path) -> None:
    """The mechanism before needs the counts of an earlier size: at that size the run must not end."""
    place = tmp_path / "vault"
    vault = Vault.create(place, SCHEMA, EPSILON, DELTA, mechanism="rings", share=0.5)
    vault.add("pmwg", 0.5, alpha=0.1, beta=BETA, measure_first=False)
    vault.append(frame(20_000))
    vault.ask("late = 'yes'", "rings")
    vault.append(frame(20_000))
    vault.ask_many(questions(30), "pmwg")
    assert leased(vault, 1)
    vault.append(frame(5_000))
    crash(vault)
    with Vault.open(place) as vault:
        assert kinds(vault)[-2:] == ["Compared", "RunEnded"]
        pmwg = mechanism(vault, 1)
        assert pmwg.left(45_000) < pmwg.left(45_001)
