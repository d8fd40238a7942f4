"""Ten thousand predicates and statements with something wrong in them: only answers and refusals, and nothing private.

`support.canaries` says what is private, and how it is told from noise.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support import canaries
from support.asgi import Reply, Request, call
from support.corpus import statements
from support.mutations import mutations
from treering.service import wire
from treering.service.access import Register
from treering.service.app import make_app
from treering.service.desk import Desk, Limits

PREDICATES = (
    "origin = 'JFK' AND dep_delay >= 60",
    "origin IN ('JFK', 'EWR') AND month BETWEEN 3 AND 7",
    "NOT (carrier = 'UA' OR carrier = 'AA') AND hour < 12",
    "month = 2 OR month = 12",
    "dep_delay < 0 AND distance >= 1000 AND cancelled = FALSE",
    "distance BETWEEN 250 AND 1500 OR origin <> 'LGA'",
    "cancelled AND month >= 7",
    "hour IN (5, 6, 7, 8) AND origin = 'EWR'",
    "carrier NOT IN ('UA', 'DL') AND dep_delay >= 15",
    "origin IS NULL OR (month <= 6 AND NOT hour >= 20)",
    "TRUE AND (distance < 500 OR distance >= 2500)",
    '"origin" = \'LGA\' AND "hour" <> 17 AND 1 <= month',
)
ABSENT = re.compile(r"\b(day|weekday|time_hour|week|date|dow)\b", re.IGNORECASE)
"""Attributes that the canaries' schema does not have."""

MOST_TRUE = 5
"""The most noisy counts that may be the true ones by chance. Among 2,000 different ones that is 0.2 expected with
`CHANCE`, and more than 5 come with a probability below 1e-7."""
MOST_SECRET = 0.05
"""The largest share of statements whose larger numbers may all be secret by chance: a few in a thousand are."""


@dataclass
class Ended:
    """How the requests ended."""

    statuses: Counter[tuple[int, str]] = field(default_factory=Counter)
    leaks: list[Any] = field(default_factory=list)
    true: set[str] = field(default_factory=set)
    """The predicates whose true count is in their answer."""
    tables: int = 0
    secret_tables: int = 0

    def check(self, most_true: int = MOST_TRUE) -> None:
        """Fail if a server failed, or told something private."""
        assert [each for each in self.statuses if not 200 <= each[0] < 500 or each[0] in range(300, 400)] == []
        assert self.leaks == []
        assert len(self.true) <= most_true, self.true
        assert self.secret_tables <= 3 + MOST_SECRET * self.tables


@dataclass
class Fuzzed:
    """A server to be asked, its vault, and what it logs."""

    app: Any
    vault: tr.Vault
    desk: Desk
    log: io.StringIO

    def ask(self, questions: Sequence[tuple[str, str]], seed: int) -> Ended:
        """Ask all of these, each a kind and a text, each in one of the ways in which one can."""
        token = self.desk.register.issue("fuzz", "analyst")[1]
        asked = list(_requests(questions, token, np.random.default_rng(seed)))
        ended = Ended()
        for (kind, text), reply in zip(questions, call(self.app, asked), strict=True):
            self._look_at(ended, text, kind, reply)
        ended.leaks += canaries.leaks(self.log.getvalue())
        return ended

    def _look_at(self, ended: Ended, text: str, kind: str, reply: Reply) -> None:
        body = canaries.text_of(reply.body, reply.header("content-type"))
        plain = json.loads(body) if "json" in reply.header("content-type") else {}
        ended.statuses[reply.status, plain.get("code", "")] += 1
        ended.leaks += [*canaries.words(body), *canaries.leaks(str(reply.headers))]
        if reply.status != 200:
            assert "code" in plain, reply
            ended.leaks += canaries.secret(canaries.numbers(_without(body, text)))
        elif kind == "query" and "count" in plain:
            true = canaries.true_count(self.vault, tr.parse(text, canaries.SCHEMA, finer=True))
            if true in set(canaries.numbers(body)) - {0, canaries.SIZE}:
                ended.true.add(plain["question"])
        elif kind == "sql" and "most" not in plain:
            large = {each for each in canaries.numbers(_without(body, text)) if each > 1000 and each != canaries.SIZE}
            ended.tables += bool(large)
            ended.secret_tables += bool(large) and len(canaries.secret(sorted(large))) == len(large)


def _without(body: str, text: str) -> str:
    """A body without the question, which a refusal quotes."""
    return body.replace(json.dumps(text, ensure_ascii=False)[1:-1], "")


