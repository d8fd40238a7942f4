"""What a newcomer gets wrong, or meets: each is answered in a sentence that says what would be right."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import numpy as np
import pytest
from pyarrow import csv

from support.cli import Done, refused, treering
from support.faulty_disk import faulty_disk
from treering.cli.main import STOPPED
from treering.cli.output import message_of
from treering.errors import VaultBusy
from treering.vault.vault import Vault

SCHEMA = """treering_schema = 2
[attributes.origin]
kind = "categories"
values = ["EWR", "JFK", "LGA"]
[attributes.month]
kind = "integers"
low = 1
high = 12
[attributes.delay]
kind = "bins"
edges = [-60, 0, 15, 60, 1440]
"""
PYTHONIC = re.compile(
    r"\w\(\)|\b\w+=|\bvault\.|\bVault\.|\btr\.|\bNone\b|\bTrue\b|Traceback|Errno|np\.|Arrow|e\+\d\d|\b_\w+|\b[a-z]+_[a-z]+\b"
)
"""What only someone who writes Python understands, and numbers in need of decoding."""


def plainly(done: Done, code: int = 2) -> str:
    """The one sentence of a refusal, in which nothing is Python's and no two sentences are fused."""
    said = refused(done, code)
    assert not PYTHONIC.search(said), said
    assert not re.search(r"[a-z)'\"] [A-Z][a-z]+ (is|are|has|may|compares|was|were)\b", said), said
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A schema, rows, and a vault that has taken them in."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "flights.toml").write_text(SCHEMA)
    generator = np.random.default_rng(3)
    lines = [
        f"{generator.choice(['EWR', 'JFK', 'LGA'])},{generator.integers(1, 13)},{generator.integers(-60, 1440)},n"
        for _ in range(5000)
    ]
    (place / "rows.csv").write_text("\n".join(["origin,month,delay,note", *lines]) + "\n")
    made(place / "v")
    assert treering("append", place / "v", place / "rows.csv").code == 0
    return place


def made(vault: Path, *flags: object) -> Done:
    """A new vault."""
    promise = ("--epsilon", 1, "--delta", 1e-6) if "--epsilon" not in flags else ()
    done = treering("create", vault, "--schema", vault.parent / "flights.toml", *promise, *flags)
    assert done.code == 0, done.err
    return done


def program(*arguments: object) -> list[str]:
    """The program as a process of its own."""
    return [sys.executable, "-c", "from treering.cli.main import main; main()", *map(str, arguments)]


# -- no arguments, wrong arguments -------------------------------------------------------------------------------------


def test_no_arguments_show_what_there_is() -> None:
    done = treering()
    assert (done.code, done.err) == (0, "")
    for command in ("demo", "create", "append", "ask", "status"):
        assert re.search(rf"^  {command} ", done.out, re.M)


@pytest.mark.parametrize("arguments", [("ask",), ("nonsense",), ("ask", "v", "--nonsense")])
def test_what_is_typed_wrongly_is_referred_to_help(arguments: tuple[str, ...]) -> None:
    assert re.search(r"\(See `treering( \w+)? --help`\.\)$", refused(treering(*arguments)))


# -- wrong files -------------------------------------------------------------------------------------------------------


