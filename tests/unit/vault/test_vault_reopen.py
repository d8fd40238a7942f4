"""Opened again, a vault is what it was, bit for bit: after closing, after a crash, with checkpoints and without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.events import codec_of
from support.vaults import (
    BETA,
    SCHEMA,
    asked,
    crash,
    frame,
    full,
    guarded,
    journal,
    kinds,
    leased,
    mechanism,
    questions,
    rounds,
    states,
    surely_easy,
)
from treering.gate import Compared, Condensed, RunRequest
from treering.trusted.ledger.journal import FIRST_LEASE, recover
from treering.trusted.reading import Reading
from treering.vault import members
from treering.vault.kinds import NOTES
from treering.vault.members import shown
from treering.vault.vault import Vault


def live(vault: Vault, batches: list[int]) -> None:
    """Every mechanism asked between batches."""
    for batch, asked_now in rounds(batches):
        for name in ("pmwg", "measured", "continual", "scheduler", "improver"):
            vault.ask_many(asked_now, name)
        vault.model()
        vault.append(batch)


def records(vault: Vault) -> list[Any]:
    """What each PMWG knows without asking."""
    found = [mechanism(vault, place) for place, member in enumerate(vault._members) if member.spec.kind == "pmwg"]
    return [each._engine.records._standing(each.state[0].size) for each in found]


@pytest.mark.parametrize("end", [Vault.close, crash])
def test_all_mechanisms_go_on_where_they_were(tmp_path: Path, end: Any) -> None:
    place = tmp_path / "vault"
    vault = full(place)
    live(vault, [300, 3000, 500])
    before, known, size, head = states(vault), records(vault), vault.size, vault.status()["head"]
    easy = leased(vault)
    end(vault)
    with Vault.open(place) as vault:
        if end is crash and easy:
            assert states(vault)[1:] == before[1:]
        else:
            assert states(vault) == before
        assert records(vault) == known
        assert (vault.size, vault._store._record.origin.schema) == (size, SCHEMA)
        assert vault.verify(head)["head_found"]
        live(vault, [400, 4000])
        after = states(vault)
        assert all(one != other for one, other in zip(after, before, strict=True))
    with Vault.open(place) as vault:
        assert states(vault) == after


def test_an_open_run_keeps_its_threshold(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(50))
        (run,) = mechanism(vault)._gate._desk.charges.runs
        secret, spent = journal(vault).secret(run).value, vault.spent
    with Vault.open(tmp_path / "vault") as vault:
        assert list(mechanism(vault)._gate._desk.charges.runs) == [run]
        assert journal(vault).secret(run).value == secret
        assert vault.spent == spent


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(["ask", "append", "close", "crash", "condense"]), min_size=3, max_size=12))
def test_any_life_replays_from_its_first_line(tmp_path_factory: pytest.TempPathFactory, life: list[str]) -> None:
    """Whatever happened, three ways to the state agree: the live one, from checkpoints, and from the first line."""
    place = tmp_path_factory.mktemp("life") / "vault"
    vault = guarded(place)
    ends: dict[str, Any] = {"close": Vault.close, "crash": crash}
    for number, step in enumerate(life):
        if step == "ask":
            vault.ask_many(questions(15, seed=number))
        elif step == "append":
            vault.append(frame(800, seed=number))
        elif step == "condense":
            mechanism(vault).condense()
        else:
            before, asked_before = states(vault)[0][0][1], asked(vault)
            bound = leased(vault)
            ends[step](vault)
            vault = Vault.open(place)
            assert states(vault)[0][0][1] == before
            assert asked_before <= asked(vault) <= asked_before + (0 if step == "close" else bound)
    with vault:
        assert vault.verify()["size"] == vault.size
        state = mechanism(vault).state
    found = Reading(place, NOTES)
    record = found.record()
    for events in (found.events(record), found.verify().events):
        (again,) = shown(record, events)
        assert again.state == state


# -- leases ------------------------------------------------------------------------------------------------------------


def test_after_a_crash_no_query_is_forgotten_and_at_most_a_lease_is_added(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = guarded(place)
    vault.ask_many(questions(30))
    for number in range(1, 60):
        vault.ask_many(questions(number, seed=number))
        true = asked(vault)
        lines = len(kinds(vault))
        if number in (5, 59):
            crash(vault)
            vault = Vault.open(place)
            assert true <= asked(vault) <= true + FIRST_LEASE
            assert len(kinds(vault)) in (lines, lines + 2)  # what the lease covered, and the end of its run
    vault.close()


def test_easy_answers_are_free_of_commits(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(100))
        query = surely_easy(vault, frame(20_000))
        vault.ask(query)
        before = vault.status()["head"]
        assert {answer.kind for answer in vault.ask_many([query] * 200)} == {"easy"}
        assert vault.status()["head"] == before


def test_a_lease_covers_what_is_asked_and_grows_with_it(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(100))
        query = surely_easy(vault, frame(20_000))
        most = 0
        for _ in range(60):  # now and then a run is renewed, and what was waiting is recorded
            vault.ask_many([query] * 100)
            waiting = journal(vault)._pending.asked
            assert waiting <= leased(vault) <= max(FIRST_LEASE, 2 * waiting)
            most = max(most, waiting)
        assert most > 2 * FIRST_LEASE


def test_a_lease_that_was_not_used_is_given_back_at_the_end(tmp_path: Path) -> None:
    """Rows that arrive renew the lease; nothing is asked before the end, with a checkpoint or without."""
    for number, condense in enumerate((False, True)):
        place = tmp_path / str(number)
        vault = guarded(place)
        vault.ask_many(questions(100))
        vault.append(frame(10, seed=3))
        true = asked(vault)
        assert leased(vault) == FIRST_LEASE
        if condense:
            mechanism(vault).condense()
        vault.close()
        with Vault.open(place) as vault:
            assert asked(vault) == true
            vault.verify()
        shutil.rmtree(place / "checkpoints")
        with Vault.open(place) as vault:
            assert asked(vault) == true


def test_leases_are_each_runs_own(tmp_path: Path) -> None:
    """Two runs side by side, as no mechanism has them today: neither uses what the other has leased."""
    place = tmp_path / "vault"
    vault = guarded(place, rows=1000)
    gate = mechanism(vault)._gate
    query = tr.parse("late = 'yes'", SCHEMA)
    request = RunRequest(50.0, 50.0, None)
    first, second = gate.begin_run(request).run, gate.begin_run(request).run
    kept = journal(vault)
    kept.settle(renew=True)
    kept._leases.clear()
    for run in (first, second, first):
        gate.first_exceeding(run, [query] * 5, [10**9] * 5)
    assert set(kept._leases) == {first}
    crash(vault)
    vault = Vault.open(place)
    left = {event.run: 0 for event in journal(vault).events() if isinstance(event, Compared)}
    for event in journal(vault).events():
        if isinstance(event, Compared):
            left[event.run] += event.asked
    assert left[first] >= 10
    assert left[second] >= 5
    vault.close()


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after every few steps."""
    monkeypatch.setattr(members, "_REPLAYED", 4 * members._EVENT)


