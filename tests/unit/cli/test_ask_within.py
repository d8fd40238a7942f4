"""`treering ask --within`, and what `treering status` shows of rings."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr
from support.cli import refused, treering
from support.vaults import BETA, SCHEMA, frame
from treering.cli.asking.asked import margin
from treering.vault.vault import Vault

ROWS = 20_000
LATE = "late = 'yes'"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    with Vault.create(tmp_path / "v", SCHEMA, 1.0, 1e-6, beta=BETA) as made:
        made.append(frame(ROWS))
    return tmp_path / "v"


@pytest.mark.parametrize(
    ("text", "wish"), [("200", 200), ("0.5%", 0.005), ("1,000", 1000), ("1e2", 100), ("99%", 0.99), ("0.02", 0.02)]
)
def test_rows_or_a_percentage(text: str, wish: float) -> None:
    assert margin(text) == pytest.approx(wish)


@pytest.mark.parametrize(("text", "rows"), [("200", 200), ("0.5%", 100)])
def test_no_more_is_paid_than_the_wish_needs(text: str, rows: int, vault: Path) -> None:
    told = treering("ask", vault, LATE, "--within", text, "--dry-run", "--json").json
    assert (told["mechanism"], told["exact"]) == ("rings", True)
    asked = treering("ask", vault, LATE, "--within", text, "--json").json
    assert asked["count_margin"] in (rows, rows + 1)
    assert asked["count_margin"] < asked["count_error"]
    assert asked["cost"] == pytest.approx(told["most"], rel=1e-9)
    shown = treering("ask", vault, LATE, "--within", text)
    assert f"± {asked['count_margin']:,} of {ROWS:,}" in shown.out
    assert "for this answer, with 95%; ±" in shown.out
    assert "Free" in shown.out
    assert "nothing" in treering("ask", vault, LATE, "--within", text, "--dry-run").out


def test_a_dry_run_asks_nothing(vault: Path) -> None:
    before = Vault.read(vault).status()
    shown = treering("ask", vault, LATE, "--within", "200", "--dry-run")
    assert "rings would cost rho " in shown.out
    assert "Nothing was asked." in shown.out
    assert Vault.read(vault).status() == before


def test_explain_says_what_asking_would_cost_and_not_that_it_is_free(vault: Path) -> None:
    shown = treering("ask", vault, "--sql", "EXPLAIN SELECT late, COUNT(*) FROM t GROUP BY late")
    assert "Nothing was asked or charged: asking would cost rho " in shown.out
    assert "Free" not in shown.out
    assert Vault.read(vault).status()["spent"] == 0


@pytest.mark.parametrize("text", ["0", "0%", "abc", "%", "nan", "inf", "100%", "250%", "20001"])
def test_a_wish_that_makes_no_sense_is_refused(text: str, vault: Path) -> None:
    assert refused(treering("ask", vault, LATE, "--within", text))
    assert Vault.read(vault).status()["spent"] == 0


def test_a_wish_beyond_the_budget_is_refused(vault: Path) -> None:
    done = treering("ask", vault, LATE, "--within", "1")
    assert done.code == 3
    assert "rows can be had instead of 1," in done.err


def test_new_rows_pay_and_it_is_said(vault: Path) -> None:
    first = treering("ask", vault, LATE, "--json").json
    with Vault.open(vault) as opened:
        opened.append(frame(ROWS, seed=2))
    told = treering("ask", vault, LATE, "--dry-run", "--json").json
    again = treering("ask", vault, LATE, "--json").json
    assert again["cost"] == pytest.approx(told["most"]) == pytest.approx(first["cost"])
    assert again["remaining"] == first["remaining"]


def test_sql_has_margins(vault: Path) -> None:
    text = "SELECT origin, COUNT(*) FROM t WHERE late = 'yes' GROUP BY origin"
    found = treering("ask", vault, "--sql", text, "--within", "500", "--json").json
    assert all(row[2] <= 501 for row in found["rows"])
    shown = treering("ask", vault, "--sql", text, "--within", "500")
    assert f"± {found['rows'][0][2]:,.0f}" in shown.out


def test_status_shows_series_and_what_rows_have_left(vault: Path) -> None:
    empty = treering("status", vault).out
    assert "keeps current" not in empty
    assert "the oldest row has 0.02436 left" in empty
    treering("ask", vault, LATE)
    with Vault.open(vault) as opened:
        opened.append(frame(ROWS, seed=2))
        opened.ask_many(["month = 1", "month = 2"])
        (rings,) = opened.status()["mechanisms"]
    shown = treering("status", vault).out
    lines = [line.split() for line in shown.splitlines()]
    (late,) = (line for line in lines if line[:1] == ["late"])
    (month,) = (line for line in lines if line[:1] == ["month"])
    assert (late[1], late[-1]) == ("2", "20,000")
    assert (month[1], month[-1]) == ("12", "40,000")
    assert f"± {rings['series'][0]['margin']:,.0f} rows" in shown
    assert "In rings the oldest row has" in shown
    assert rings["left"]["oldest"] < rings["left"]["newest"] < rings["left"]["next"]


def test_create_makes_rings_and_with_an_alpha_what_keeps_it(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.toml")
    given = ("--schema", tmp_path / "s.toml", "--epsilon", 1, "--delta", 1e-6)
    for number, (options, kind) in enumerate(
        (((), "rings"), (("--alpha", 0.05), "continual"), (("--alpha", 0.05, "--rows", 3000), "pmwg"))
    ):
        made = treering("create", tmp_path / str(number), *given, *options, "--json").json
        assert made["mechanisms"] == [kind]
    assert isinstance(tr.Vault.read(tmp_path / "0").status()["mechanisms"][0]["series"], list)


def test_an_estimate_is_free_and_without_a_bound(vault: Path) -> None:
    treering("ask", vault, LATE)
    before = Vault.read(vault).status()["spent"]
    shown = treering("ask", vault, LATE, "--estimate")
    assert "guessed from earlier answers: free, and without a bound" in shown.out
    assert treering("ask", vault, LATE, "--estimate", "--json").json["kind"] == "estimate"
    assert Vault.read(vault).status()["spent"] == before
    assert treering("synth", vault, "--rows", "50", "--out", vault.parent / "rows.csv").code == 0
    assert "goes with a predicate alone" in refused(treering("ask", vault, LATE, "--estimate", "--within", "5"))