def _requests(questions: Sequence[tuple[str, str]], token: str, generator: np.random.Generator) -> Iterator[Request]:
    """Each as a request: most plainly, some with a margin, a key, for its price, or as another kind of table."""
    for place, (kind, text) in enumerate(questions):
        way, headers, more = generator.integers(10), dict[str, str](), dict[str, Any]()
        if way == 0:
            more["dry_run"] = True
        elif way == 1:
            more["within"] = float(generator.choice([1e-9, 0.001, 0.5, 1, 30_000, 1e7]))
        elif way == 2:
            headers["Idempotency_Key"] = f"key {place % 50}"
        elif way == 3 and kind == "sql":
            headers["Accept"] = str(generator.choice([wire.ARROW, wire.CSV, "text/html", "*/*"]))
        elif way == 4:
            more["mechanism"] = str(generator.choice(["rings", "nothing", "pmwg"]))
        yield Request.ask(token, {kind: text, **more}, **headers)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Whatever anybody logs. (pytest would show all of it.)"""
    found, root = io.StringIO(), logging.getLogger()
    handler, before = logging.StreamHandler(found), (root.handlers[:], root.level)
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    yield found
    root.handlers[:], _ = before
    root.setLevel(before[1])


@pytest.fixture
def fuzzed(tmp_path: Path, log: io.StringIO) -> Iterator[Fuzzed]:
    with canaries.vault(tmp_path / "v") as vault:
        desk = Desk(vault, Register(tmp_path / "v"), np.random.default_rng, Limits(waiting=10_000))
        yield Fuzzed(make_app(desk), vault, desk, log)
        desk.register.close()


def test_ten_thousand_mistakes_are_answered_or_refused_and_nothing_private_is_told(fuzzed: Fuzzed) -> None:
    """Predicates and statements in turn, so that each meets what the others have left."""
    known = [each.sql for each in statements() if not ABSENT.search(each.sql)]
    asked = [("query", text) for text in mutations(PREDICATES, 7_500, seed=22)]
    asked += [("sql", text) for text in mutations(known, 2_500, seed=23)]
    np.random.default_rng(24).shuffle(asked)
    ended = fuzzed.ask([(str(kind), str(text)) for kind, text in asked], seed=1)
    ended.check()
    assert ended.statuses[200, ""] > 500
    assert ended.statuses[422, "bad_query"] > 5_000
    assert ended.tables > 50
    assert fuzzed.log.getvalue().count('"action": "POST /api/v1/ask"') == 10_000


def test_rows_that_do_not_fit_are_refused_without_a_word_of_them(fuzzed: Fuzzed) -> None:
    token = fuzzed.desk.register.issue("steward", "steward")[1]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/csv"}
    paths = ("/api/v1/rows", "/api/v1/rows?on_invalid=drop", "/api/v1/rows?delimiter=o")
    replies = call(fuzzed.app, [Request("POST", path, canaries.UNFIT.encode(), headers) for path in paths])
    assert [reply.status for reply in replies] == [422, 200, 422]
    told = json.loads(replies[1].body)
    assert {**told, "columns": {}} == {
        "size": canaries.SIZE,
        "rows": 0,
        "dropped": 2,
        "known": False,
        "columns": {},
    }
    assert set(told["columns"]) == set(fuzzed.desk.vault.schema.names)
    everything = [*(reply.body.decode() + str(reply.headers) for reply in replies), fuzzed.log.getvalue()]
    assert [canaries.leaks(each) for each in everything] == [[]] * 4


# -- that it would be seen ---------------------------------------------------------------------------------------------


def test_a_private_number_or_text_is_recognised() -> None:
    first, second = canaries.TIMES[:2]
    for text in (
        f'{{"count": {first}}}',
        f"there are {first + second:,} rows",
        f"[{first + second}.0, 3]",
        f"matches {first}.",
        f"the value {canaries.CANARY!r} of row 3",
        f"{canaries.NUMBER_CANARY} is no month",
    ):
        assert canaries.leaks(text) != [], text
    for text in (f"{canaries.SIZE:,} rows", f'{{"hash": "a{first}f"}}', f"0.{first}", "{}", f"{first + 1}"):
        assert canaries.leaks(text) == [], text


def test_an_answer_that_tells_the_true_count_is_seen(fuzzed: Fuzzed, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"month = {month} AND hour <> {hour}" for month in (1, 2, 7, 8, 11, 12) for hour in (1, 2, 3)]
    true = [canaries.true_count(fuzzed.vault, tr.parse(text, canaries.SCHEMA, finer=True)) for text in texts]
    plain = tr.Answer.to_dict

    def told(answer: tr.Answer) -> dict[str, Any]:
        return {**plain(answer), "exactly": true}

    monkeypatch.setattr(tr.Answer, "to_dict", told)
    ended = fuzzed.ask([("query", text) for text in texts], seed=3)
    with pytest.raises(AssertionError, match="month"):
        ended.check()


def test_a_table_of_true_counts_is_seen(fuzzed: Fuzzed, monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(*_: object) -> dict[str, Any]:
        return {"columns": ["month", "n"], "rows": [[each, times] for each, times in enumerate(canaries.TIMES)]}

    monkeypatch.setattr("treering.service.wire.table_dict", exact)
    texts = [f"SELECT month, COUNT(*) + {each} FROM t GROUP BY 1" for each in range(9)]
    ended = fuzzed.ask([("sql", text) for text in texts], seed=3)
    with pytest.raises(AssertionError):
        ended.check()


def test_a_refusal_that_tells_a_count_is_seen(fuzzed: Fuzzed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise tr.QueryError(f"{canaries.TIMES[3]:,} rows match, which is too many")

    monkeypatch.setattr(fuzzed.desk, "answers", fails)
    ended = fuzzed.ask([("query", "month = 1")] * 3, seed=4)
    assert ended.leaks == [canaries.TIMES[3]] * 3


def test_a_server_error_is_seen_and_tells_nothing(fuzzed: Fuzzed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError(f"{canaries.CANARY}: {canaries.TIMES[3]}")

    monkeypatch.setattr(fuzzed.desk, "answers", fails)
    ended = fuzzed.ask([("query", "month = 1")], seed=4)
    assert ended.leaks == []
    assert ended.statuses == {(500, "internal"): 1}
    with pytest.raises(AssertionError):
        ended.check()
