"""A key for rows: the same rows are taken in once, and other rows are refused, in whatever form they come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from treering.errors import KeyUsed
from treering.vault.vault import Taken

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "delay": tr.numbers(0, 100)})
ROWS = [{"late": ("no", "yes")[row % 3 == 0], "delay": float(row % 90)} for row in range(500)]


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[tr.Vault]:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as opened:
        yield opened


def forms(place: Path) -> Iterator[Any]:
    table = pa.Table.from_pylist(ROWS)
    yield ROWS
    yield table
    yield table.to_pandas()
    pq.write_table(table, place / "rows.parquet", row_group_size=77)
    yield place / "rows.parquet"
    (place / "rows.csv").write_text("delay,late\n" + "".join(f"{row['delay']},{row['late']}\n" for row in ROWS))
    yield tr.RowFile(place / "rows.csv")


def test_the_same_rows_are_known_in_every_form(vault: tr.Vault, tmp_path: Path) -> None:
    assert vault.take_in(ROWS, key="k") == Taken(500, 500, 0, known=False)
    vault.append(ROWS[:10])
    for form in forms(tmp_path):
        assert vault.take_in(form, key="k") == Taken(500, 500, 0, known=True)
    assert vault.size == 510
    vault.close()
    with tr.Vault.open(tmp_path / "v") as again:
        assert again.append(ROWS, key="k") == 500
        with pytest.raises(KeyUsed):
            again.append(ROWS[:-1], key="k")
        again.verify()


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:-1],
        [*ROWS, ROWS[0]],
        ROWS[::-1],
        [{**ROWS[0], "late": "no"}, *ROWS[1:]],
        [{**ROWS[0], "delay": 1.5}, *ROWS[1:]],
        [],
    ],
)
def test_other_rows_are_refused(vault: tr.Vault, other: list[dict[str, Any]]) -> None:
    """Also those that differ in a sum alone, or in their order alone."""
    vault.append(ROWS, key="k")
    before = vault.status()
    with pytest.raises(KeyUsed, match="'k' was used for something else: use a new key for other rows"):
        vault.append(other, key="k")
    assert vault.status() == before


def test_rows_that_were_left_out_count_as_such(vault: tr.Vault) -> None:
    mixed = [*ROWS, {"late": "perhaps", "delay": 1.0}]
    with pytest.warns(tr.DroppedRows):
        assert vault.take_in(mixed, "drop", "k") == Taken(500, 500, 1, known=False)
    assert vault.take_in(mixed, "drop", "k") == Taken(500, 500, 1, known=True)
    with pytest.raises(KeyUsed):
        vault.append(ROWS, "drop", "k")


def test_persons_are_compared_and_their_limit_is_not_in_the_way(tmp_path: Path) -> None:
    whose = [{**row, "who": place} for place, row in enumerate(ROWS[:20])]
    with tr.Vault.create(tmp_path / "p", SCHEMA, epsilon=1.0, delta=1e-9, person="who") as vault:
        assert vault.append(whose, key="k") == 20
        assert vault.take_in(whose, key="k") == Taken(20, 20, 0, known=True)
        with pytest.raises(KeyUsed):
            vault.append([{**row, "who": 100 + place} for place, row in enumerate(whose)], key="k")


def test_the_digest_is_no_public_value(vault: tr.Vault) -> None:
    """The line is the same as without a digest; what is kept is keyed by the part's secret salt."""
    vault.append([ROWS[0]], key="k")
    (line,) = [each for each in vault.ledger() if each["kind"] == "rows"]
    assert set(line["body"]) == {"number", "rows", "size", "dropped"}
    rows, read, blob = json.loads(vault._store._ledger.secrets()["rows 1"].value)
    assert (len(rows), len(blob)) == (128, 64)
    assert rows == read
    assert not any(secret in str(list(vault.ledger())) for secret in (rows, blob))
