"""Estimates and synthetic rows over HTTP: free, without a bound, from what was released."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import treering as tr
from support.office import Office, office


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with office(tmp_path_factory.mktemp("estimates") / "v") as opened:
        yield opened


def test_an_estimate_is_free_and_is_called_so(desk: Office) -> None:
    headers = desk.known("analyst")
    refused = desk.ask(headers, query="late = 'no'", estimate=True)
    assert refused.status_code in (400, 422)
    assert "nothing was released yet" in refused.text
    told = desk.ask(headers, query="late = 'no'").json()
    guess = desk.ask(headers, query="late = 'no'", estimate=True).json()
    assert (guess["kind"], guess["error"], guess["cost"]) == ("estimate", 1.0, 0)
    assert guess["count"] == pytest.approx(told["count"], abs=told["count_margin"] + 10)
    several = desk.ask(headers, queries=["late = 'no'", "month = 2"], estimate=True).json()
    assert [each["kind"] for each in several["answers"]] == ["estimate"] * 2
    assert desk.vault.ask("month = 2", estimate=True).kind == "estimate"


@pytest.mark.parametrize("more", [{"dry_run": True}, {"within": 100.0}])
def test_rejects_an_estimate_with_what_is_not_for_it(desk: Office, more: dict[str, object]) -> None:
    assert desk.ask(desk.known("analyst"), query="late = 'no'", estimate=True, **more).status_code == 422


def test_synthetic_rows_come_from_any_vault(desk: Office) -> None:
    desk.vault.ask("late = 'no'")
    rows = desk.vault.synthesize(500)
    assert rows.num_rows == 500
    again = tr.GrowingDatabase(desk.vault.schema)
    assert again.append(rows) == 500


def test_numbers_are_compared_with_any_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    schema = tr.Schema({"cost": tr.numbers(0, 500, step=1, edges=[0, 100, 500])})
    place = tmp_path_factory.mktemp("finer") / "v"
    with tr.Vault.create(place, schema, 10.0, 1e-6) as vault:
        vault.append([{"cost": float(each % 200)} for each in range(4000)])
        (query,) = vault.queries(["cost >= 37.5"])
        assert vault.ask(query) == vault.ask("cost >= 37.5")
        with pytest.raises(tr.QueryError, match="query 1"):
            vault.queries(["cost >= 1", "nothing = 1"])
        with pytest.raises(tr.QueryError) as caught:
            vault.queries(["nothing = 1"])
        assert "query 0" not in str(caught.value)
