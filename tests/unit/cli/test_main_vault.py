"""The commands about a vault, from its making to its verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.cli import refused, treering
from treering.vault.vault import Vault

SCHEMA = """treering_schema = 2
[attributes.origin]
kind = "categories"
values = ["EWR", "JFK", "LGA"]
other = true
[attributes.month]
kind = "integers"
low = 1
high = 12
[attributes.delay]
kind = "bins"
edges = [-1440, 0, 15, 60, 1440]
missing = true
"""
ROWS = 30_000


def rows_csv(rows: int = ROWS, origin: str = "JFK") -> str:
    """One delay in four is long, and one missing; half of the flights leave from one airport."""
    delays = ["-5", "3", "80", ""]
    lines = (f"{origin if row % 8 < 4 else 'EWR'},{row % 12 + 1},{delays[row % 4]}" for row in range(rows))
    return "origin,month,delay\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a histogram and room for more, and rows."""
    made = tmp_path_factory.mktemp("cli")
    (made / "flights.toml").write_text(SCHEMA)
    (made / "rows.csv").write_text(rows_csv())
    flags = ("--schema", made / "flights.toml", "--epsilon", 4, "--delta", "1e-6", "--beta", "1e-9", "--share", 0.5)
    created = treering("create", made / "v", *flags, "--mechanism", "continual", "--json").json
    assert (created["cells"], created["mechanisms"]) == (240, ["continual"])
    assert "epsilon 4, delta 1e-06, for one row, for ever" in created["promise"]
    appended = treering("append", made / "v", made / "rows.csv", "--key", "first", "--json").json
    assert appended["size"] == ROWS
    return made


def test_rows_are_taken_in_once_for_a_key(folder: Path) -> None:
    again = treering("append", folder / "v", folder / "rows.csv", "--key", "first")
    assert again.code == 0
    assert f"has {ROWS:,} rows" in again.out


def test_an_answer_and_its_fields(folder: Path) -> None:
    asked = treering("ask", folder / "v", "origin = 'JFK' AND delay >= 60", "--json").json
    assert set(asked) == {
        *("question", "value", "margin", "error", "count", "count_margin", "count_error", "size", "kind", "of"),
        *("cost", "remaining", "unit", "total", "epsilon", "settled"),
    }
    assert asked["margin"] <= asked["error"]
    assert asked["count_margin"] <= asked["count_error"]
    assert abs(asked["value"] - 1 / 8) <= asked["error"]
    assert abs(asked["count"] - ROWS / 8) <= asked["count_error"]
    assert (asked["size"], asked["unit"]) == (ROWS, "rho")
    shown = treering("ask", folder / "v", "origin = 'JFK' AND delay >= 60")
    assert f"{asked['count']:,} rows ± {asked['count_margin']:,} of {ROWS:,}" in shown.out
    assert "Free" in shown.out


def test_sql_is_a_table_with_errors(folder: Path) -> None:
    text = "SELECT month, COUNT(*) AS n FROM t WHERE origin = 'EWR' GROUP BY month"
    found = treering("ask", folder / "v", "--sql", text, "--json").json
    assert found["columns"] == ["month", "n", "n_margin"]
    assert [row[0] for row in found["rows"]] == list(range(1, 13))
    truth = np.bincount([row % 12 for row in range(ROWS) if row % 8 >= 4], minlength=12)
    for (_, n, margin), expected in zip(found["rows"], truth, strict=True):
        assert abs(n - expected) <= 5 * margin
    shown = treering("ask", folder / "v", "--sql", text)
    assert shown.out.splitlines()[0].split() == ["month", "n"]
    assert f"{found['rows'][0][1]:,} ± {found['rows'][0][2]:,.0f}" in shown.out


def test_a_mechanism_without_sums_counts_integers_value_by_value(folder: Path) -> None:
    found = treering("ask", folder / "v", "--sql", "SELECT AVG(month) AS m FROM t", "--json").json
    ((mean, margin),) = found["rows"]
    assert abs(mean - np.mean([row % 12 + 1 for row in range(ROWS)])) <= 2 * margin
    assert "rings keep sums" in refused(treering("ask", folder / "v", "--sql", "SELECT SUM(delay) FROM t"))