WRONG: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "it is empty"),
    "ragged.csv": (b"origin,month,delay\nJFK,1,3\nJFK,1\n", "line 3: 2 fields where the header has 3"),
    "latin.csv": (b"origin,month,delay\nJFK,1,3\nJ\xe9,1,4\n", r"latin\.csv, line 3, column 'origin'"),
    "cell.csv": (b"origin,month,delay\nJFK,1,3\n\nJFK,99,3\n", r"cell\.csv, line 4, column 'month'"),
    "text.csv": (b"origin,month,delay\nJFK,1,3\nJFK,1,late\n", r"text\.csv, line 3, column 'delay'"),
    "short.csv": (b"origin,month\nJFK,1\n", r"short\.csv: .*missing: 'delay'"),
    "book.csv": (b"PK\x03\x04...", "a zip file, or a spreadsheet"),
    "rows.parquet": (b"origin,month,delay\n", "does not begin as a file of that kind does"),
    "rows.arrow": (b"origin,month,delay\n", "does not begin as a file of that kind does"),
    "rows.jsonl": (b'{"origin": "JFK"\n', "line 1 is no JSON object"),
    "rows.xlsx": (b"PK", r"must end in one of \.csv"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_the_reason(folder: Path, name: str) -> None:
    content, said = WRONG[name]
    path = folder / "wrong" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    before = treering("status", folder / "v", "--json").json["size"]
    assert re.search(said, plainly(treering("append", folder / "v", path)))
    assert treering("status", folder / "v", "--json").json["size"] == before


def test_fields_that_are_separated_otherwise_are_read_or_the_separator_is_named(folder: Path) -> None:
    (folder / "semicolons.csv").write_text("origin;month;delay\nJFK;1;3\n")
    done = treering("append", folder / "v", folder / "semicolons.csv")
    assert done.code == 0 or "separated by semicolons" in plainly(done)


def test_a_wrong_file_in_the_place_of_a_schema_or_a_vault(folder: Path) -> None:
    promise = ("--epsilon", 1)
    nothing, rows = folder / "nothing.toml", folder / "rows.csv"
    assert "No such file" in plainly(treering("create", folder / "w", "--schema", nothing, *promise))
    assert "should be TOML" in plainly(treering("create", folder / "w", "--schema", rows, *promise))
    assert "is a file; a vault is a folder" in plainly(treering("status", rows))
    assert "is no vault" in plainly(treering("status", folder))
    assert "`treering create` makes one" in plainly(treering("ask", folder / "nowhere", "month = 1"))


@pytest.mark.parametrize(
    "question",
    ["month ~ 1", "COUNT(*)", "", "month =", "orgin = 'JFK'", "delay >= 'late'", "month = 13", "origin = JFK"],
)
def test_a_question_that_is_not_understood(folder: Path, question: str) -> None:
    plainly(treering("ask", folder / "v", question))


def test_the_command_line_calls_things_by_its_own_names(folder: Path, tmp_path: Path) -> None:
    for flags, said in (
        (("--epsilon", -1), "--epsilon must be"),
        (("--epsilon", 1, "--mechanism", "magic"), "--mechanism must be one of"),
        (("--epsilon", 1, "--share", 2), "--share must be at most 1"),
    ):
        assert said in plainly(treering("create", tmp_path / "w", "--schema", folder / "flights.toml", *flags))
    learnt = ("--target", "delay >= 60", "--features", "origin", "--share", 1)
    assert "--share must be at most 0.9" in plainly(treering("train", folder / "v", *learnt))
    assert "--within must be" in plainly(treering("ask", folder / "v", "month = 1", "--within", 0))
    with Vault.open(folder / "v"), pytest.raises(VaultBusy) as busy:
        Vault.open(folder / "v", wait=0.0)
    said = message_of(busy.value)
    assert "has the vault open for writing" in said
    assert "looking at the vault (`treering status`) needs no lock" in said
    assert not PYTHONIC.search(said), said


# -- promises ----------------------------------------------------------------------------------------------------------


def test_a_promise_that_is_next_to_none_is_warned_of(folder: Path) -> None:
    assert "an epsilon of 50 promises next to nothing" in made(folder / "large", "--epsilon", 50).err
    said = made(folder / "loose", "--epsilon", 1, "--delta", 0.5).err
    assert "a delta of 0.5 lets the promise fail with a chance of 50%" in said
    assert made(folder / "usual", "--epsilon", 1, "--delta", 1e-9).err == ""


def test_rho_stands_beside_the_epsilon_that_it_comes_from(folder: Path) -> None:
    assert re.search(r"Promise: epsilon 1, delta 1e-06, .* \(rho 0\.0243\d*\)", treering("status", folder / "v").out)
    for flags in ((), ("--dry-run",)):
        asked = treering("ask", folder / "v", "month = 2", *flags).out
        assert re.search(r"rho 0\.\d+ left of 0\.0243\d* \(epsilon 1\)\.", asked), asked


def test_a_histogram_that_is_paid_for_says_that_all_is_free(folder: Path) -> None:
    made(folder / "histogram", "--epsilon", 1, "--mechanism", "continual")
    treering("append", folder / "histogram", folder / "rows.csv")
    first = treering("ask", folder / "histogram", "month = 2").out
    assert "Cost epsilon 1; all further questions are free." in first
    for flags in ((), ("--dry-run",)):
        again = treering("ask", folder / "histogram", "month = 3", *flags).out
        assert "all further questions are free" in again
        assert "0 left" not in again


def test_a_refusal_says_what_is_left_what_was_wanted_and_what_would_do(folder: Path) -> None:
    for flags in ((), ("--dry-run",)):
        said = plainly(treering("ask", folder / "v", "month = 5", "--within", 1, *flags), 3)
        assert re.search(
            r"needs rho [\d.,]+, and 0\.0\d+ is left of 0\.0243\d*; with all that is left a margin of", said
        )


# -- drafts, synthetic rows --------------------------------------------------------------------------------------------


def test_a_draft_is_created_and_takes_in_its_sample(folder: Path) -> None:
    sample = folder / "sample.csv"
    generator = np.random.default_rng(5)
    columns = [f"c{number}" for number in range(14)]
    rows = [",".join(map(str, [row, *generator.integers(0, 60, 14), "x"])) for row in range(3000)]
    sample.write_text("\n".join([",".join(["", *columns, '"a ""quoted"" name"']), *rows]) + "\n")
    drafted = treering("create", folder / "a wide one", "--infer", sample)
    assert drafted.code == 0
    assert "Left out: ''" in drafted.out
    (suggested,) = re.findall(r"^Then: (treering create .*)$", drafted.out, re.M)
    assert treering(*shlex.split(suggested)[1:]).code == 0
    assert treering("append", folder / "a wide one", sample).code == 0
    assert treering("ask", folder / "a wide one", "c1 BETWEEN 0 AND 29").code == 0


def test_synthetic_rows_come_in_random_order(folder: Path) -> None:
    for kind in ("rings", "pmwg", "scheduler"):
        vault = folder / f"many {kind}"
        made(vault, "--epsilon", 100, "--delta", 1e-6, "--mechanism", kind)
        treering("append", vault, folder / "rows.csv")
        assert treering("ask", vault, "month = 1").code == 0
        drawn = [
            csv.read_csv(folder / "synthetic.csv")["month"].to_pylist()
            for seed in (("--seed", 1), ("--seed", 1), ())
            if treering("synth", vault, "--rows", 400, "--out", folder / "synthetic.csv", *seed).code == 0
        ]
        assert drawn[0] == drawn[1] != drawn[2]
        assert all(rows != sorted(rows) for rows in drawn)


# -- pipes, Ctrl-C, full disks -----------------------------------------------------------------------------------------


def test_a_reader_who_has_seen_enough_ends_it_quietly(folder: Path) -> None:
    with subprocess.Popen(
        program("ledger", folder / "v", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as told:
        assert told.stdout is not None
        assert told.stderr is not None
        told.stdout.close()
        assert told.stderr.read() == b""
    assert told.returncode == 1


def test_one_row_is_one_row(folder: Path) -> None:
    made(folder / "one", "--epsilon", 1)
    (folder / "one.csv").write_text("origin,month,delay\nJFK,1,3\n")
    said = treering("append", folder / "one", folder / "one.csv").out
    said += treering("status", folder / "one").out + treering("verify", folder / "one").out
    assert "1 row" in said
    assert not re.search(r"\b1 (rows|batches|entries|cells)", said)


def test_ctrl_c_says_that_nothing_was_lost(folder: Path) -> None:
    (folder / "slow.csv").write_bytes((folder / "rows.csv").read_bytes())
    made(folder / "stopped")
    stopped = "import os, signal, treering.vault.vault as v; from treering.cli.main import main; "
    stopped += "v.Vault.take_in = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT); main()"
    done = subprocess.run(
        [sys.executable, "-c", stopped, "append", str(folder / "stopped"), str(folder / "slow.csv")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == f"treering: {STOPPED}\n"
    assert "Nothing was lost" in STOPPED
    assert treering("append", folder / "stopped", folder / "slow.csv", "--json").json["size"] == 5000


def test_a_full_disk_is_called_full(folder: Path) -> None:
    (folder / "full.csv").symlink_to("/dev/full")
    drawn = folder / "drawn"
    made(drawn, "--mechanism", "pmwg", "--alpha", 0.2)
    treering("append", drawn, folder / "rows.csv")
    treering("ask", drawn, "month = 1")
    said = plainly(treering("synth", drawn, "--rows", 5, "--out", folder / "full.csv"), 1)
    assert "the disk is full" in said
    made(folder / "fills")
    treering("append", folder / "fills", folder / "rows.csv")
    with faulty_disk() as disk:
        disk.arm(apsw.FullError, 0)
        said = refused(treering("ask", folder / "fills", "month = 1"), 1)
    assert "the disk is full" in said
    assert treering("verify", folder / "fills").code == 0
    assert treering("ask", folder / "fills", "month = 1").code == 0


# -- a grid of mistakes ------------------------------------------------------------------------------------------------


ONE_OF_MANY = re.compile(r"(?<![\d.,^])1 [a-z]*(rows|cells|queries|questions|entries|batches|groups|answers|values)\b")
"""A plural of one."""

PROMISES: list[tuple[object, ...]] = [
    *[("--epsilon", 1, "--delta", 1e-6, flag, value) for flag in ("--alpha", "--beta", "--share") for value in (0, 2)],
    *[("--epsilon", 1, flag, value) for flag in ("--pace", "--rows", "--rows-per-person") for value in (0, "x")],
    *[("--epsilon", value) for value in (0, -1, "x", "inf", 1e400)],
    *[("--epsilon", 1, "--delta", value) for value in (1, -1, "x")],
    *[("--epsilon", 1, "--mechanism", kind) for kind in ("magic", "ermg")],
    *[("--epsilon", 1, "--mechanism", kind, "--pace", 3) for kind in ("pmwg", "scheduler", "continual")],
    *[("--epsilon", 1, "--mechanism", "scheduler", "--box", box) for box in ("magic", "answers", "mwem", "marginals")],
    *[
        ("--epsilon", 1, "--mechanism", "improver", "--box", "mwem", "--questions", name)
        for name in ("no.txt", "q.csv")
    ],
    ("--epsilon", 1, "--guard-only"),
    ("--epsilon", 1, "--person", "month"),
    ("--epsilon", 1, "--table", "rows.csv"),
    ("--epsilon", 1, "--order", "id"),
    (),
]
PLANS: list[tuple[object, ...]] = [
    *[("--cells", cells, "--rows", 5, "--epsilon", 1) for cells in (0, 1, "2^70", "x")],
    *[("--cells", 9, "--rows", rows, "--epsilon", 1) for rows in (0, -1)],
    *[("--cells", 9, "--rows", 9, "--epsilon", 1, "--queries", many) for many in (0, "x")],
    ("--cells", 9, "--rows", 9, "--epsilon", 1, "--horizon", 3),
    ("--cells", 9, "--rows", 9, "--epsilon", 1, "--plot", "plan.txt"),
    ("--cells", 9),
    (),
]
SCHEMAS: dict[str, tuple[str, str]] = {
    "true": ('"LGA"]', '"LGA"]\nother = 3'),
    "unknown": ("high = 12", "high = 12\nwidth = 3"),
    "absent": ("high = 12", ""),
    "falling": ("[-60, 0,", "[60, 0,"),
    "numbers": ('kind = "bins"', 'kind = "numbers"\nlow = 0\nhigh = 10\nstep = -1'),
    "dates": ('kind = "integers"\nlow = 1', 'kind = "dates"\nfirst = "2020-13-01"'),
}
SMALL: dict[str, tuple[object, ...]] = {
    "rings": (),
    "pmwg": ("--mechanism", "pmwg"),
    "fine": ("--mechanism", "pmwg", "--alpha", 0.001),
    "continual": ("--mechanism", "continual"),
    "scheduler": ("--mechanism", "scheduler"),
    "improver": ("--mechanism", "improver"),
    "answers": ("--mechanism", "scheduler", "--box", "answers", "--questions", "one.txt"),
}
QUESTIONS: list[tuple[object, ...]] = [
    ("month = 1",),
    ("month = 2", "--dry-run"),
    *[("month = 2", "--within", margin, "--dry-run") for margin in (0, 1, 0.001, 2, "x", "200%")],
    ("month = 3", "--mechanism", "magic"),
    ("month = NULL", "--dry-run"),
    ("origin = JFK", "--dry-run"),
    *[("--sql", f"SELECT {what} FROM t") for what in ("AVG(month)", "SUM(origin)", "*", "STDDEV(month)")],
    ("--sql", "SELECT month, COUNT(*) FROM t GROUP BY month"),
]


def _plain_if_refused(done: Done) -> bool:
    """Whether a command was refused; if so, in the words of the command line."""
    assert not ONE_OF_MANY.search(done.out + done.err), done.out + done.err
    if done.code:
        plainly(done, done.code)
    return bool(done.code)


@pytest.mark.parametrize("command", ["create", "plan", "schema"])
def test_no_refusal_of_options_talks_python(folder: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "q.csv").write_text("monht = 1\n")
    if command == "schema":
        for name, (there, instead) in SCHEMAS.items():
            (tmp_path / f"{name}.toml").write_text(SCHEMA.replace(there, instead))
            given = ("--schema", tmp_path / f"{name}.toml", "--epsilon", 1)
            assert _plain_if_refused(treering("create", tmp_path / "w", *given)), name
        return
    schema = ("create", tmp_path / "w", "--schema", folder / "flights.toml") if command == "create" else ("plan",)
    for flags in PROMISES if command == "create" else PLANS:
        named = [tmp_path / str(each) if str(each).endswith((".txt", ".csv")) else each for each in flags]
        assert _plain_if_refused(treering(*schema, *named)), flags


@pytest.mark.parametrize("kind", SMALL)
def test_no_refusal_of_a_table_with_one_row_talks_python(folder: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "one.csv").write_text("origin,month,delay\nJFK,1,3\n")
    (folder / "one.txt").write_text("month = 1\n")
    flags = [folder / each if each == "one.txt" else each for each in SMALL[kind]]
    vault = folder / f"one row of {kind}"
    made(vault, "--epsilon", 1, "--delta", 1e-6, *flags)
    assert treering("append", vault, tmp_path / "one.csv").code == 0
    refusals = [_plain_if_refused(treering("ask", vault, *question)) for question in QUESTIONS]
    refusals.append(_plain_if_refused(treering("synth", vault, "--rows", 1, "--out", tmp_path / "synthetic.csv")))
    refusals.append(_plain_if_refused(treering("train", vault, "--target", "month = 1", "--features", "origin")))
    assert sum(refusals) >= len(QUESTIONS) - 4
    _plain_if_refused(treering("status", vault))
