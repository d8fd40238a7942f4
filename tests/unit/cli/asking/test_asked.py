"""`treering ask` and `treering status` over HTTP: the same words as over a folder, and the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents import table
from support.cli import refused, treering
from support.served import Served, serving
from treering.cli.asking.asked import TOKEN, is_address


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serving(table(tmp_path / "v"), tmp_path / "v") as running:
        monkeypatch.setenv(TOKEN, running.token())
        yield running


def test_predicates_are_answered_at_their_price(served: Served) -> None:
    price = treering("ask", served.url, "origin = 'JFK'", "--dry-run", "--json").json
    told = treering("ask", served.url, "origin = 'JFK'", "--json").json
    assert told["cost"] == pytest.approx(price["most"])
    answer = served.vault.ask("origin = 'JFK'")
    assert {name: told[name] for name in answer.to_dict()} == {**answer.to_dict(), "kind": told["kind"]}
    assert told["remaining"] == pytest.approx(served.vault.total - served.vault.spent)
    assert "rows ± " in treering("ask", served.url, "origin = 'JFK'").out
    assert "Nothing was asked" in treering("ask", served.url, "month = 2", "--dry-run").out
    assert "About " in treering("ask", served.url, "origin = 'EWR'", "--estimate").out


def test_statements_are_answered_with_margins(served: Served) -> None:
    statement = "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin ORDER BY origin"
    told = treering("ask", served.url, "--sql", statement, "--json").json
    assert told["columns"] == ["origin", "n", "n_margin"]
    assert told["rows"] == [list(row.values()) for row in served.vault.sql(statement).to_pylist()]
    assert "Free" in treering("ask", served.url, "--sql", statement).out
    assert treering("ask", served.url, "--sql", "SHOW TABLES", "--json").json["rows"] == [["v"]]
    assert treering("ask", served.url, "--sql", statement, "--dry-run", "--json").json["most"] == 0


def test_the_fields_are_those_of_a_folder(served: Served, tmp_path: Path) -> None:
    table(tmp_path / "w").close()
    asked = (
        ("ask", "month = 3"),
        ("ask", "month = 4", "--dry-run"),
        ("ask", "--sql", "SELECT COUNT(*) AS n FROM t"),
    )
    for command, *rest in asked:
        there, here = (treering(command, vault, *rest, "--json").json for vault in (served.url, tmp_path / "w"))
        assert there.keys() == here.keys(), rest


def test_status_is_that_of_the_vault(served: Served) -> None:
    told = treering("status", served.url, "--json").json
    assert (told["size"], told["head"]) == (served.vault.size, served.vault.status()["head"])
    assert "Promise:" in treering("status", served.url).out


def test_a_token_is_read_from_a_file(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN)
    assert f"put it into {TOKEN}" in refused(treering("ask", served.url, "month = 1"))
    assert f"put it into {TOKEN}" in refused(treering("status", served.url))
    (tmp_path / "token").write_text(served.token() + "\n")
    assert treering("status", served.url, "--token-file", tmp_path / "token").code == 0


def test_rejects_vault_that_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "treering_x")
    assert treering("ask", "http://127.0.0.1:9", "month = 1").code == 1
    assert is_address("http://127.0.0.1:9")
    assert not is_address("data/http")