def test_a_dry_run_is_free_and_asks_nothing(folder: Path) -> None:
    before = treering("status", folder / "v", "--json").json
    price = treering("ask", folder / "v", "delay >= 60", "--dry-run", "--json").json
    many = treering("ask", folder / "v", "--sql", "SELECT month, COUNT(*) FROM t GROUP BY month", "--dry-run", "--json")
    assert {*price} == {*many.json}
    assert 0 <= price["most"] <= price["remaining"] + 1e-12
    assert treering("status", folder / "v", "--json").json == before
    assert "Nothing was asked" in treering("ask", folder / "v", "delay >= 60", "--dry-run").out


def test_a_dry_run_never_says_too_little(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "r.csv").write_text(rows_csv(12_000))
    flags = ("--schema", tmp_path / "s.toml", "--epsilon", 8, "--delta", "1e-6", "--alpha", 0.2, "--mechanism", "pmwg")
    assert treering("create", tmp_path / "v", *flags).code == 0
    assert treering("append", tmp_path / "v", tmp_path / "r.csv").code == 0
    for arguments in (["delay >= 60"], ["--sql", "SELECT month, COUNT(*) FROM t GROUP BY month"], ["month = 3"]):
        most = treering("ask", tmp_path / "v", *arguments, "--dry-run", "--json").json["most"]
        cost = treering("ask", tmp_path / "v", *arguments, "--json").json["cost"]
        assert cost <= most * (1 + 1e-9)
    drawn = treering("synth", tmp_path / "v", "--rows", 50, "--out", tmp_path / "s.csv", "--json").json
    assert drawn == {"rows": 50, "columns": ["origin", "month", "delay"], "out": str(tmp_path / "s.csv")}
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 51


def test_status_ledger_and_verify_tell_the_same_story(folder: Path) -> None:
    status = treering("status", folder / "v", "--json").json
    fields = "size spent remaining hard_queries potential guarantee epochs head"
    assert set(fields.split()) <= set(status)
    shown = treering("status", folder / "v")
    assert f"{ROWS:,} rows" in shown.out
    assert "spent" in shown.out
    assert status["head"] in shown.out
    entries = treering("ledger", folder / "v", "--json").json["entries"]
    assert entries[-1]["hash"] == status["head"]
    assert {"seq", "kind", "cost", "size", "hash"} <= set(entries[0])
    assert sum(each["cost"] for each in entries) == pytest.approx(status["spent"])
    assert len(treering("ledger", folder / "v", "--tail", 2, "--json").json["entries"]) == 2
    assert "rows" in treering("ledger", folder / "v").out
    assert treering("verify", folder / "v", "--head", entries[0]["hash"], "--json").json["head_found"] is True
    assert "is whole" in treering("verify", folder / "v").out
    assert "never had this head" in refused(treering("verify", folder / "v", "--head", "ab" * 32), code=1)
    refused(treering("verify", folder / "v", "--head", "abc"))


def test_a_vault_made_by_default_has_room_for_a_model(folder: Path) -> None:
    """Create, append, ask, train: what rings have not used is given up for the model."""
    place = folder / "default"
    assert treering("create", place, "--schema", folder / "flights.toml", "--epsilon", 4, "--delta", "1e-6").code == 0
    assert treering("append", place, folder / "rows.csv").code == 0
    before = treering("ask", place, "delay >= 60", "--json").json
    flags = ("--target", "delay >= 15", "--features", "origin,month", "--share", 0.3)
    made = treering("train", place, *flags, "--json").json
    assert made["shares"] == {"rings": 0.7, "model": 0.3}
    assert "Shares of the promise: rings 0.7, model 0.3." in treering("train", place).out
    after = treering("ask", place, "delay >= 60", "--json").json
    assert (after["count"], after["cost"]) == (before["count"], 0)
    assert "share must be at most" in refused(treering("train", place, *flags[:-1], 0.9, "--name", "other"))


