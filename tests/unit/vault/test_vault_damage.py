"""A vault that is not what was written: found by verify, refused at opening, and said in words."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import treering as tr
from support.parts import flip
from support.vaults import SCHEMA, crash, frame, full, guarded, kinds, mechanism, questions, states
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.folder import Folder
from treering.trusted.rows import spool
from treering.vault import members
from treering.vault.vault import Vault


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with everything in it: an open run, keys, persons, a tree, epochs, checkpoints, two parts and a tail."""
    place = tmp_path_factory.mktemp("original") / "vault"
    patch = pytest.MonkeyPatch()
    patch.setattr(members, "_REPLAYED", 4 * members._EVENT)
    vault = Vault.create(place, SCHEMA, 1000.0, 1e-6, mechanism=None, rows_per_person=50, person="who")
    vault.add("pmwg", 0.5, alpha=0.2, beta=1e-9, measure_first=False)
    vault.add("pmwg", 0.2, alpha=0.2, beta=1e-9, name="measured")
    vault.add("continual", 0.1)
    vault.add("scheduler", 0.1)
    for number in range(3):
        patch.setattr(spool, "LARGE", 20_000 if number < 2 else 2**15)
        rows = frame(20_000, seed=number).to_pandas()
        vault.append(rows.assign(who=[f"{number} {index // 40}" for index in range(20_000)]), key=f"rows {number}")
        for name in ("pmwg", "measured", "continual", "scheduler"):
            vault.ask_many(questions(12, seed=number), name, key=f"{name} {number}")
    vault.close()
    patch.undo()
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "vault"))


def sql(place: Path, text: str, *bindings: Any) -> list[Any]:
    """Change the ledger behind the vault's back."""
    connection = apsw.Connection(str(place / "ledger.sqlite"))
    try:
        return list(connection.execute(text, bindings))
    finally:
        connection.close()


def refused(place: Path, match: str, kind: type[Exception] = tr.DamagedVault) -> None:
    """By everything that looks at it; and looking changes nothing."""
    before = (place / "ledger.sqlite").read_bytes()
    for use in (
        lambda: Vault.open(place),
        lambda: Vault.read(place).verify(),
    ):
        with pytest.raises(kind, match=match):
            use()
    assert (place / "ledger.sqlite").read_bytes() == before


SEALED = ("rows 1", "rows 2")
"""The secrets of batches that lie in parts: opening does not need them."""


def found(place: Path, match: str) -> None:
    """By verify, and not at opening, which reads of a part the footer only."""
    Vault.open(place).close()
    with pytest.raises(tr.DamagedVault, match=match):
        Vault.read(place).verify()


def test_the_original_is_whole(place: Path) -> None:
    with Vault.open(place) as vault:
        found = vault.verify()
        assert set(kinds(vault)) >= {"created", "mechanism", "rows", "answers", "lease", "checkpoint", "RunStarted"}
        assert found["spent"] == pytest.approx(vault.spent)
        assert (found["size"], found["batches"], found["parts"], found["mechanisms"]) == (60_000, 3, 2, 4)
    assert len(list((place / "checkpoints").iterdir())) == 4
    names = [row[0] for row in sql(place, "select name from secrets order by name")]
    assert [name for name in names if not name.startswith("run")] == [
        *("part 1", "part 2", "persons", "rows 1", "rows 2", "rows 3"),
    ]
    assert sql(place, "select number from tail") == [(3,)]


# -- one bit -----------------------------------------------------------------------------------------------------------

COLUMNS = ("seq", "time", "kind", "mechanism", "body", "key", "commitment", "hash")