def busy(place: Path) -> Vault:
    """A life that leads to several checkpoints."""
    vault = Vault.create(place, SCHEMA, 1000.0, 1e-6, alpha=0.1, beta=BETA, mechanism="pmwg")
    vault.append(frame(20_000))
    for batch, asked_now in rounds([1000] * 5):
        vault.ask_many(asked_now)
        vault.append(batch)
    return vault


def damaged(place: Path) -> Iterator[tuple[str, Path]]:
    """Copies of a closed vault with two checkpoints: as it is, with the last or both damaged, and with none."""
    files = sorted((place / "checkpoints").iterdir())
    assert len(files) == 2
    for damage in ("none", "last", "both", "gone"):
        copy = place.with_name(damage)
        shutil.copytree(place, copy)
        if damage == "gone":
            shutil.rmtree(copy / "checkpoints")
        elif damage != "none":
            for file in files[0 if damage == "both" else 1 :]:
                (copy / "checkpoints" / file.name).write_bytes(file.read_bytes()[:-1] + b"x")
        yield damage, copy


@pytest.mark.usefixtures("soon")
def test_checkpoints_change_nothing_but_the_time(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = busy(place)
    before, known = states(vault), records(vault)
    lines = [line["kind"] for line in vault.ledger()]
    vault.close()
    assert lines.count("checkpoint") >= 3
    for damage, copy in damaged(place):
        with Vault.open(copy) as vault:
            first = journal(vault).events()[0]
            assert isinstance(first, Condensed) == (damage in ("none", "last"))
            assert states(vault) == before
            assert records(vault) == known != [{}]
            if damage == "none":
                assert len(journal(vault).events()) < 100
            vault.ask_many(questions(5, seed=77))
            assert vault.verify()["entries"] > 100


@pytest.mark.usefixtures("soon")
def test_answers_after_a_checkpoint_are_those_without(tmp_path: Path) -> None:
    """Easy and cached answers come from the state alone: the same from both."""
    place = tmp_path / "vault"
    busy(place).close()
    shutil.copytree(place, tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    with Vault.open(place) as one, Vault.open(tmp_path / "bare") as other:
        for number in range(20):
            query = questions(1, seed=number)[0]
            shares = [mechanism(vault).hypothesis.answer(query) for vault in (one, other)]
            assert shares[0] == shares[1]
            assert one.price(query) == other.price(query)
        assert one.synthesize(50).equals(other.synthesize(50))


def test_a_checkpoint_in_mid_life_leaves_the_run_and_the_price(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(50))
        held = mechanism(vault)
        runs = dict(held._gate._desk.charges.runs)
        before = (held.state, held.spent, held.price(questions(1, 5)[0]))
        held.condense()
        assert (held.state, held.spent, held.price(questions(1, 5)[0])) == before
        assert held._gate._desk.charges.runs == runs
        held.condense()
        assert len(held._gate.history) == 1
    with Vault.open(tmp_path / "vault") as vault:
        held = mechanism(vault)
        assert (held.state, held.spent, held.price(questions(1, 5)[0])) == before


def test_what_a_crash_left_unreplayed_counts_towards_the_next_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that all end in crashes must not make replay longer and longer."""
    monkeypatch.setattr(members, "_REPLAYED", 30 * members._EVENT)  # A session has at most 19 events.
    place = tmp_path / "vault"
    Vault.create(place, SCHEMA, 1000.0, 1e-6, alpha=0.1, beta=BETA, mechanism="pmwg").close()
    for number in range(1, 9):
        vault = Vault.open(place)
        assert vault._members[0].debt < 2
        vault.append(frame(2000 * number, seed=number))
        vault.ask_many(questions(6, seed=number))
        crash(vault)
    with Vault.open(place) as vault:
        assert kinds(vault).count("checkpoint") >= 2


@pytest.mark.usefixtures("soon")
def test_a_checkpoint_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = Vault.create(place, SCHEMA, 1000.0, 1e-6, alpha=0.1, beta=BETA, mechanism="pmwg")
    vault.append(frame(20_000))
    (place / "checkpoints").rmdir()
    assert len(vault.ask_many(questions(30))) == 30
    before = states(vault)
    vault.close()
    with Vault.open(place) as vault:
        assert states(vault) == before
        assert "checkpoint" not in kinds(vault)


def test_a_mechanism_that_was_never_asked_has_no_lines() -> None:
    recovered = recover([], codec_of(SCHEMA), None)
    assert (recovered.events, recovered.lost, recovered.commitments) == ((), (), {})


def test_opening_loads_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    """pandas alone would take longer than opening a vault."""
    place = tmp_path / "vault"
    busy(place).close()
    script = f"""
import sys
from treering.vault.vault import Vault
Vault.open({str(place)!r}).close()
print([name for name in ("pandas", "opendp", "sklearn", "duckdb") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout == "[]\n"


def test_a_run_that_a_crash_ended_is_charged_to_rows_that_came_after_its_lease(tmp_path: Path) -> None:
    """The lease of an append is written with the size before it; the rows that it took in may have met the run."""
    place = tmp_path / "vault"
    vault = guarded(place, rows=20_000)
    vault.ask_many(questions(200, seed=1))
    easy = surely_easy(vault, frame(20_000))
    assert vault.ask(easy).kind == "easy"
    vault.append(frame(500, seed=5))
    assert leased(vault)
    left = mechanism(vault).left(20_500)
    crash(vault)
    with Vault.open(place) as vault:
        assert not mechanism(vault)._gate._desk.charges.runs
        assert mechanism(vault).left(20_500) == left < mechanism(vault).left(20_501)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_checkpoints_of_rings_change_nothing_but_the_time(tmp_path: Path, delta: float) -> None:
    """Whole, damaged, or gone: the state, the account and the next answers are the same."""
    place = tmp_path / "vault"
    with Vault.create(place, SCHEMA, 10.0, delta, mechanism="rings") as vault:
        for number in range(20):
            vault.append(frame(500, seed=number))
            vault.ask_many(questions(2))
        before, told = states(vault), vault.ask_many(questions(2))
        assert kinds(vault).count("checkpoint") >= 3
    for damage, copy in damaged(place):
        with Vault.open(copy) as vault:
            assert isinstance(journal(vault).events()[0], Condensed) == (damage in ("none", "last"))
            assert states(vault) == before
            assert vault.ask_many(questions(2)) == told
            vault.append(frame(100, seed=99))
            vault.ask_many(questions(2))
            assert vault.verify()["size"] == vault.size
