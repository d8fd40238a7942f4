"""Discoveries in a vault: found, paid for by the rows that were looked at, kept, and listed by a refinement."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from treering.errors import BudgetExceeded, KeyUsed, ParameterError, SchemaError
from treering.vault.discovering import part_of

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", other=True, missing=True),
        "unit": tr.categories(1, 2, other=True),
        "well": tr.categories(False, True, missing=True),
        "sex": tr.categories("f", "m"),
        "age": tr.integers(0, 99),
    }
)


def rows(wards: dict[str | None, int]) -> list[dict[str, Any]]:
    return [
        {"ward": ward, "unit": 7, "well": True, "sex": "f", "age": 30}
        for ward, many in wards.items()
        for _ in range(many)
    ]


FIRST = rows({"north": 300, "tele": 900, "hospice": 700, None: 500, **{f"alone {each}": 1 for each in range(100)}})


def made(place: Path, **options: Any) -> tr.Vault:
    given = {"epsilon": 1.0, "delta": 1e-6, "discoveries": True, **options}
    vault = tr.Vault.create(place / "clinic", SCHEMA, **given)
    vault.append(FIRST)
    return vault


def test_values_of_many_rows_are_found_and_others_are_not(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        found = vault.discover("ward", 0.2)
        assert found.schema.names == ["value", "count", "margin"]
        assert found["value"].to_pylist() == ["hospice", "tele"]
        for count, margin, exact in zip(
            found["count"].to_pylist(), found["margin"].to_pylist(), (700, 900), strict=True
        ):
            assert margin == 28  # at a fifth of the budget
            assert abs(count - exact) <= 4 * margin
        assert vault.discover("unit", 0.2)["value"].to_pylist() == [7]


def test_the_price_is_the_share_and_the_rows_that_are_looked_at_pay_it(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        vault.ask("ward = 'north'")
        before, size, total = vault.left(1), vault.size, vault.total
        vault.append(rows({"tele": 2000, "south": 1}))
        vault.ask("ward = 'north'")
        found = vault.discover("ward", 0.2, rows=(size, vault.size))
        assert found["value"].to_pylist() == ["tele"]
        assert vault.left(1) == before
        assert vault.left(size + 1) == pytest.approx(before - 0.2 * total, rel=1e-9)
        assert vault.left(size + 1) >= before - 0.2 * total * (1 + 1e-12)
        assert vault.left(vault.size + 1) == total


def test_a_key_pays_once(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        found, left = vault.discover("ward", 0.2, key="first"), vault.left(1)
        assert vault.discover("ward", 0.2, key="first") == found
        with pytest.raises(KeyUsed):
            vault.discover("unit", 0.2, key="first")
        vault.close()
    with tr.Vault.open(tmp_path / "clinic") as vault:
        assert (vault.discover("ward", 0.2, key="first"), vault.left(1)) == (found, left)
        assert vault.verify()["entries"] > 0


def test_what_was_found_stays_and_can_be_listed(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        vault.ask("sex = 'f'")
        vault.discover("ward", 0.2)
        known, spent = vault.discovered("ward"), vault.spent
    with tr.Vault.open(tmp_path / "clinic") as vault:
        assert (vault.discovered("ward"), vault.spent) == (known, spent)
        for member in vault._members:
            member.mechanism.condense()
    with tr.Vault.open(tmp_path / "clinic") as vault:
        assert (vault.discovered("ward"), vault.spent) == (known, spent)
        vault.refine(add={"ward": known["value"].to_pylist()})
        assert vault.discovered("ward").num_rows == 0
        answer = vault.ask("ward = 'tele'")
        assert abs(answer.count - 900) <= answer.count_error
        assert vault.discover("ward", 0.2).num_rows == 0
        assert tr.Vault.read(tmp_path / "clinic").status()["spent"] == vault.status()["spent"]
        vault.verify()


def test_a_row_can_be_looked_at_ten_times(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        for _ in range(10):
            vault.discover("ward", 0.02)
        with pytest.raises(ParameterError, match="what these rows have left of the part of delta"):
            vault.discover("ward", 0.02)
        size = vault.size
        vault.append(rows({"new": 3000}))
        assert vault.discover("ward", 0.02, rows=(size, vault.size))["value"].to_pylist() == ["new"]


def test_what_is_found_leaves_room_for_the_series_that_are_open(tmp_path: Path) -> None:
    """Rows that paid for a discovery, and not yet for the newest of a series, can still pay when shares are lowered."""
    with made(tmp_path) as vault:
        vault.ask("ward = 'north'")
        vault.append(rows({"tele": 1000}))
        vault.discover("ward", 0.3)
        vault.add("continual", 0.6)
        assert vault.ask("ward = 'north'", mechanism="rings").size == vault.size


def test_a_promise_with_discoveries_has_a_smaller_rho() -> None:
    plain, less = tr.Promise(1.0, 1e-6), tr.Promise(1.0, 1e-6, aside=Fraction(1, 10))
    assert less.failure == Fraction(1, 10**7)
    assert less.budget == tr.Promise(1.0, Fraction(9, 10**7)).budget
    assert 0.98 < less.budget.total / plain.budget.total < 1


@pytest.mark.parametrize(("given", "part"), [(True, Fraction(1, 10)), (False, 0), (0.25, 0.25)])
def test_the_part_of_delta_that_is_set_aside(given: Any, part: Any) -> None:
    assert part_of(given) == part


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_rejects_delta_without_a_part_and_says_what_would_do(tmp_path: Path) -> None:
    with made(tmp_path, discoveries=False) as vault, pytest.raises(ParameterError, match="discoveries=True"):
        vault.discover("ward")


@pytest.mark.parametrize("options", [{"delta": 0.0}, {"rows_per_person": 2}, {"discoveries": 1.5}])
def test_rejects_aside_of_a_promise_that_cannot_have_it(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="aside"):
        made(tmp_path, **options)


@pytest.mark.parametrize("column", ["sex", "well", "age", "place"])
def test_rejects_column_of_which_nothing_can_be_discovered(tmp_path: Path, column: str) -> None:
    with made(tmp_path) as vault, pytest.raises(SchemaError):
        vault.discover(column)


@pytest.mark.parametrize("share", [0.0, 1.5, 1e-9])
def test_rejects_share_that_cannot_be(tmp_path: Path, share: float) -> None:
    with made(tmp_path) as vault, pytest.raises(ParameterError, match="share"):
        vault.discover("ward", share)


@pytest.mark.parametrize("rows", [(-1, 10), (5, 5), (0, 10**6)])
def test_rejects_rows_that_are_none(tmp_path: Path, rows: tuple[int, int]) -> None:
    with made(tmp_path) as vault, pytest.raises(ParameterError, match="rows"):
        vault.discover("ward", rows=rows)


def test_rejects_rows_of_an_empty_vault(tmp_path: Path) -> None:
    with (
        tr.Vault.create(tmp_path / "clinic", SCHEMA, epsilon=1.0, delta=1e-6, discoveries=True) as vault,
        pytest.raises(ParameterError, match="rows"),
    ):
        vault.discover("ward")


def test_rejects_mechanism_that_discovers_nothing(tmp_path: Path) -> None:
    with made(tmp_path, mechanism="continual") as vault, pytest.raises(ParameterError, match="rings"):
        vault.discover("ward")


def test_rejects_a_price_that_rows_cannot_pay(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        vault.discover("ward", 0.9)
        spent = vault.spent
        with pytest.raises(BudgetExceeded):
            vault.discover("ward", 0.2)
        assert vault.spent == spent


def test_an_error_shows_no_value(tmp_path: Path) -> None:
    with made(tmp_path) as vault, pytest.raises(ParameterError) as error:
        vault.discover("ward", 1e-9)
    assert not any(word in str(error.value) for word in ("tele", "hospice", "alone"))


def test_what_is_found_is_an_arrow_table(tmp_path: Path) -> None:
    with made(tmp_path) as vault:
        found = vault.discover("unit", 0.2)
    assert found.schema.types == [pa.int64(), pa.int64(), pa.int64()]
