"""Lines of a ledger as plain values: kinds, names, costs and times, by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA, frame, guarded, questions, surely_easy
from treering.budget.promise import Budget, Promise
from treering.trusted.ledger.lines import ROOT, Entry, Line, body, chained
from treering.trusted.ledger.record import Origin, Record
from treering.vault import reader as readers
from treering.vault.reader import Appended, _cost, ledger, stamp
from treering.vault.vault import Vault

PURE, CONCENTRATED = Budget("pure", Fraction(1)), Budget("zcdp", Fraction(1))
COST = {"epsilon": "1/2", "rho": "1/8"}


def entries(*lines: Line) -> list[Entry]:
    made: list[Entry] = []
    for number, line in enumerate(lines, 1):
        made.append(chained(made[-1].hash if made else ROOT, number, 10**6 * number, line))
    return made


def event(name: str, mechanism: int, **fields: Any) -> Line:
    return Line("event", body(v=1, event=name, **fields), mechanism)


LINES = entries(
    Line("created", body(identity="0")),
    Line("mechanism", body(name="first", kind="pmwg")),
    Line("mechanism", body(name="second", kind="pmwg")),
    Line("rows", body(size=7), key="k"),
    event("Measured", 1, size=7, cost=COST),
    event("Reserved", 0, size=7, cost=COST),
    event("Measured", 0, size=7, cost=COST),
    event("Measured", 1, size=7, cost=COST),
    event("ReservationEnded", 0, size=7, refund="1/4"),
    event("Measured", 0, size=7, cost=COST),
    event("Noted", 1, note={"Step": {"x": 1}}),
    event("Noted", 1, note={"a": 1, "b": 2}),
    event("Noted", 1, note="word"),
    event("Other", 1, note={"Step": {}}),
)


@pytest.mark.parametrize(("budget", "each"), [(PURE, 0.5), (CONCENTRATED, 0.125)])
def test_lines_as_plain_values(budget: Budget, each: float) -> None:
    """Within a reservation nothing is charged, because the reservation was; others are charged all the same."""
    plain = list(ledger(LINES, budget))
    assert [(line["kind"], line["mechanism"], line["cost"], line["size"]) for line in plain] == [
        ("created", None, 0.0, None),
        ("mechanism", "first", 0.0, None),
        ("mechanism", "second", 0.0, None),
        ("rows", None, 0.0, 7),
        ("Measured", "second", each, 7),
        ("Reserved", "first", each, 7),
        ("Measured", "first", 0.0, 7),
        ("Measured", "second", each, 7),
        ("ReservationEnded", "first", -0.25, 7),
        ("Measured", "first", each, 7),
        ("Step", "second", 0.0, None),
        ("Noted", "second", 0.0, None),
        ("Noted", "second", 0.0, None),
        ("Other", "second", 0.0, None),
    ]
    assert [line["seq"] for line in plain] == list(range(1, 15))
    assert [line["key"] for line in plain] == [None, None, None, "k", *[None] * 10]
    assert [line["hash"] for line in plain] == [entry.hash.hex() for entry in LINES]
    assert [line["body"] for line in plain] == [entry.line.plain() for entry in LINES]
    assert plain[2]["time"] == "1970-01-01T00:00:03.000+00:00"


def test_what_a_line_costs() -> None:
    assert _cost({"cost": {"epsilon": None, "rho": "1/8"}}, CONCENTRATED) == 0.125
    assert _cost({"cost": None}, PURE) == _cost({}, PURE) == 0.0
    assert _cost({"refund": "1/8", "cost": COST}, PURE) == -0.125


def test_a_time_has_milliseconds() -> None:
    assert stamp(1_700_000_000_123_456) == "2023-11-14T22:13:20.123+00:00"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1,), "epsilon 1, for one row, for ever"),
        ((1, 1e-9), "epsilon 1, delta 1e-09, for one row, for ever (rho 0.01497)"),
        ((1, 0.0, 4), "epsilon 1, for a person with up to 4 rows, for ever: epsilon 0.25 for one row"),
        (
            (1.23456789, 1e-9, 2),
            "epsilon 1.23457, delta 1e-09, for a person with up to 2 rows, for ever: rho 0.005602 for one row",
        ),
    ],
)
def test_a_promise_in_words(given: tuple[Any, ...], words: str) -> None:
    record = Record(Origin("0" * 32, SCHEMA, Promise(*given)), 0, SCHEMA)
    assert readers._promise(record) == words


def test_what_a_reader_sees_of_a_small_vault(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=50) as vault:
        reader = Vault.read(tmp_path / "vault")
        plain = list(reader.ledger())
        assert [line["seq"] for line in plain] == [1, 2, 3]
        assert list(vault.ledger()) == plain
        for after in range(4):
            assert list(reader.ledger(after)) == list(vault.ledger(after)) == plain[after:]
        (batch,) = reader.batches()
        assert isinstance(batch, Appended)
        assert (batch.seq, batch.rows, stamp(round(batch.time * 1e6))) == (3, 50, plain[2]["time"])
        assert reader.batches(2) == vault.batches() == [batch]
        assert reader.batches(3) == []
        assert reader.status() == vault.status()
        head = reader.status()["head"]
        assert head == plain[-1]["hash"]
        found = reader.verify()
        assert found == vault.verify()
        assert (found["entries"], found["batches"], found["parts"], found["size"]) == (3, 1, 0, 50)
        assert found["mechanisms"] == 1
        assert (found["head"], found["head_found"], found["spent"]) == (head, None, 0.0)
        for given in (head, f" {head.upper()}\n", plain[0]["hash"]):
            assert reader.verify(given)["head_found"] is True


@pytest.mark.parametrize("head", ["", "0" * 63, "0" * 65, 7, b"0" * 64])
def test_what_is_no_head(tmp_path: Path, head: Any) -> None:
    with guarded(tmp_path / "vault", rows=0):
        with pytest.raises(tr.ParameterError, match="must be one that status.. showed") as refusal:
            Vault.read(tmp_path / "vault").verify(head)
        assert refusal.value.parameter == "head"
        with pytest.raises(tr.DamagedVault, match="the ledger never had this head"):
            Vault.read(tmp_path / "vault").verify("0" * 64)


def test_the_status_of_an_empty_vault(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", tr.Schema({"a": tr.integers(0, 2)}), 1.5, mechanism=None) as vault:
        status = vault.status()
        assert vault.verify()["size"] == 0
    assert (status["size"], status["batches"], status["dropped"], status["cells"]) == (0, 0, 0, 3)
    assert (status["epsilon"], status["delta"], status["unit"], status["total"]) == (1.5, 0.0, "epsilon", 1.5)
    assert (status["spent"], status["remaining"], status["share_left"], status["mechanisms"]) == (0.0, 1.5, 1.0, [])
    assert [status[name] for name in ("hard_queries", "potential", "guarantee", "epochs", "source")] == [None] * 5
    assert status["entries"] == 1


def test_the_status_sums_over_mechanisms_and_shows_the_first(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=2000, share=0.5) as vault:
        vault.add("continual", 0.25)
        vault.ask_many(questions(3), "pmwg")
        vault.ask("late = 'yes'", "continual")
        status = vault.status()
        spent = [member.mechanism.spent for member in vault._members]
        assert min(spent) > 0
        assert status["spent"] == pytest.approx(sum(spent))
        assert status["remaining"] == pytest.approx(status["total"] - sum(spent))
        assert status["share_left"] == 0.25
        first, second = status["mechanisms"]
        assert [(each["name"], each["kind"], each["share"]) for each in (first, second)] == [
            ("pmwg", "pmwg", 0.5),
            ("continual", "continual", 0.25),
        ]
        for name in ("hard_queries", "potential", "guarantee"):
            assert status[name] == first[name] is not None
        assert Vault.read(tmp_path / "vault").verify()["spent"] == pytest.approx(sum(spent))


# -- verification ------------------------------------------------------------------------------------------------------


def test_a_secret_that_is_not_the_one_promised_is_found(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=2000) as vault:
        vault.ask(surely_easy(vault, frame(2000)))
        (name,) = (name for name in vault._store._ledger.secrets() if name.startswith("run"))
        vault.verify()
        vault._store._ledger._connection.execute("update secrets set value = value || '0' where name = ?", (name,))
        with pytest.raises(tr.DamagedVault, match=f"the secret '{name}' is missing, or not the one"):
            vault.verify()


class Replayed:
    """A mechanism as one of two ways to replay it gives it."""

    def __init__(self, state: int, spent: float) -> None:
        self.state, self.spent = state, spent


@pytest.mark.parametrize(("other", "found"), [((1, 0.5), True), ((2, 0.5), False), ((1, 0.25), False)])
def test_both_ways_to_replay_must_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: tuple[int, float], found: bool
) -> None:
    with guarded(tmp_path / "vault", rows=0, share=0.5) as vault:
        vault.add("continual", 0.5)
    ways = iter([[Replayed(1, 0.5), Replayed(7, 2.0)], [Replayed(*other), Replayed(7, 2.0)]])
    monkeypatch.setattr(readers, "shown", lambda *_: next(ways))
    reader = Vault.read(tmp_path / "vault")
    if found:
        assert reader.verify()["spent"] == 2.5
    else:
        with pytest.raises(tr.DamagedVault, match="a checkpoint of 'pmwg' is not what its lines give"):
            reader.verify()


def test_a_status_never_has_less_than_nothing_left(tmp_path: Path) -> None:
    """Sums of floats may exceed the whole by a little."""
    with guarded(tmp_path / "vault", rows=0) as vault:
        broke: Any = type("Broke", (), {"spent": 2 * vault.total, "describe": lambda _: {"epochs": 3}})()
        status = readers.status(vault._store._record, [broke])
        assert (status["remaining"], status["spent"]) == (0.0, 2 * vault.total)
        assert (status["epochs"], status["guarantee"]) == (3, None)
