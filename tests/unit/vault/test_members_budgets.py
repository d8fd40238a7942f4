"""A mechanism is a public program: what it asks for is no more than its share on record, whatever its code says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA, frame
from treering.budget.promise import Budget, Promise
from treering.errors import Halted, ParameterError
from treering.mechanisms.base import Mechanism
from treering.trusted.ledger.shares import Spec
from treering.vault import kinds, members
from treering.vault.vault import Vault


def opened(tmp_path: Path) -> Vault:
    vault = Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6, share=0.5)
    vault.append(frame(500))
    return vault


def greedy(own: Any, db: Any, promise: Promise) -> None:
    """`Mechanism.__init__` with one changed line: 100 times its share."""
    own._promise = promise
    own._gate = db.open_gate(Budget(promise.budget.kind, 100 * promise.budget.total))
    own._torn = False


def twice(own: Any, db: Any, promise: Promise) -> None:
    """`Mechanism.__init__` that opens a second gate, to spend its share twice."""
    own._promise, own._torn = promise, False
    own._gate, own._other = db.open_gate(promise.budget), db.open_gate(promise.budget)


@pytest.mark.parametrize(("broken", "message"), [(greedy, "its share on record"), (twice, "is open already")])
def test_a_mechanism_that_asks_for_more_than_its_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, message: str
) -> None:
    opened(tmp_path).close()
    monkeypatch.setattr(Mechanism, "__init__", broken)
    with pytest.raises(ParameterError, match=message):
        Vault.open(tmp_path / "vault")
    monkeypatch.undo()
    Vault.open(tmp_path / "vault").close()


def test_a_specification_that_hands_out_more_than_its_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    build = kinds.build

    def generous(spec: Spec, db: Any, promise: Promise) -> Any:
        return build(replace(spec, share=2 * spec.share), db, promise)

    monkeypatch.setattr(members, "build", generous)
    with pytest.raises(ParameterError, match="its share on record"):
        Vault.open(tmp_path / "vault")


def test_a_mechanism_whose_share_was_lowered_is_retired(tmp_path: Path) -> None:
    with opened(tmp_path) as vault:
        old: Any = vault._members[0].mechanism
        vault.add("continual", 0.8)
        with pytest.raises(Halted, match="was lowered"):
            old.ask(tr.parse("late = 'yes'", SCHEMA))
        vault.ask("late = 'yes'", mechanism="rings")
