"""The client, against a real server on loopback over a vault that the test can ask too."""

from __future__ import annotations

import gzip
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import treering as tr
from support.agents import table
from support.served import Breaking, Served, serving
from support.vaults import SCHEMA, frame, guarded, questions
from treering import client
from treering.client import Client
from treering.shown import MARK


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(table(tmp_path / "v"), tmp_path / "v") as running:
        yield running


@pytest.fixture
def steward(served: Served) -> Iterator[Client]:
    with served.client() as made:
        yield made


# -- the same as a vault -----------------------------------------------------------------------------------------------


def test_answers_are_the_vaults_field_for_field(served: Served, steward: Client) -> None:
    texts = ["origin = 'JFK'", "month <= 6 AND late = 'yes'", "NOT origin = 'EWR'"]
    one, many = steward.ask(texts[0]), steward.ask_many(texts, within=100)
    assert one == served.vault.ask(texts[0])
    assert many == served.vault.ask_many(texts, within=100)
    assert isinstance(one, tr.Answer)
    assert steward.ask_many([]) == []


def test_queries_are_asked_as_their_texts(served: Served, steward: Client) -> None:
    query = tr.parse("origin IN ('JFK', 'EWR') AND month BETWEEN 3 AND 5", SCHEMA)
    assert steward.ask(query) == served.vault.ask(query)
    weighted = tr.Query.weighted(SCHEMA, np.linspace(0, 1, SCHEMA.cells))
    with pytest.raises(tr.QueryError, match="cannot be written as a predicate"):
        steward.ask(weighted)
    number: Any = 3
    with pytest.raises(tr.QueryError, match="not as int"):
        steward.ask(number)
    with pytest.raises(tr.QueryError, match="a batch is a list of queries"):
        steward.ask_many("origin = 'JFK'")


def test_tables_are_the_vaults_with_their_metadata(served: Served, steward: Client) -> None:
    statement = "SELECT origin, COUNT(*) AS n FROM t GROUP BY origin ORDER BY n DESC LIMIT 2"
    ours = steward.sql(statement)
    assert ours.equals(served.vault.sql(statement), check_metadata=True)
    assert MARK in ours.schema.metadata
    assert steward.sql("EXPLAIN " + statement).equals(served.vault.sql("EXPLAIN " + statement))


def test_prices_are_the_vaults_and_free(served: Served, steward: Client) -> None:
    texts = ["origin = 'JFK'", "month = 3"]
    statement = "SELECT month, COUNT(*) FROM t GROUP BY month"
    assert steward.price(texts[0], within=50) == served.vault.price(texts[0], within=50) > 0
    assert steward.price_many(texts) == served.vault.price_many(texts)
    assert steward.price_sql(statement, 200) == served.vault.price_sql(statement, 200)
    assert served.vault.spent == 0


def test_schema_status_and_size_are_the_vaults(served: Served, steward: Client) -> None:
    assert steward.schema == served.vault.schema == SCHEMA
    status = steward.status()
    assert {**status, "settled": None} == {**json.loads(json.dumps(served.vault.status())), "settled": None}
    assert steward.size == served.vault.size


def test_what_was_asked_has_its_cost_beside_it(served: Served, steward: Client) -> None:
    _, first = steward.ask_for(["month = 3"])
    _, again = steward.ask_for(["month = 3"])
    _, size, cost = steward.sql_for("SELECT origin, COUNT(*) FROM t GROUP BY origin")
    assert first > again == 0
    assert first + cost == pytest.approx(served.vault.spent)
    assert size == 20_000


def test_synthetic_rows_are_drawn_there(tmp_path: Path) -> None:
    vault = table(tmp_path / "v", mechanism="pmwg", epsilon=8.0, alpha=0.2)
    with serving(vault, tmp_path / "v") as served, served.client("analyst") as analyst:
        analyst.ask("origin = 'JFK'")
        rows = analyst.synthesize(50, seed=3)
        assert rows.num_rows == 50
        assert rows.column_names == list(SCHEMA.names)
        assert analyst.synthesize(50, seed=3).equals(rows)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: db.ask("orgin = 'JFK'"),
        lambda db: db.ask("month >"),
        lambda db: db.ask("origin = 'XX'"),
        lambda db: db.ask_many(["TRUE", "mnth = 2"]),
        lambda db: db.sql("SELECT * FROM t"),
        lambda db: db.sql("DELETE FROM t"),
        lambda db: db.ask("month = 3", within=1),
        lambda db: db.ask("month = 3", mechanism="nothing"),
        lambda db: db.synthesize(10),
        lambda db: db.append([{"origin": "XX", "month": 3, "late": "no"}]),
        lambda db: db.append(frame(10).drop_columns(["late"])),
        lambda db: db.price("late"),
    ],
)
def test_a_refusal_is_the_vaults_own(served: Served, steward: Client, ask: Any) -> None:
    with pytest.raises(tr.TreeringError) as theirs:
        ask(served.vault)
    with pytest.raises(type(theirs.value)) as ours:
        ask(steward)
    for name, value in vars(theirs.value).items():
        assert getattr(ours.value, name) == value
    if not isinstance(ours.value, tr.DataError):  # Which also names the file.
        assert str(ours.value) == str(theirs.value)


