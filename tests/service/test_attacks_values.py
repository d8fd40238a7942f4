"""Short questions that name many values: about columns of ten thousands of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from support.attacking import SECONDS, SLACK, Scene, ended, played
from support.office import API

SCHEMA = tr.Schema(
    {
        "month": tr.integers(1, 12),
        "place": tr.integers(1, 3000),
        "b": tr.integers(0, 60_000),
        "a": tr.integers(0, 99_999),
        "day": tr.dates("2000-01-01", "2019-12-31"),
        "late": tr.categories("no", "yes"),
    }
)
NUMBERS = range(3000)
ROWS = pa.table(
    {
        "month": [number % 12 + 1 for number in NUMBERS],
        "place": [number + 1 for number in NUMBERS],
        "b": [20 * number for number in NUMBERS],
        "a": [30 * number for number in NUMBERS],
        "day": [date(2010, number % 12 + 1, 1) for number in NUMBERS],
        "late": ["no"] * 3000,
    }
)
DAYS = [f"{2000 + number // 12}-{number % 12 + 1:02}-15" for number in range(240)]
CASES = " ".join(f"WHEN day = '{day}' OR late = 'no' THEN {number}" for number, day in enumerate(DAYS))
LONG = f"'{'3' * 9000}'"

HEAVY: dict[str, dict[str, Any]] = {
    "a group for each value": {"sql": "SELECT place, COUNT(*) FROM t GROUP BY place"},
    "a label for each value": {"sql": "SELECT b + 1 AS x, COUNT(*) FROM t GROUP BY 1"},
    "months of days": {"sql": "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM t GROUP BY 1"},
    "a quantile of many values": {"sql": "SELECT MEDIAN(a) FROM t"},
    "a quantile of fewer": {"sql": "SELECT MEDIAN(place) FROM t"},
    "groups without number": {"sql": f"SELECT COUNT(*) FROM t GROUP BY {', '.join(f'b + {n}' for n in range(900))}"},
    "texts that grow": {
        "sql": f"SELECT REPLACE(REPLACE(CAST(b AS VARCHAR), '1', {LONG}), '2', {LONG}) AS x, COUNT(*) FROM t GROUP BY 1"
    },
    "a table for each case": {"sql": f"SELECT CASE {CASES} END AS x, COUNT(*) FROM t GROUP BY 1"},
    "a set for each figure": {
        "sql": f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE a > {n})' for n in range(500))} FROM t"
    },
    "a set for each question": {"queries": [f"a = {number}" for number in range(250)]},
    "sets without number": {"queries": [f"a = {number}" for number in range(1000)]},
    "many comparisons": {"query": " OR ".join(f"a = {number}" for number in range(5000))},
    "many pairs": {"query": "NOT (" + " OR ".join(f"(b = {n} AND late = 'no')" for n in range(1800)) + ")"},
    "many parts of dates": {"query": " OR ".join(f"EXTRACT(day FROM day) = {n % 28 + 1}" for n in range(1800))},
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("attacks") / "v", SCHEMA, ROWS) as scene:
        yield scene


def test_questions_about_many_values_end_within_their_limits(scene: Scene) -> None:
    with scene.attacked() as client:
        for name, body in HEAVY.items():
            for dry_run in (True, False):
                status, seconds = ended(client, {**body, "dry_run": dry_run})
                assert status == 200 or 400 <= status < 500, name
                assert seconds <= SECONDS + SLACK, name


def test_others_do_not_wait_for_who_pays(scene: Scene) -> None:
    """Three thousand groups, released for the first time, and again; and a median of all their values."""
    with scene.process.client() as steward:
        reply = steward.post(f"{API}/tokens", json={"name": "midas"})
    texts = ("SELECT place, COUNT(*) FROM t GROUP BY place", "SELECT MEDIAN(place) FROM t")
    with scene.attacked(), scene.process.client(reply.json()["token"]) as client:
        for text in (*texts, *texts):
            assert ended(client, {"sql": text})[0] == 200
        status, _ = ended(client, {"sql": "SELECT place, late, COUNT(*) FROM t GROUP BY place, late"})
        assert status == 422


def test_many_at_once_do_not_make_others_wait(scene: Scene) -> None:
    with scene.attacked() as client, ThreadPoolExecutor(12) as pool:
        for status, _ in pool.map(lambda body: ended(client, body), [*HEAVY.values()] * 2):
            assert status == 200 or 400 <= status < 500


def test_what_was_asked_before_is_not_kept(scene: Scene) -> None:
    """Prices of different sets of 25 MB each, forty times."""
    with scene.attacked() as client:
        for first in range(0, 10_000, 250):
            asked = [f"a <= {number}" for number in range(first, first + 250)]
            status, _ = ended(client, {"queries": asked, "dry_run": True})
            assert status == 200