def flipped(value: Any, place: int) -> Any:
    if isinstance(value, int):
        return value ^ (1 << 40)
    raw = bytearray(value if isinstance(value, bytes) else value.encode())
    raw[place % len(raw)] ^= 1
    return bytes(raw) if isinstance(value, bytes) else raw.decode()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_flipped_bit_in_any_column_of_any_kind_of_line(original: Path, tmp_path: Path, column: str) -> None:
    lines = sql(original, f"select min(seq), kind, {column} from ledger where {column} != '' group by kind")
    assert lines
    for seq, kind, value in lines:
        copy = Path(shutil.copytree(original, tmp_path / f"{kind}"))
        sql(copy, f"update ledger set {column} = ? where seq = ?", flipped(value, seq), seq)
        refused(copy, "the ledger is damaged: line")
        with pytest.raises(tr.DamagedVault, match="the ledger is damaged: line"):
            Vault.read(copy).status()
        with pytest.raises(tr.DamagedVault, match="the ledger is damaged: line"):
            list(Vault.read(copy).ledger())


@pytest.mark.parametrize("column", ["salt", "value"])
def test_a_flipped_bit_in_any_secret(original: Path, tmp_path: Path, column: str) -> None:
    names = sql(original, f"select name, {column} from secrets where {column} != ''")
    runs = [name for name, _ in names if name.startswith("run")]
    assert runs
    for number, (name, value) in enumerate(names):
        copy = Path(shutil.copytree(original, tmp_path / str(number)))
        sql(copy, f"update secrets set {column} = ? where name = ?", flipped(value, 1), name)
        (found if name in SEALED else refused)(copy, "is missing, or not")


def test_a_secret_that_is_gone(original: Path, tmp_path: Path) -> None:
    for number, (name,) in enumerate(sql(original, "select name from secrets")):
        copy = Path(shutil.copytree(original, tmp_path / str(number)))
        sql(copy, "delete from secrets where name = ?", name)
        (found if name in SEALED else refused)(copy, "is missing, or not")


def test_a_flipped_bit_in_a_part(place: Path) -> None:
    files = sorted((place / "parts").iterdir())
    assert len(files) == 2
    for file in files:
        whole = file.read_bytes()
        flip(file, 1 / 3)
        found(place, f"part {file.name} is missing, or not what was written")
        for wrong in (whole[:-1], whole + b"x", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], b"rows", b""):
            file.write_bytes(wrong)
            refused(place, f"part {file.name} is missing, or not what was written")
        file.unlink()
        refused(place, f"part {file.name} is missing, or not what was written")
        file.write_bytes(whole)
    Vault.open(place).close()


def test_a_flipped_bit_in_the_tail(place: Path) -> None:
    ((content,),) = sql(place, "select content from tail")
    for where in (0, len(content) // 2, len(content) - 1):
        wrong = bytearray(content)
        wrong[where] ^= 1
        sql(place, "update tail set content = ?", bytes(wrong))
        refused(place, "batch 3 in the ledger is missing, or not what was written")
    sql(place, "delete from tail")
    refused(place, "batch 3 in the ledger is missing, or not what was written")
    sql(place, "insert into tail values (3, ?)", content)
    sql(place, "insert into tail values (2, ?)", content)
    refused(place, "batch 2 lies in the ledger, and not on record")
    sql(place, "delete from tail where number = 2")
    Vault.open(place).close()


def test_a_damaged_checkpoint_is_passed_over(place: Path) -> None:
    with Vault.open(place) as vault:
        before = states(vault)
    for file in (place / "checkpoints").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content))
    assert Vault.read(place).verify()["size"] == 60_000
    with Vault.open(place) as vault:
        assert states(vault) == before