def test_a_budget_that_does_not_cover_is_refused_with_exact_amounts(served: Served, steward: Client) -> None:
    with pytest.raises(tr.BudgetExceeded, match="a margin of .* can be had instead of 1") as caught:
        steward.ask("month = 3", within=1)
    assert isinstance(caught.value.requested, Fraction)
    assert caught.value.total == served.vault.promise.budget.total
    assert caught.value.answers == ()


@pytest.mark.parametrize("within", [0, -1, float("inf")])
def test_a_bad_parameter_is_named(steward: Client, within: float) -> None:
    with pytest.raises(tr.ParameterError) as caught:
        steward.ask("month = 3", within=within)
    assert caught.value.parameter == "within"


def test_a_quota_that_is_used_up_is_refused(served: Served) -> None:
    with served.client("analyst", answers=1, budget=0.5) as analyst:
        analyst.ask("month = 3")
        assert analyst.ask("month = 4").kind == "measured"
        with pytest.raises(tr.QuotaExceeded):
            analyst.ask("origin = 'JFK'")
        me = analyst.me()
        assert (me.role, me.answers, me.answers_used, me.budget) == ("analyst", 1, 1, 0.5)
        assert me.budget_used == pytest.approx(served.vault.spent / served.vault.total)


def test_what_a_batch_released_before_it_failed_comes_with_the_error(tmp_path: Path) -> None:
    vault = guarded(tmp_path / "v", rows=2000, epsilon=60.0)
    texts = [str(query) for query in questions(200)]
    refused = pytest.raises(tr.BudgetExceeded, match="does not cover this")
    with serving(vault, tmp_path / "v") as served, served.client() as steward, refused as caught:
        steward.ask_many(texts)
    assert 0 < len(caught.value.answers) < 200
    assert all(isinstance(each, tr.Answer) for each in caught.value.answers)


def test_an_analyst_may_not_do_what_stewards_do(served: Served) -> None:
    with served.client("analyst") as analyst:
        for call in (analyst.tokens, lambda: next(analyst.ledger()), lambda: analyst.append(frame(10))):
            with pytest.raises(tr.AccessDenied, match="this is for stewards"):
                call()


# -- connecting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["", "127.0.0.1:8765", "ftp://127.0.0.1", "http:", "treering"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(tr.ParameterError, match="url must be the address of a server, such as http://127.0.0.1:8765"):
        tr.connect(url, "treering_x")


def test_a_token_is_not_sent_in_the_clear() -> None:
    with pytest.raises(tr.ParameterError, match="anyone on the way could read the token"):
        tr.connect("http:" + "//flights.invalid", "treering_x")


def test_a_server_that_is_not_there_is_said_so() -> None:
    with pytest.raises(tr.ServiceError, match="no server can be reached at http://127.0.0.1:9"):
        tr.connect("http://127.0.0.1:9", "treering_x")


@pytest.mark.parametrize("token", ["", "  ", "wröng"])
def test_a_text_that_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(tr.AccessDenied, match="a steward makes"):
        tr.connect("http://127.0.0.1:9", token)


def test_a_wrong_or_revoked_token_is_refused(served: Served, steward: Client) -> None:
    with pytest.raises(tr.AccessDenied, match="this token is not known here"):
        tr.connect(served.url, "treering_wrong")
    made = steward.new_token("ada")
    assert made.text is not None
    with tr.connect(served.url, made.text) as ada:
        steward.revoke(made)
        with pytest.raises(tr.AccessDenied, match="this token was revoked"):
            ada.status()


class _Other(http.server.BaseHTTPRequestHandler):
    """Some other server."""

    content = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("content", [b'{"hello": "world"}', b"<html>hello</html>", b"[]"])
def test_another_server_is_told_from_ours(content: bytes) -> None:
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Other", (_Other,), {"content": content}))
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with pytest.raises(tr.ServiceError, match="is no treering server"):
            tr.connect(f"http://127.0.0.1:{other.server_address[1]}", "treering_x")
    finally:
        other.shutdown()
        other.server_close()