def test_a_model_is_trained_and_kept(folder: Path) -> None:
    flags = ("--target", "delay >= 15", "--features", "origin,month", "--share", 0.2, "--name", "late")
    made = treering("train", folder / "v", *flags, "--json").json
    assert set(made) == {
        *("name", "target", "size", "rows", "weights", "excess_risk_bound", "quality", "quality_later", "cost"),
        *("remaining", "unit", "shares"),
    }
    assert (made["quality"]["rows"], made["quality_later"]) == (ROWS // 10, None)
    assert "month = 3" in made["weights"]
    later = treering("train", folder / "v", "--name", "late")
    assert "when is delay >= 15?" in later.out
    assert "Free" in later.out
    assert "was trained before" in refused(treering("train", folder / "v", *flags))
    assert "needs --target" in refused(treering("train", folder / "v", "--name", "other"))
    taken = (*flags[:4], "--share", 0.9, "--name", "big")
    assert "share must be at most" in refused(treering("train", folder / "v", *taken))
    assert "late grew (•) 1 ring" in treering("status", folder / "v").out


def test_a_model_is_tested_on_rows_that_were_held_out(folder: Path, tmp_path: Path) -> None:
    place, made = tmp_path / "v", ("--schema", folder / "flights.toml", "--epsilon", 4, "--delta", "1e-6")
    assert treering("create", place, *made, "--share", 0.5).code == 0
    assert treering("append", place, folder / "rows.csv", "--key", "first").code == 0
    flags = ("--target", "delay >= 15", "--features", "origin,month", "--share", 0.5, "--validation", 0.25)
    first = treering("train", place, *flags).out
    assert f"Tested on {ROWS // 4:,} rows that were held out: accuracy " in first
    assert "the model before" not in first
    assert treering("append", place, folder / "rows.csv", "--key", "second").code == 0
    shown, found = treering("train", place), treering("train", place, "--json").json
    assert (found["rows"], found["cost"]) == ([ROWS, 2 * ROWS], 0)
    assert (found["quality"]["trained"], found["quality"]["rows"]) == ([ROWS, 2 * ROWS], ROWS // 4)
    assert (found["quality_later"]["trained"], found["quality_later"]["rows"]) == ([0, ROWS], ROWS // 4)
    assert min(found["quality"]["accuracy"], found["quality_later"]["accuracy"]) > 0.9  # origin and month tell it
    assert f"On the same rows, the model before, of the rows up to {ROWS:,}: accuracy" in shown.out
    untested = (*flags[:4], "--share", 0.1, "--name", "other", "--validation", 0)
    assert "It was not tested." in treering("train", place, *untested).out


def test_a_model_of_all_rows(folder: Path, tmp_path: Path) -> None:
    place, made = tmp_path / "v", ("--schema", folder / "flights.toml", "--epsilon", 4, "--delta", "1e-6")
    assert treering("create", place, *made, "--share", 0.5).code == 0
    assert treering("append", place, folder / "rows.csv").code == 0
    flags = ("--target", "delay >= 15", "--features", "origin", "--share", 0.5, "--rows")
    assert "must be newest or all" in refused(treering("train", place, *flags, "oldest"))
    assert "are for --rows newest" in refused(treering("train", place, *flags, "all", "--every", 2))
    assert treering("train", place, *flags, "all").code == 0
    found = treering("status", place, "--json").json["mechanisms"]
    assert [each["kind"] for each in found if each["name"] == "model"] == ["ermg"]


def test_rows_that_do_not_fit_are_refused_or_dropped(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("origin,month,delay\nJFK,13,5\nJFK,1,5\n")
    line = refused(treering("append", folder / "v", tmp_path / "bad.csv"))
    assert "month" in line
    assert "13" not in line.replace(str(tmp_path), "").replace("12", "")
    (tmp_path / "s.toml").write_text(SCHEMA)
    assert treering("create", tmp_path / "v", "--schema", tmp_path / "s.toml", "--epsilon", 1).code == 0
    taken = treering("append", tmp_path / "v", tmp_path / "bad.csv", "--on-invalid", "drop", "--json").json
    assert (taken["size"], taken["files"][0]["rows"], taken["files"][0]["dropped"]) == (1, 1, 1)


def test_files_that_are_in_are_named_when_a_later_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "good.csv").write_text("origin,month,delay\nJFK,1,5\n")
    (tmp_path / "bad.csv").write_text("origin,month,delay\nJFK,13,5\n")
    assert treering("create", tmp_path / "v", "--schema", tmp_path / "s.toml", "--epsilon", 1).code == 0
    line = refused(treering("append", tmp_path / "v", tmp_path / "good.csv", tmp_path / "bad.csv"))
    assert line.endswith(f"Taken in before: {tmp_path / 'good.csv'}.")
    assert "Taken in" not in refused(treering("append", tmp_path / "v", tmp_path / "bad.csv"))
    assert treering("status", tmp_path / "v", "--json").json["size"] == 1


def test_a_person_has_no_more_rows_than_promised(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    flags = ("--schema", tmp_path / "s.toml", "--epsilon", 1, "--rows-per-person", 2, "--person", "who")
    assert "up to 2 rows" in treering("create", tmp_path / "v", *flags).out
    (tmp_path / "a.csv").write_text("origin,who,month,delay\nJFK,7,1,5\nJFK,8,1,5\n")
    (tmp_path / "b.csv").write_text("origin,who,month,delay\nJFK,7.0,1,5\nJFK,A9,1,5\n")
    (tmp_path / "c.csv").write_text("origin,who,month,delay\nJFK,7,1,5\nJFK,10,1,5\n")
    (tmp_path / "d.csv").write_text("origin,month,delay\nJFK,1,5\n")
    assert treering("append", tmp_path / "v", tmp_path / "a.csv", tmp_path / "b.csv", "--json").json["size"] == 4
    said = refused(treering("append", tmp_path / "v", tmp_path / "c.csv"))
    assert "c.csv, line 2: its person has 2 rows already, which is --rows-per-person" in said
    assert "'who'" in refused(treering("append", tmp_path / "v", tmp_path / "d.csv"))
    taken = treering("append", tmp_path / "v", tmp_path / "c.csv", "--on-invalid", "drop", "--json").json
    columns = {key: {"unlisted": 0, "missing": 0, "outside": 0} for key in ("origin", "month", "delay")}
    file = {"file": str(tmp_path / "c.csv"), "rows": 1, "dropped": 1, "size": 5, "known": False, "columns": columns}
    assert taken == {"size": 5, "files": [file]}


def test_a_check_shows_what_a_file_holds_and_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "r.csv").write_text("origin,month,delay\nJFK,1,5\nJFK,13,5\n")
    assert treering("create", tmp_path / "v", "--schema", tmp_path / "s.toml", "--epsilon", 1).code == 0
    before = treering("status", tmp_path / "v", "--json").json
    assert "month" in refused(treering("append", tmp_path / "v", tmp_path / "r.csv", "--check"))
    shown = treering("append", tmp_path / "v", tmp_path / "r.csv", "--check", "--on-invalid", "drop").out
    assert "Nothing was taken in." in shown
    (line,) = (line for line in shown.splitlines() if " month " in line)
    assert line.split()[-3:] == ["0", "0", "1"], "one value outside"
    assert treering("status", tmp_path / "v", "--json").json == before


def test_the_same_file_twice_is_refused_unless_again(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "r.csv").write_text("origin,month,delay\nJFK,1,5\n")
    (tmp_path / "same.csv").write_text("delay,month,origin\n5.0,01,JFK\n")
    assert treering("create", tmp_path / "v", "--schema", tmp_path / "s.toml", "--epsilon", 1).code == 0
    assert treering("append", tmp_path / "v", tmp_path / "r.csv").code == 0
    for name in ("r.csv", "same.csv"):
        line = refused(treering("append", tmp_path / "v", tmp_path / name))
        assert "the 1 row of batch 1, taken in at size 1, came again" in line
        assert "--again" in line
    assert treering("append", tmp_path / "v", tmp_path / "r.csv", "--again", "--json").json["size"] == 2
    assert treering("append", tmp_path / "v", tmp_path / "r.csv", "--key", "other", "--json").json["size"] == 3


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hush@host/air#flights",
        "postgresql://me:hush@host:5432/air?sslmode=require#flights",
        "postgresql://me:12/hush@host/air#flights",
        "POSTGRESQL://me:hush@host/air#flights",
        "postgresql://host/air?password=hush#flights",
        "postgresql://host/air?PASSWORD=hush#flights",
        "postgresql://host/air?p%61ssword=hush#flights",
        "postgresql://host/air?sslmode=require&oauth_client_secret=hush#flights",
        "postgresql://host/air?scram_client_key=hush#flights",
        "postgresql://host/air?passfile=/hush#flights",
        "postgres://me:hush@host/air#flights",
        "mysql://me:hush@host/air#flights",
        "postgresql://me:hu#sh@host/air#flights",
    ],
)
def test_no_secret_of_an_address_is_shown(tmp_path: Path, address: str) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    made = ("create", tmp_path / "v", "--schema", tmp_path / "s.toml", "--epsilon", 1)
    line = refused(treering(*made, "--table", address))
    assert "hush" not in line.replace(str(tmp_path), "")
    assert "table" in line
    assert not (tmp_path / "v").exists()
    if "://me:hush@" in address and address.lower().startswith("postgresql"):
        assert "PGPASSWORD" in line


def test_an_empty_budget_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "r.csv").write_text(rows_csv(3000))
    flags = ("--schema", tmp_path / "s.toml", "--epsilon", 1, "--alpha", 0.2, "--mechanism", "pmwg")
    assert treering("create", tmp_path / "v", *flags).code == 0
    assert treering("append", tmp_path / "v", tmp_path / "r.csv").code == 0
    for month in range(1, 13):
        for delay in (0, 15, 60):
            done = treering("ask", tmp_path / "v", f"month = {month} AND delay >= {delay}")
            if done.code != 0:
                assert "budget" in refused(done, code=3)
                return
    pytest.fail("the budget never ran out")