def test_a_checkpoint_that_lies_consistently_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was written wrong, with its hash: replay from the first line gives something else."""
    with Vault.open(place) as vault:
        engine = mechanism(vault, 1)._engine
        monkeypatch.setattr(engine.hypothesis, "_even", 0.25)
        mechanism(vault, 1).condense()
        monkeypatch.undo()
        with pytest.raises(tr.DamagedVault, match="checkpoint of 'measured' is not what its lines give"):
            vault.verify()
    shutil.rmtree(place / "checkpoints")
    assert Vault.read(place).verify()["size"] == 60_000


@pytest.mark.parametrize("where", [0.0001, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_in_the_file_is_refused_or_harmless(place: Path, where: float, bit: int) -> None:
    """Anywhere in the database file: what opens is what was written."""
    file = place / "ledger.sqlite"
    with Vault.open(place) as vault:
        before = states(vault), vault.status()["head"]
    original = file.read_bytes()
    refusals = 0
    for step in range(12):
        content = bytearray(original)
        content[(int(where * len(content)) + 397 * step) % len(content)] ^= 1 << bit
        file.write_bytes(bytes(content))
        try:
            with Vault.open(place) as vault:
                assert (states(vault), vault.status()["head"]) == before
        except tr.VaultError:
            refusals += 1
        for left in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
            (place / left).unlink(missing_ok=True)
    if where > 0.1:
        assert refusals >= 6


# -- set back ----------------------------------------------------------------------------------------------------------


def test_a_ledger_that_was_cut_short_is_found_by_a_noted_head(place: Path) -> None:
    head = Vault.read(place).status()["head"]
    assert Vault.read(place).verify(head.upper() + "\n")["head_found"] is True
    sql(place, "delete from ledger where seq = (select max(seq) from ledger)")
    assert Vault.read(place).verify()["head_found"] is None  # without the head nothing shows
    with pytest.raises(tr.DamagedVault, match="never had this head: the vault was set back"):
        Vault.read(place).verify(head)


def test_a_backup_put_back_is_found_by_a_noted_head_only(place: Path, tmp_path: Path) -> None:
    old = shutil.copytree(place, tmp_path / "old")
    with Vault.open(place) as vault:
        vault.ask_many(questions(5, seed=50), "measured")
        head = vault.status()["head"]
    with Vault.open(old) as vault:
        assert vault.verify()["size"] == 60_000
        with pytest.raises(tr.DamagedVault, match="set back to an earlier state"):
            vault.verify(head)
        vault.ask("late = 'no'", "measured")


def test_an_old_ledger_beside_newer_parts_is_refused_and_nothing_is_deleted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "LARGE", 10)
    old = (place / "ledger.sqlite").read_bytes()
    with Vault.open(place) as vault:
        for number in range(2):
            vault.append(frame(10, seed=number).append_column("who", [[f"new {number}"] * 10]))
    names = sorted((place / "parts").iterdir())
    (place / "ledger.sqlite").write_bytes(old)
    with pytest.raises(tr.DamagedVault, match="parts of rows that the ledger does not know"):
        Vault.open(place)
    assert sorted((place / "parts").iterdir()) == names


def test_a_missing_line_is_named(place: Path) -> None:
    sql(place, "delete from ledger where seq = 7")
    refused(place, "line 7 is missing")


@pytest.mark.parametrize("head", ["", "abc", 7, "g" * 63])
def test_what_is_no_head(place: Path, head: Any) -> None:
    with pytest.raises(tr.ParameterError, match="head must be one that status"):
        Vault.read(place).verify(head)


# -- not a vault -------------------------------------------------------------------------------------------------------


def test_what_is_no_vault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("nothing", "file", "folder"):
        for use in (Vault.open, Vault.read):
            with pytest.raises(tr.NotAVault, match="is no vault"):
                use(tmp_path / name)


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "v" / "parts").mkdir(parents=True, mode=0o700)
    (tmp_path / "v").chmod(0o700)
    (tmp_path / "v" / "parts").chmod(0o700)
    sql(tmp_path / "v", "create table x (y)")
    (tmp_path / "v" / "ledger.sqlite").chmod(0o600)
    refused(tmp_path / "v", "no ledger of treering's", tr.NotAVault)
    (tmp_path / "v" / "ledger.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    refused(tmp_path / "v", "the ledger is damaged", tr.DamagedVault)


@pytest.mark.parametrize("other", [ledgers.FORMAT - 1, ledgers.FORMAT + 1])
def test_another_format(place: Path, other: int) -> None:
    sql(place, f"pragma user_version = {other}")
    refused(
        place, f"has format {other}, and this version of treering reads format {ledgers.FORMAT} only", tr.UnknownFormat
    )


def test_a_vault_that_was_never_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cut in ("create", "lines"):
        place = tmp_path / cut
        with monkeypatch.context() as patch:
            if cut == "create":
                patch.setattr("treering.trusted.ledger.ledger.Ledger.__init__", _stop)
            else:
                patch.setattr("treering.trusted.ledger.ledger.Ledger._write_lines", _stop)
            with pytest.raises(KeyboardInterrupt):
                guarded(place)
        refused(place, "was never finished: its ledger is empty. Delete the folder", tr.NotAVault)
    place = tmp_path / "empty"
    Folder(place).create()
    (place / "ledger.sqlite").touch(mode=0o600)
    refused(place, "was never finished", tr.NotAVault)


@pytest.mark.parametrize("how", ["truncated", "without lines", "gone"])
def test_an_emptied_ledger_beside_rows_is_damage(place: Path, how: str) -> None:
    """Never "delete the folder": the rows are there, and a backup has the promise."""
    if how == "without lines":
        sql(place, "delete from ledger")
    else:
        for each in place.glob("ledger.sqlite*"):
            each.unlink()
        if how == "truncated":
            (place / "ledger.sqlite").touch(mode=0o600)
    for use in (Vault.open, lambda where: Vault.read(where).verify()):
        with pytest.raises(tr.DamagedVault, match="is damaged: .*; restore a backup"):
            use(place)


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


# -- permissions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode", "right"), [("", 0o750, 700), ("ledger.sqlite", 0o644, 600), ("parts", 0o701, 700)]
)
def test_others_must_not_read_it(place: Path, name: str, mode: int, right: int) -> None:
    (place / name).chmod(mode)
    for use in (Vault.open, Vault.read):
        with pytest.raises(tr.VaultError, match=f"others can read .*: run chmod {right} {place / name}"):
            use(place)
    (place / name).chmod(int(str(right), 8))
    Vault.open(place).close()


def test_what_a_crash_left_is_removed(place: Path) -> None:
    for name in ("parts/00000003.parquet", "parts/0123456789abcdef.new", "checkpoints/00000099", "checkpoints/x.new"):
        (place / name).write_text("left")
    with Vault.open(place) as vault:
        assert len(list((place / "parts").iterdir())) == 2
        assert len(list((place / "checkpoints").iterdir())) == 4
        vault.verify()


# -- backups -----------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_vault_as_it_was(place: Path, tmp_path: Path) -> None:
    with Vault.open(place) as vault:
        vault.ask_many(questions(40, seed=70))
        vault.backup(tmp_path / "copy")
        state, status = states(vault), vault.status()
        vault.ask_many(questions(40, seed=71), "measured")
        with pytest.raises(tr.VaultError, match="exists already"):
            vault.backup(tmp_path / "copy")
    with Vault.open(tmp_path / "copy") as vault:
        assert vault.verify(status["head"])["head_found"]
        assert states(vault)[1:] == state[1:]
        assert state[0][0][0].asked <= states(vault)[0][0][0].asked <= state[0][0][0].asked + 1024
        assert vault.ask_many(questions(12, seed=0), key="pmwg 0") == Vault.ask_many(
            vault, questions(12, seed=0), key="pmwg 0"
        )
    for each in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        assert each.stat().st_mode & 0o077 == 0


def test_a_backup_that_fails_is_no_vault(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any) -> None:
        raise apsw.FullError

    with Vault.open(place) as vault:
        with monkeypatch.context() as patch:
            patch.setattr(apsw, "Connection", full_disk)
            with pytest.raises(tr.VaultError, match="cannot write the backup: the disk is full"):
                vault.backup(tmp_path / "copy")
        vault.ask("late = 'yes'", "measured")
    with pytest.raises(tr.DamagedVault, match="it is empty, and there are rows beside it; restore a backup"):
        Vault.open(tmp_path / "copy")


def test_an_open_vault_whose_disk_was_pulled_stops(tmp_path: Path) -> None:
    vault = full(tmp_path / "vault")
    crash(vault)
    use: Callable[[], Any]
    for use in (lambda: vault.ask("late = 'yes'"), lambda: vault.append(frame(1))):
        with pytest.raises(tr.VaultError):
            use()