def test_another_path_or_version_is_said_so(served: Served) -> None:
    with pytest.raises(tr.ServiceError, match="no treering server of this version"):
        tr.connect(f"{served.url}/elsewhere", served.token())


# -- connections that break --------------------------------------------------------------------------------------------


@pytest.fixture
def breaking(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Breaking, Client]]:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    between = Breaking(served.url, replies=0)
    with tr.connect(between.url, served.token("steward")) as made:
        yield between, made
    between.close()


def charges(served: Served) -> list[float]:
    return [line["cost"] for line in served.vault.ledger() if line["cost"]]


def test_a_question_with_a_key_whose_reply_is_lost_is_charged_once(
    served: Served, breaking: tuple[Breaking, Client]
) -> None:
    between, ours = breaking
    between.lose(3)
    answer = ours.ask("origin = 'JFK'", key="mine")
    assert between.requests == 4
    assert answer == served.vault.ask("origin = 'JFK'")
    assert len(charges(served)) == 1
    assert [line["key"] for line in served.vault.ledger() if line["key"]] != []


def test_a_statement_with_a_key_whose_reply_is_lost_is_charged_once(
    served: Served, breaking: tuple[Breaking, Client]
) -> None:
    between, ours = breaking
    between.lose(2)
    statement = "SELECT month, COUNT(*) FROM t GROUP BY month"
    assert ours.sql(statement, key="mine").equals(served.vault.sql(statement))
    assert between.requests == 3
    assert len(charges(served)) == 1


def test_a_key_stands_for_one_question(steward: Client) -> None:
    steward.ask("origin = 'JFK'", key="mine")
    with pytest.raises(tr.KeyUsed, match="was used for something else"):
        steward.ask("origin = 'EWR'", key="mine")


def test_a_question_without_a_key_is_not_repeated(breaking: tuple[Breaking, Client]) -> None:
    between, ours = breaking
    between.lose(1)
    with pytest.raises(tr.ServiceError, match="whether this was charged is not known"):
        ours.ask("origin = 'JFK'")
    assert between.requests == 1


def test_what_charges_nothing_is_repeated(breaking: tuple[Breaking, Client]) -> None:
    between, ours = breaking
    between.lose(2)
    assert ours.status()["size"] == 20_000
    between.lose(2)
    assert ours.price("month = 1") > 0


def test_after_some_tries_it_gives_up(breaking: tuple[Breaking, Client]) -> None:
    between, ours = breaking
    between.lose(100)
    with pytest.raises(tr.ServiceError, match="broke, 5 times in a row"):
        ours.status()
    assert between.requests == client.TRIES


def test_rows_are_taken_in_once_though_the_reply_is_lost(served: Served, breaking: tuple[Breaking, Client]) -> None:
    between, ours = breaking
    between.lose(2)
    assert ours.append(frame(100, seed=2)) == 20_100
    assert between.requests == 3
    assert served.vault.size == 20_100


def test_a_token_is_not_made_twice(breaking: tuple[Breaking, Client]) -> None:
    between, ours = breaking
    between.lose(1)
    with pytest.raises(tr.ServiceError, match="broke"):
        ours.new_token("ada")
    assert [each.name for each in ours.tokens()].count("ada") == 1


def test_a_server_that_stops_is_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch, steward: Client) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    served.desk._turns.stopped = True
    with pytest.raises(tr.ServiceError, match="the server is stopping"):
        steward.ask("month = 1")
    threading.Timer(0.3, lambda: setattr(served.desk._turns, "stopped", False)).start()
    assert steward.ask("month = 1", key="after").size == 20_000


# -- stewards ----------------------------------------------------------------------------------------------------------


def rows() -> pa.Table:
    return frame(300, seed=5)


@pytest.mark.parametrize("form", ["arrow", "pandas", "polars", "dicts"])
def test_frames_of_every_kind_are_appended(served: Served, steward: Client, form: str) -> None:
    forms: dict[str, Callable[[], Any]] = {
        "arrow": rows,
        "pandas": lambda: rows().to_pandas(),
        "polars": lambda: pl.from_arrow(rows()),
        "dicts": lambda: rows().to_pylist(),
    }
    before = served.vault.size
    assert steward.append(forms[form]()) == before + 300 == served.vault.size