def test_a_schema_is_drafted_from_a_public_sample(tmp_path: Path) -> None:
    (tmp_path / "sample.csv").write_text(rows_csv(50))
    done = treering("create", tmp_path / "v.treering", "--infer", tmp_path / "sample.csv")
    assert done.code == 0
    assert "never from the private rows" in done.err
    draft = tmp_path / "v.toml"
    assert str(draft) in done.out
    assert not (tmp_path / "v.treering").exists()
    assert treering("create", tmp_path / "v.treering", "--schema", draft, "--epsilon", 1).code == 0
    assert "exists already" in refused(treering("create", tmp_path / "v", "--infer", tmp_path / "sample.csv"))


MADE = ("--schema", "{folder}/flights.toml", "--epsilon", "1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["status", "{nowhere}"], "there is no vault"),
        (["ledger", "{nowhere}"], "there is no vault"),
        (["verify", "{nowhere}"], "there is no vault"),
        (["ask", "{nowhere}", "month = 1"], "there is no vault"),
        (["append", "{nowhere}", "{file}"], "there is no vault"),
        (["synth", "{nowhere}", "--rows", "1", "--out", "x.csv"], "there is no vault"),
        (["train", "{nowhere}"], "there is no vault"),
        (["status", "{file}"], "is a file"),
        (["status", "{folder}"], "is no vault"),
        (["ask", "{vault}"], "ask one thing"),
        (["ask", "{vault}", "month = 1", "--sql", "SELECT"], "ask one thing"),
        (["ask", "{vault}", "mont = 1"], "did you mean month"),
        (["ask", "{vault}", "--sql", "SELECT month FROM t"], "rows are private"),
        (["ask", "{vault}", "month = 1", "--mechanism", "nobody"], "nobody"),
        (["append", "{vault}", "{nowhere}.csv"], "there is no file"),
        (["append", "{vault}", "{file}", "--on-invalid", "ignore"], "refuse"),
        (["append", "{vault}", "{folder}/flights.toml"], "must end in one of"),
        (["ledger", "{vault}", "--tail", "0"], "--tail"),
        (["synth", "{vault}", "--rows", "0", "--out", "x.csv"], "at least 1"),
        (["synth", "{vault}", "--rows", "9", "--out", "x.doc"], ".parquet or .csv"),
        (["synth", "{vault}", "--rows", "9", "--out", "x.csv"], "no rows"),
        (["create", "{vault}", "--schema", "{folder}/flights.toml", "--epsilon", "1"], "exist"),
        (["create", "{nowhere}", "--epsilon", "1"], "needs --schema and --epsilon"),
        (["create", "{nowhere}", "--schema", "{nowhere}", "--epsilon", "1"], "cannot read a schema"),
        (["create", "{nowhere}", "--schema", "{folder}/flights.toml", "--epsilon", "0"], "epsilon must be"),
        (
            ["create", "{nowhere}", "--schema", "{folder}/flights.toml", "--epsilon", "1", "--mechanism", "x"],
            "--mechanism",
        ),
        (["create", "{nowhere}", "--infer", "{nowhere}.csv"], "there is no file"),
        (["create", "{nowhere}", "--infer", "{file}", "--table", "csv://{file}"], "only drafts a schema"),
        (["create", "{nowhere}", *MADE, "--order", "id"], "--order is about a --table"),
        (["create", "{nowhere}", *MADE, "--table", "{file}"], "table must be duckdb:///path"),
        (["create", "{nowhere}", *MADE, "--table", "csv://rows.csv"], "absolute path"),
        (["create", "{nowhere}", *MADE, "--table", "postgresql://[/air#flights"], "table must be duckdb:///path"),
        (["create", "{nowhere}", *MADE, "--table", "csv://{file}", "--order", "day"], "has no column 'day'"),
        (["create", "{nowhere}", *MADE, "--table", "csv://{nowhere}.csv"], "there is no file or folder"),
        (["refresh", "{nowhere}"], "there is no vault"),
        (["refresh", "{file}"], "is a file"),
        (["refresh", "{folder}"], "is no vault"),
        (["refresh", "{vault}"], "`treering append` takes in rows from files"),
        (["refresh", "{vault}", "--on-invalid", "ignore"], "refuse"),
    ],
)
def test_wrong_paths_and_values_are_one_line(folder: Path, arguments: list[str], says: str) -> None:
    names = {"vault": folder / "v", "folder": folder, "file": folder / "rows.csv", "nowhere": folder / "nowhere"}
    done = treering(*(each.format(**names) for each in arguments))
    code = 2 if done.code == 2 else 1
    assert says in refused(done, code)
    assert code == 2 or arguments[0] == "create"
    assert not (folder / "nowhere").exists()


def test_the_vault_is_left_open_for_the_next(folder: Path) -> None:
    with Vault.open(folder / "v", wait=0.1) as vault:
        assert vault.size == ROWS
        busy = treering("status", folder / "v")
        assert busy.code == 0


def test_a_dry_run_is_about_the_mechanism_that_would_answer(tmp_path: Path) -> None:
    schema = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})
    model: dict[str, Any] = {"target": "late = 'yes'", "features": ["month"]}
    with tr.Vault.create(tmp_path / "v", schema, 1.0, 1e-6, mechanism="ermg", share=0.5, **model) as vault:
        vault.add("continual", 0.5)
        vault.append([{"late": "no", "month": 1}] * 1000)
    priced = treering("ask", tmp_path / "v", "month = 1", "--dry-run", "--json").json
    assert priced["mechanism"] == "continual"
    assert 0 < priced["most"] == priced["remaining"]
