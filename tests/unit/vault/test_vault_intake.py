"""What the steward is told of rows that come in; and a batch that is checked, and not taken in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from support.parts import make_often
from treering.trusted.rows.intake import DroppedRows, Intake
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"a": tr.categories("x", "y", other=True), "k": tr.integers(0, 9, missing=True)})
ROWS = pa.table({"a": ["x", "z", "z", "y"], "k": [1, None, 3, 4], "who": ["p", "p", "q", "r"]})


def counts(intake: object) -> tuple[int, int, dict[str, tuple[int, int, int]]]:
    assert isinstance(intake, Intake)
    columns = {name: (each.unlisted, each.missing, each.outside) for name, each in intake.columns.items()}
    return intake.rows, intake.dropped, columns


SAID = (4, 0, {"a": (2, 0, 0), "k": (0, 1, 0)})


@pytest.mark.parametrize("person", [None, "who"])
def test_a_batch_that_is_checked_is_not_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, person: str | None
) -> None:
    make_often(monkeypatch, large=2)  # A file, if it were taken in.
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None, person=person, rows_per_person=2) as vault:
        assert vault.intake is None
        before = vault.status()["head"]
        assert counts(vault.check(ROWS)) == SAID
        assert vault.intake is None
        assert (vault.size, vault.status()["head"], list((tmp_path / "vault" / "parts").iterdir())) == (0, before, [])
        assert vault.append(ROWS) == 4
        assert counts(vault.intake) == SAID
        vault.append(ROWS.slice(3))
        assert counts(vault.intake) == (1, 0, {"a": (0, 0, 0), "k": (0, 0, 0)})
        assert "Intake" not in repr(vault)


def test_a_check_refuses_what_an_append_would(tmp_path: Path) -> None:
    bad = pa.table({"a": ["x", "y"], "k": [1, 99], "who": ["p", "p"]})
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None, person="who", rows_per_person=2) as vault:
        for use in (vault.check, vault.append):
            with pytest.raises(tr.DataError, match="row 1, column 'k'"):
                use(bad)
        assert counts(vault.check(bad, "drop"))[:2] == (1, 1)
        with pytest.warns(DroppedRows):
            vault.append(bad, "drop")
        assert counts(vault.intake)[:2] == (1, 1)
        more = pa.table({"a": ["x"] * 2, "k": [1, 1], "who": ["p", "p"]})
        for use in (vault.check, vault.append):
            with pytest.raises(tr.DataError, match="row 1: its person has 2 rows already"):
                use(more)
        for _ in range(2):  # A check counts no rows of a person.
            vault.check(more.slice(1))
        assert vault.append(more.slice(1)) == 2
        unknown: Any = "ignore"
        with pytest.raises(tr.ParameterError, match="on_invalid"):
            vault.check(more, unknown)


def test_a_key_that_comes_again_is_for_the_rows_that_were_read_also_beyond_a_limit(tmp_path: Path) -> None:
    rows = pa.table({"a": ["x"] * 4, "k": [1, 2, 3, 4], "who": ["p", "p", "p", "q"]})
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None, person="who", rows_per_person=2) as vault:
        with pytest.warns(DroppedRows):
            assert vault.append(rows, "drop", key="one") == 3
        assert vault.append(rows, "drop", key="one") == vault.append(rows, key="one") == vault.size == 3
        for other in (rows.slice(1), rows.take([1, 0, 2, 3]), pa.concat_tables([rows, rows.slice(3)])):
            with pytest.raises(tr.KeyUsed):
                vault.append(other, "drop", key="one")
