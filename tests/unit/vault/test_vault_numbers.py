"""The numbers that this package names: formats of files, defaults, and times that were measured.

What old files mean depends on them, and what people get who say nothing. Whoever changes one of them does it twice,
here too, and on purpose.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from inspect import signature
from typing import Any, Final

import pytest

from treering.trusted.ledger.lines import Line
from treering.trusted.ledger.record import Record
from treering.vault.reader import VaultReader
from treering.vault.vault import Vault

NUMBERS: Final[dict[str, dict[str, Any]]] = {
    "trusted.ledger.codec.fields": {"_REMEMBERED": 1024},
    "trusted.ledger.codec.queries": {
        "_REMEMBERED": 4_194_304,
        "_OVERHEAD": 64,
    },
    "trusted.ledger.codec.axes": {"_READABLE": 64},
    "trusted.ledger.codec.numbers": {
        "_DECIMAL_BITS": 4096,
        "_NAN_BITS": 2047 * (1 << 52) + (1 << 51),
        "_LISTED": 64,
        "_MOST_BYTES": 1 << 40,
        "_FAST": 1,
    },
    "trusted.ledger.folder": {"_PAUSE": 0.02},
    "trusted.ledger.journal": {"FIRST_LEASE": 1024},
    "vault.kinds": {"EXPECTED_ROWS": 1_000_000, "LEAST_KEPT": Fraction(1, 100)},
    "trusted.ledger.ledger": {"APPLICATION": int.from_bytes(b"tree", "big")},
    "vault.together": {"DELAY": 0.0003, "POLL": 0.05},
    "vault.beginning": {"DEFAULT_ALPHA": 0.05},
    "vault.vault": {"WAIT": 10.0},
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NUMBERS.items() for name in names])
def test_a_number_is_what_it_was(module: str, name: str) -> None:
    found, expected = getattr(import_module(f"treering.{module}"), name), NUMBERS[module][name]
    assert type(found) is type(expected)
    assert found == expected


def _defaults(function: Any) -> dict[str, Any]:
    parameters = signature(function).parameters.items()
    return {name: each.default for name, each in parameters if each.default is not each.empty}


def test_what_a_vault_is_if_nothing_is_said() -> None:
    assert _defaults(Vault.create) == {
        "schema": None,
        "epsilon": None,
        "delta": 0.0,
        "alpha": None,
        "beta": 0.05,
        "mechanism": "auto",
        "share": 1.0,
        "rows_per_person": 1,
        "person": None,
        "name": None,
        "key": None,
        "rows": 1_000_000,
        "discoveries": False,
        "draft": None,
        "table": None,
        "order": "id",
        "wait": 10.0,
    }
    assert _defaults(Vault.open) == {"wait": 10.0, "table": None}
    assert _defaults(Vault.model) == {"mechanism": None, "update": True, "progress": None}


@pytest.mark.parametrize("function", [Vault.ledger, Vault.batches, VaultReader.ledger, VaultReader.batches])
def test_the_record_is_read_from_its_beginning(function: Any) -> None:
    assert _defaults(function) == {"after": 0}


def test_a_line_is_about_no_mechanism_and_a_record_begins_empty() -> None:
    assert Line("kind", "{}").mechanism == -1
    assert signature(Record).parameters["seq"].default == 0