@pytest.mark.parametrize(
    "name", ["r.csv", "r.csv.gz", "r.tsv", "r.parquet", "r.arrow", "r.feather", "r.ndjson", "r.txt"]
)
def test_files_of_every_kind_are_appended(served: Served, steward: Client, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith((".csv", ".txt")):
        csv.write_csv(rows(), path)
    elif name.endswith(".csv.gz"):
        csv.write_csv(rows(), tmp_path / "plain.csv")
        path.write_bytes(gzip.compress((tmp_path / "plain.csv").read_bytes()))
    elif name.endswith(".tsv"):
        csv.write_csv(rows(), path, csv.WriteOptions(delimiter="\t"))
    elif name.endswith(".parquet"):
        parquet.write_table(rows(), path)
    elif name.endswith(".ndjson"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows().to_pylist()))
    else:
        feather.write_feather(rows(), path, compression="uncompressed")
    assert steward.append(path) == 20_300 == served.vault.size


def test_a_file_with_another_delimiter_is_appended(steward: Client, tmp_path: Path) -> None:
    csv.write_csv(rows(), tmp_path / "r.csv", csv.WriteOptions(delimiter="|"))
    assert steward.append(tr.RowFile(tmp_path / "r.csv", delimiter="|")) == 20_300


def test_rows_with_a_key_are_taken_in_once(steward: Client) -> None:
    assert [steward.append(rows(), key="may") for _ in range(3)] == [20_300] * 3


def test_rows_that_do_not_fit_can_be_dropped_and_it_is_said(steward: Client) -> None:
    bad = [{"origin": "XX", "month": 3, "late": "no"}, {"origin": "JFK", "month": 3, "late": "no"}]
    with pytest.warns(UserWarning, match="1 of 2 rows did not fit and was dropped"):
        assert steward.append(bad, "drop") == 20_001


@pytest.mark.parametrize("given", [3, "rows.csv", pd.Series([1]).items(), [3]])
def test_what_is_no_table_is_refused_here(steward: Client, given: Any) -> None:
    with pytest.raises(tr.DataError, match="rows come as an Arrow table"):
        steward.append(given)


def test_a_file_that_is_not_there_is_refused_here(steward: Client, tmp_path: Path) -> None:
    with pytest.raises(tr.DataError, match="there is no file"):
        steward.append(tmp_path / "nothing.csv")


def test_the_ledger_is_the_vaults_over_several_pages(
    served: Served, steward: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward.ask("origin = 'JFK'")
    monkeypatch.setattr(client, "PAGE", 3)
    whole = json.loads(json.dumps(list(served.vault.ledger())))
    assert list(steward.ledger()) == whole
    assert list(steward.ledger(after=4)) == whole[4:]


def test_tokens_are_made_listed_and_revoked(steward: Client) -> None:
    made = steward.new_token("ada", days=2, answers=10, budget=0.1)
    assert made.text is not None
    assert made.text not in repr(made)
    listed = {each.id: each for each in steward.tokens()}
    assert (listed[made.id].name, listed[made.id].answers, listed[made.id].budget) == ("ada", 10, 0.1)
    assert (made.expires is not None, listed[made.id].text) == (True, None)
    steward.revoke(made.id)
    assert {each.id: each for each in steward.tokens()}[made.id].revoked is not None
    with pytest.raises(tr.ParameterError, match="no such token"):
        steward.revoke(made.id)


def test_events_tell_when_rows_come(steward: Client) -> None:
    told = steward.events()
    assert next(told)["size"] == 20_000
    steward.append(rows())
    assert next(told)["size"] == 20_300


def test_a_stream_that_is_refused_says_why(served: Served, steward: Client) -> None:
    made = steward.new_token("ada")
    with tr.connect(served.url, str(made.text)) as ada:
        steward.revoke(made)
        with pytest.raises(tr.AccessDenied, match="revoked"):
            next(ada.events())


# -- in a notebook, and light ------------------------------------------------------------------------------------------


def test_it_shows_itself(served: Served, steward: Client) -> None:
    assert repr(steward) == f"Client('{served.url}')"
    assert "20,000 rows" in steward._repr_html_()
    assert "rings" in steward._repr_html_()


def test_an_analyst_needs_no_engine(served: Served) -> None:
    code = f"""
import json, sys, treering as tr
client = tr.connect({served.url!r}, {served.token()!r})
client.ask("month = 3")
asked = set(sys.modules)
client.sql("SELECT month, COUNT(*) FROM t GROUP BY month")
client.schema
print(json.dumps([sorted({{name.split('.')[0] for name in each}}) for each in (asked, sys.modules)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after_asking, after_tables = (set(each) for each in json.loads(done.stdout))
    assert not {"numpy", "pyarrow", "duckdb", "numba", "ibis", "opendp", "apsw", "sqlglot"} & after_asking
    assert not {"duckdb", "numba", "ibis", "opendp", "apsw"} & after_tables
    assert {"numpy", "pyarrow"} <= after_tables


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=r"pip install 'treering\[client\]'"):
        tr.connect("http://127.0.0.1:9", "treering_x")
