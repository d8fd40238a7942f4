"""Vaults that version 0.1.0 wrote (tests/fixtures/README.md): they open, say the same, and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

import treering as tr
from support.repository import ROOT

FIXTURES: Final = ROOT / "tests" / "fixtures"
RECORD: Final[dict[str, dict[str, Any]]] = json.loads((FIXTURES / "vault-0.1.0.json").read_text())
CLOSED: Final = ("persons", "pure", "table")
"""Those that were closed: opening them has nothing to add."""

REWORDED: Final = {"promise", "guarantee", "excess_risk_bound"}
"""What a status says in words, and bounds that a later theorem may better."""

FLIGHT: Final = {"origin": "JFK", "month": 2, "delay": 20.0, "late": True}
MINUTE: Final = {"minute": 7, "late": "yes"}


def copy_of(name: str, place: Path) -> Path:
    """A copy, with the modes that a vault must have and Git does not keep."""
    shutil.copytree(FIXTURES / "vault-0.1.0" / name, place)
    for each in (place, *place.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)
    return place


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value))


def lasting(status: Any, *but: str) -> Any:
    """What a status must say in every version."""
    if isinstance(status, dict):
        return {name: lasting(each) for name, each in status.items() if name not in REWORDED and name not in but}
    return [lasting(each) for each in status] if isinstance(status, list) else status


def check_free(vault: tr.Vault, said: dict[str, Any]) -> None:
    """All that costs nothing is the same, bit for bit; but for margins, of which 0.1.0 knew nothing."""
    before = vault.spent
    for each in said["answers"]:
        answers = vault.ask_many(each["queries"], each["mechanism"], each["key"])
        assert [[a.value, a.error, a.size, a.kind] for a in answers] == each["answers"], each
        assert all(0 <= answer.margin <= answer.error for answer in answers)
        assert each["key"] is None or answers == [tr.Answer(*answer) for answer in each["answers"]]
    assert {name: vault.price(_asked(said, name), name) for name in said["prices"]} == said["prices"]
    assert {name: vault.synthesize(20, name).to_pydict() for name in said["synthetic"]} == said["synthetic"]
    assert {name: list(vault.model(name, update=False).theta) for name in said["models"]} == said["models"]
    assert vault.spent == before


def _asked(said: dict[str, Any], mechanism: str) -> str:
    """The first question of the last ones that a mechanism was asked."""
    return str(next(each["queries"][0] for each in reversed(said["answers"]) if each["mechanism"] == mechanism))


# -- as it is ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORD)
def test_a_reader_finds_what_was_written(name: str, tmp_path: Path) -> None:
    said, reader = RECORD[name], tr.Vault.read(copy_of(name, tmp_path / name))
    assert lasting(plain(reader.status())) == lasting(said["status"])
    assert reader.verify() == said["verify"]
    assert reader.verify(said["status"]["head"])["head_found"]
    found = [[line[part] for part in ("kind", "mechanism", "cost", "size", "key")] for line in reader.ledger()]
    assert found == said["ledger"]


@pytest.mark.parametrize("name", CLOSED)
def test_a_writer_finds_what_was_written_and_adds_nothing(name: str, tmp_path: Path) -> None:
    said, place = RECORD[name], copy_of(name, tmp_path / name)
    for _ in range(2):
        with tr.Vault.open(place) as vault:
            assert (vault.size, vault.spent) == (said["status"]["size"], said["status"]["spent"])
            check_free(vault, said)
            assert lasting(plain(vault.status())) == lasting(said["status"])
            assert vault.verify() == said["verify"]


def test_a_lease_that_nobody_gave_back_is_counted_and_ends_its_run(tmp_path: Path) -> None:
    said, place = RECORD["killed"], copy_of("killed", tmp_path / "killed")
    lines = said["status"]["entries"]
    with tr.Vault.open(place) as vault:
        check_free(vault, said)
        assert lasting(plain(vault.status()), "entries", "head") == lasting(said["status"], "entries", "head")
        *_, lease, counted, last = vault.ledger()
        assert (lease["kind"], counted["kind"], last["kind"]) == ("lease", "Compared", "RunEnded")
        assert counted["body"]["asked"] == lease["body"]["asked"] == 1024
        assert (last["cost"], last["body"]["run"], last["seq"]) == (0.0, lease["body"]["run"], lines + 2)
        assert vault.verify(said["status"]["head"])["head_found"]
    with tr.Vault.open(place) as vault:
        assert vault.status()["entries"] == lines + 2


def test_neither_checkpoints_nor_bases_are_needed(tmp_path: Path) -> None:
    said, place = RECORD["persons"], copy_of("persons", tmp_path / "persons")
    for convenience in ("checkpoints", "bases"):
        assert list((place / convenience).iterdir())
        shutil.rmtree(place / convenience)
    with tr.Vault.open(place) as vault:
        check_free(vault, said)
        assert lasting(plain(vault.status())) == lasting(said["status"])
        assert vault.verify() == said["verify"]


# -- and on ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("persons", [{**FLIGHT, "who": f"new {number // 40}"} for number in range(200)]),
        ("pure", [MINUTE] * 200),
        ("killed", [MINUTE] * 200),
    ],
)
def test_it_goes_on(name: str, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    said, place = RECORD[name], copy_of(name, tmp_path / name)
    size = said["status"]["size"] + len(rows)
    names = [each["name"] for each in said["status"]["mechanisms"] if each["kind"] != "ermg"]
    with tr.Vault.open(place) as vault:
        assert vault.append(rows, key="more") == size
        asked = {each: vault.ask(_asked(said, each), each, key=f"more of {each}") for each in names}
        assert {answer.size for answer in asked.values()} == {size}
        models = {each: vault.model(each).theta for each in said["models"]}
        spent = vault.spent
        assert spent >= said["status"]["spent"]
    with tr.Vault.open(place) as vault:
        assert vault.append(rows, key="more") == vault.size == size
        assert {each: vault.ask(_asked(said, each), each, key=f"more of {each}") for each in names} == asked
        assert {each: vault.model(each, update=False).theta for each in said["models"]} == models
        assert vault.spent == spent
        found = vault.verify(said["status"]["head"])
        assert (found["size"], found["head_found"]) == (size, True)
        assert found["spent"] == pytest.approx(spent)


def test_keys_of_rows_still_stand_for_them(tmp_path: Path) -> None:
    with tr.Vault.open(copy_of("pure", tmp_path / "pure")) as vault:
        assert [vault.append([MINUTE], key=f"rows {number}") for number in (0, 1, 11)] == [800, 805, 855]
        assert vault.size == 855


def test_persons_are_still_known(tmp_path: Path) -> None:
    """One of a part that a base stands for, and one of a later part: both had 40 rows."""
    with tr.Vault.open(copy_of("persons", tmp_path / "persons")) as vault:
        for who in ("0-0", "5-0"):
            with pytest.raises(tr.DataError, match="its person has 40 rows"):
                vault.append([{**FLIGHT, "who": who}])
        assert vault.append([{**FLIGHT, "who": "6-0"}]) == 1161


def test_a_table_that_is_gone_is_asked_for(tmp_path: Path) -> None:
    with tr.Vault.open(copy_of("table", tmp_path / "table")) as vault:
        with pytest.raises(tr.VaultError, match="no address"):
            vault.refresh()
        with pytest.raises(tr.VaultError, match="stay in their own engine"):
            vault.append([MINUTE])


# -- not as it was -----------------------------------------------------------------------------------------------------


def refused(place: Path, match: str) -> None:
    with pytest.raises(tr.DamagedVault, match=match):
        tr.Vault.open(place)
    with pytest.raises(tr.DamagedVault, match=match):
        tr.Vault.read(place).verify()


@pytest.mark.parametrize("name", CLOSED)
def test_a_changed_byte_of_the_ledger_is_refused(name: str, tmp_path: Path) -> None:
    place = copy_of(name, tmp_path / name)
    content = (place / "ledger.sqlite").read_bytes()
    assert content.count(b'"size":') > 2
    (place / "ledger.sqlite").write_bytes(content.replace(b'"size":', b'"site":', 1))
    refused(place, "is not what was written")


def test_a_changed_byte_of_the_last_part_is_refused(tmp_path: Path) -> None:
    place = copy_of("pure", tmp_path / "pure")
    part = max((place / "parts").iterdir())
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    refused(place, "00000012.parquet is missing, or not what was written")


def test_a_file_that_is_not_the_one_recorded_would_be_seen(tmp_path: Path) -> None:
    """Another vault in the place of this one says something else: what is compared above tells vaults apart."""
    said, reader = RECORD["persons"], tr.Vault.read(copy_of("pure", tmp_path / "pure"))
    assert lasting(plain(reader.status())) != lasting(said["status"])
    with pytest.raises(tr.DamagedVault, match="never had this head"):
        reader.verify(said["status"]["head"])
