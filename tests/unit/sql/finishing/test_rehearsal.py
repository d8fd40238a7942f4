"""What is sure to fail in the second stage fails before anything is charged; what may not fail is not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr
from support.corpus import SCHEMA as CORPUS, statements
from treering.errors import QueryError
from treering.sql.finishing import rehearsal
from treering.sql.finishing.rehearsal import NOTE, rehearse
from treering.sql.split import split

SCHEMA = tr.Schema(
    {"late": tr.categories("no", "yes"), "month": tr.integers(1, 12), "day": tr.dates("2013-01-01", "2013-12-31")}
)

FAILING = (
    "SELECT CAST(CONCAT(COUNT(*), 'x') AS INTEGER) FROM t",
    "SELECT month, COUNT(*) FROM t GROUP BY month ORDER BY CAST(CONCAT(COUNT(*), 'x') AS INTEGER)",
    "SELECT month FROM t GROUP BY month HAVING CAST(CONCAT(COUNT(*), 'x') AS INTEGER) > 1",
    "SELECT SUBSTR(COUNT(*)) FROM t",
)
WORKING = (
    "SELECT LN(COUNT(*)), SQRT(COUNT(*)), 1.0 / COUNT(*) FROM t",
    "SELECT late, MEDIAN(day), MEDIAN(month), AVG(month), SUM(month) FROM t GROUP BY late",
    "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY n DESC LIMIT 5",
    "SELECT MIN(n), MAX(n) FROM (SELECT month, COUNT(*) AS n FROM t GROUP BY month)",
)


@pytest.mark.parametrize("text", FAILING)
def test_what_is_sure_to_fail_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as refused:
        rehearse(split(text, SCHEMA))
    assert refused.value.__notes__ == [NOTE]


@pytest.mark.parametrize("text", WORKING)
def test_what_may_not_fail_is_not_refused(text: str) -> None:
    rehearse(split(text, SCHEMA))


def test_the_corpus_is_not_refused() -> None:
    asked = [each for each in statements() if each.refused is None]
    assert len(asked) > 100
    for each in asked:
        rehearse(split(each.sql, CORPUS))


def test_an_unexpected_failure_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("m0")

    monkeypatch.setattr(rehearsal, "worked_out", fails)
    with pytest.raises(QueryError, match="cannot be worked out") as refused:
        rehearse(split(WORKING[0], SCHEMA))
    assert refused.value.__notes__ == [NOTE]


@pytest.mark.parametrize("text", FAILING[1:3])
@pytest.mark.parametrize("key", [None, "k"])
def test_nothing_is_charged_for_it(tmp_path: Path, text: str, key: str | None) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0, delta=1e-9) as vault:
        vault.append([{"late": "no", "month": 1, "day": "2013-02-01"}] * 100)
        before = vault.status()
        with pytest.raises(QueryError) as refused:
            vault.sql(text, key=key)
        assert refused.value.bill is None
        assert vault.status() == before
