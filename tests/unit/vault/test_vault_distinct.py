"""Distinct persons, and rows with at most so many of each: as answers, in SQL, by ledger, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from support.clinic import SCHEMA, WARDS, first, matching, patients, vault, visits
from treering.errors import BudgetExceeded, GuaranteeError, KeyUsed, ParameterError, QueryError

FRAME = visits(400)
GROUPED = "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward ORDER BY ward"


@pytest.fixture
def clinic(tmp_path: Path) -> Any:
    with vault(tmp_path / "clinic", FRAME) as made:
        yield made


# -- answers -----------------------------------------------------------------------------------------------------------


def test_counts_persons_not_rows(clinic: tr.Vault) -> None:
    answer = clinic.ask("ward = 'surgery'", count="persons")
    assert (answer.count, answer.size, answer.of) == (patients(FRAME, ward="surgery"), 400, "persons")
    assert clinic.ask("ward = 'surgery'").count == matching(FRAME, ward="surgery").num_rows


def test_all_persons_and_none_are_public(clinic: tr.Vault) -> None:
    every = clinic.ask("ward IN ('surgery', 'medicine', 'children', 'eyes', 'heart', 'skin')", count="persons")
    nobody = clinic.ask("month > 12", count="persons")
    assert [(each.count, each.error) for each in (every, nobody)] == [(400, 0.0), (0, 0.0)]
    assert clinic.spent == 0


def test_keeps_persons_current_and_charges_first_rows_only(tmp_path: Path) -> None:
    later = visits(600, seed=1)  # New patients beside those that are known.
    with vault(tmp_path / "clinic", FRAME.slice(0, 3000)) as made:
        made.ask("ward = 'skin'", count="persons")
        made.append(FRAME.slice(3000))
        assert made.ask("ward = 'skin'", count="persons").count == patients(FRAME, ward="skin")
        renamed = later.set_column(0, "patient", pa.array([f"new {name}" for name in later["patient"].to_pylist()]))
        made.append(renamed)
        both = pa.concat_tables([FRAME, renamed])
        answer = made.ask("ward = 'skin'", count="persons")
        assert (answer.count, answer.size) == (patients(both, ward="skin"), 1000)
        assert made.price("ward = 'skin'", count="persons") == 0
    with tr.Vault.open(tmp_path / "clinic") as again:
        assert again.ask("ward = 'skin'", count="persons") == answer
        again.append(visits(30, seed=5).set_column(0, "patient", pa.array(["x"] * visits(30, seed=5).num_rows))[:20])
        assert again.ask("ward = 'skin'", count="persons").size == 1001
        assert again.verify()["size"] == again.size


def test_a_union_is_not_the_sum_of_its_groups(clinic: tr.Vault) -> None:
    """A patient may be in several wards: the broken twin would answer from the wards, for nothing."""
    clinic.sql(GROUPED)
    both = "ward IN ('surgery', 'medicine')"
    assert clinic.price(both, count="persons") > 0
    answer = clinic.ask(both, count="persons").count
    one = [patients(FRAME, ward=ward) for ward in ("surgery", "medicine")]
    true = len(FRAME.filter(pa.compute.field("ward").isin(["surgery", "medicine"])).column("patient").unique())
    assert (answer, answer < sum(one)) == (true, True)


def test_the_complement_is_not_the_total_minus(clinic: tr.Vault) -> None:
    clinic.ask("ward = 'surgery'", count="persons")
    assert clinic.price("ward <> 'surgery'", count="persons") > 0


def test_what_is_known_is_free_by_itself_too(clinic: tr.Vault) -> None:
    clinic.sql(GROUPED)
    assert clinic.price("ward = 'heart'", count="persons") == 0
    assert clinic.price_many([f"ward = '{ward}'" for ward in WARDS], count="persons").most == 0


def test_overlapping_questions_are_asked_together(clinic: tr.Vault) -> None:
    asked = ["ward = 'surgery'", "ward IN ('surgery', 'eyes')", "month = 3", "ward = 'skin'"]
    found = [each.count for each in clinic.ask_many(asked, count="persons")]
    assert found[0] == patients(FRAME, ward="surgery")
    assert found[2:] == [patients(FRAME, month=3), patients(FRAME, ward="skin")]


def test_a_cap_on_groups_counts_each_person_in_the_first_ones(clinic: tr.Vault) -> None:
    asked = [f"ward = '{ward}'" for ward in WARDS]
    found = clinic.ask_many(asked, count="persons", per_person=1)
    seen = first(FRAME, 1)
    assert [each.count for each in found] == [matching(seen, ward=ward).num_rows for ward in WARDS]
    assert found[0].of == "persons, each in at most 1 of the groups"


# -- caps --------------------------------------------------------------------------------------------------------------


def test_counts_at_most_so_many_rows_of_each_person(clinic: tr.Vault) -> None:
    answer = clinic.ask("ward = 'surgery'", per_person=3)
    assert answer.count == first(matching(FRAME, ward="surgery"), 3).num_rows
    assert answer.of == "rows, at most 3 of each person"


def test_a_cap_is_for_all_groups_together(clinic: tr.Vault) -> None:
    found = [each.count for each in clinic.ask_many([f"ward = '{ward}'" for ward in WARDS], per_person=3)]
    assert found == [matching(first(FRAME, 3), ward=ward).num_rows for ward in WARDS]
    assert clinic.price("ward = 'surgery'", per_person=3) > 0  # By itself it is another number.
    assert clinic.price_many([f"ward = '{ward}'" for ward in reversed(WARDS)], per_person=3).most == 0


def test_a_cap_at_the_limit_is_none(clinic: tr.Vault) -> None:
    answer = clinic.ask("ward = 'surgery'", per_person=30)
    assert (answer.of, answer.count) == ("rows", matching(FRAME, ward="surgery").num_rows)


def test_capped_sums_and_averages(clinic: tr.Vault) -> None:
    seen = first(FRAME, 3)
    for text in (
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY ward ORDER BY ward",
        "SELECT /*+ PER_PERSON(3) */ ward, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM v GROUP BY 1 ORDER BY 1",
    ):
        found = clinic.sql(text, per_person=3 if "/*" not in text else None).to_pylist()
        for row, ward in zip(found, sorted(WARDS), strict=True):
            costs = matching(seen, ward=ward).column("cost").to_pylist()
            assert (row["n"], row["s"]) == (len(costs), pytest.approx(sum(costs), abs=5))
            assert row["a"] == pytest.approx(sum(costs) / len(costs), rel=0.01)


# -- SQL ---------------------------------------------------------------------------------------------------------------


def test_distinct_persons_by_group_with_where_and_having(clinic: tr.Vault) -> None:
    cheap = FRAME.filter(pa.compute.field("cost") <= 50)
    found = clinic.sql(
        "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits WHERE cost <= 50 GROUP BY ward "
        "HAVING COUNT(DISTINCT patient) > 200 ORDER BY n"
    )
    true = {ward: patients(cheap, ward=ward) for ward in WARDS}
    assert dict(zip(found["ward"].to_pylist(), found["n"].to_pylist(), strict=True)) == {
        ward: number for ward, number in true.items() if number > 200
    }


def test_ratios_of_rows_and_persons(clinic: tr.Vault) -> None:
    """Two mechanisms answer one statement."""
    text = "SELECT month, COUNT(*) / COUNT(DISTINCT patient) AS each FROM visits GROUP BY month ORDER BY month"
    found = clinic.sql(text, key="ratio")
    for month, each in zip(found["month"].to_pylist(), found["each"].to_pylist(), strict=True):
        assert each == pytest.approx(matching(FRAME, month=month).num_rows / patients(FRAME, month=month), rel=0.01)
    assert clinic.price_sql(text).mechanism == "rings and persons"
    assert clinic.sql(text, key="ratio").equals(found)
    clinic.append(visits(3, seed=9).set_column(0, "patient", pa.array(["y"] * visits(3, seed=9).num_rows))[:5])
    assert clinic.sql(text, key="ratio").equals(found)


def test_columns_are_called_as_written(clinic: tr.Vault) -> None:
    found = clinic.sql("SELECT COUNT(DISTINCT patient), COUNT(DISTINCT patient) FILTER (WHERE month = 1) FROM visits")
    assert found.column_names[0] == "count(DISTINCT patient)"
    assert found.column(0).to_pylist() == [400]
    assert found.column(2).to_pylist() == [patients(FRAME, month=1)]


def test_explain_prices_persons(clinic: tr.Vault) -> None:
    row = clinic.sql(f"EXPLAIN {GROUPED}").to_pylist()[0]
    assert (row["mechanism"], row["numbers"], clinic.spent) == ("persons", 6, 0)
    assert row["price"] == clinic.price_sql(GROUPED).most > 0


def test_keys_are_for_one_way_of_counting(clinic: tr.Vault) -> None:
    asked = "ward = 'eyes'"
    answer = clinic.ask(asked, count="persons", key="one")
    assert clinic.ask(asked, count="persons", key="one") == answer
    with pytest.raises(KeyUsed):
        clinic.ask(asked, key="one")
    assert clinic.ask(asked, per_person=3, key="two").of == "rows, at most 3 of each person"


# -- ledgers -----------------------------------------------------------------------------------------------------------


def test_two_ledgers_share_the_promise(clinic: tr.Vault) -> None:
    listed = {each["name"]: each for each in clinic.status()["mechanisms"]}
    assert {name: each["share"] for name, each in listed.items()} == {"rings": 0.1, "persons": 0.9}
    clinic.ask("ward = 'skin'", count="persons")
    listed = {each["name"]: each for each in clinic.status()["mechanisms"]}
    assert listed["rings"]["spent"] == 0 < listed["persons"]["spent"] < 0.9 * clinic.total
    assert (listed["persons"]["persons"], listed["persons"]["series"][0]["groups"]) == (400, 1)


def test_a_vault_whose_persons_have_one_row_counts_rows(tmp_path: Path) -> None:
    frame = first(FRAME, 1)
    with vault(tmp_path / "one", frame, rows_per_person=1) as made:
        assert [each["name"] for each in made.status()["mechanisms"]] == ["rings"]
        answer = made.ask("ward = 'skin'", count="persons")
        assert (answer.count, answer.of) == (patients(frame, ward="skin"), "rows")
        assert made.sql(GROUPED).column("n").to_pylist() == [patients(frame, ward=ward) for ward in sorted(WARDS)]


def test_what_persons_have_not_used_is_given_up(clinic: tr.Vault) -> None:
    clinic.ask("ward = 'skin'", count="persons")
    clinic.add("pmwg", 0.5)
    assert clinic.ask("ward = 'skin'", count="persons").count == patients(FRAME, ward="skin")
    assert clinic.price("ward = 'skin'", count="persons") == 0


def test_within_pays_for_no_more_than_is_wished(tmp_path: Path) -> None:
    with vault(tmp_path / "clinic", FRAME, epsilon=100.0) as made:
        answer = made.ask("ward = 'skin'", count="persons", within=5)
        assert answer.count_margin <= 6
        assert made.price("ward = 'skin'", count="persons", within=6) == 0
        assert made.price("ward = 'skin'", count="persons", within=2) > 0
        sharper = made.ask("ward = 'skin'", count="persons", within=2)
        assert sharper.margin < answer.margin


def test_pure_promises_keep_persons_by_trees(tmp_path: Path) -> None:
    with vault(tmp_path / "pure", FRAME.slice(0, 2000), delta=0.0) as made:
        for start in range(2000, 6000, 1000):
            made.ask("ward = 'skin'", count="persons")
            made.append(FRAME.slice(start, 1000))
        rows = FRAME.slice(0, made.size)
        assert made.ask("ward = 'skin'", count="persons").count == patients(rows, ward="skin")
    with tr.Vault.open(tmp_path / "pure") as again:
        assert again.ask("ward = 'skin'", count="persons").count == patients(rows, ward="skin")


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"count": "persons"}, {"per_person": 3}])
def test_rejects_persons_where_no_column_is_declared(given: dict[str, Any], tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "plain", SCHEMA, epsilon=1.0, delta=1e-6) as made:
        made.append(FRAME.drop_columns(["patient"]))
        with pytest.raises(ParameterError, match="does not know whose its rows are"):
            made.ask("ward = 'skin'", **given)
        with pytest.raises(QueryError, match="how many different values there are is not released"):
            made.sql("SELECT COUNT(DISTINCT ward) FROM visits")
        with pytest.raises(ParameterError, match="must name the column that says whose a row is"):
            made.add("persons", 0.1)


def test_rejects_persons_where_nothing_counts_them(tmp_path: Path) -> None:
    with vault(tmp_path / "rows", FRAME, mechanism="rings") as made:
        with pytest.raises(ParameterError, match=r"add one: vault\.add\('persons', share\)"):
            made.ask("ward = 'skin'", count="persons")
        made.add("persons", 0.5)
        assert made.ask("ward = 'skin'", count="persons").count == patients(FRAME, ward="skin")


@pytest.mark.parametrize("cap", [0, -1, 31])
def test_rejects_per_person_outside_the_limit(cap: int, clinic: tr.Vault) -> None:
    for ask in (lambda: clinic.ask("ward = 'skin'", per_person=cap), lambda: clinic.sql(GROUPED, per_person=cap)):
        with pytest.raises(ParameterError, match="from 1 to 30, the most rows that a person can have"):
            ask()


@pytest.mark.parametrize(
    ("given", "said"), [({"per_person": 2.5}, "a whole number"), ({"count": "people"}, "'persons'")]
)
def test_rejects_wants_that_say_nothing(given: dict[str, Any], said: str, clinic: tr.Vault) -> None:
    with pytest.raises(ParameterError, match=said):
        clinic.ask("ward = 'skin'", **given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT COUNT(DISTINCT ward) FROM v", "COUNT\\(DISTINCT patient\\) counts persons"),
        ("SELECT COUNT(DISTINCT ward, month) FROM v", "not released"),
        ("SELECT patient FROM v", "says whose a row is"),
        ("SELECT patient, COUNT(*) FROM v GROUP BY patient", "says whose a row is"),
        ("SELECT COUNT(*) FROM v WHERE patient = 'p1'", "says whose a row is"),
        ("SELECT COUNT(patient) FROM v", "says whose a row is"),
        ("SELECT ward, COUNT(DISTINCT patient) OVER () FROM v GROUP BY ward", "not as a window"),
        ("SELECT COUNT(DISTINCT patient) FROM (SELECT ward, COUNT(*) n FROM v GROUP BY ward) t", "not among released"),
        ("SELECT /*+ PER_PERSON(3) */ MEDIAN(cost) FROM v", "quantiles"),
        ("SELECT /*+ PER_PERSON(3) */ /*+ PER_PERSON(4) */ COUNT(*) FROM v", "stated once"),
        ("SELECT /*+ PER_PERSON(0) */ COUNT(*) FROM v", "from 1 to 30"),
    ],
)
def test_rejects_statements_that_ask_more_of_persons(text: str, said: str, clinic: tr.Vault) -> None:
    with pytest.raises((QueryError, ParameterError), match=said):
        clinic.sql(text)
    assert clinic.spent == 0


def test_rejects_two_caps(clinic: tr.Vault) -> None:
    with pytest.raises(QueryError, match="two caps"):
        clinic.sql("SELECT /*+ PER_PERSON(3) */ COUNT(*) FROM v", per_person=4)


def test_rejects_persons_of_a_mechanism_that_counts_rows(clinic: tr.Vault) -> None:
    with pytest.raises(ParameterError, match="of kind 'persons'"):
        clinic.ask("ward = 'skin'", mechanism="rings", count="persons")
    with pytest.raises(ParameterError, match="of kind 'rings'"):
        clinic.ask("ward = 'skin'", mechanism="persons")


def test_rejects_weights_of_persons(clinic: tr.Vault) -> None:
    halves = tr.Query.weighted(SCHEMA, [0.5, 1, 1, 1, 1, 1], attributes=["ward"])
    with pytest.raises(QueryError, match="persons are counted"):
        clinic.ask(halves, count="persons")


def test_refuses_what_cannot_be_known(tmp_path: Path) -> None:
    with vault(tmp_path / "poor", FRAME.slice(0, 50), epsilon=1e-4) as made:
        with pytest.raises(GuaranteeError, match="it takes at least"):
            made.ask("ward = 'skin'", count="persons")
        with pytest.raises(BudgetExceeded):
            made.ask("ward = 'skin'", count="persons", within=1)
        assert made.spent == 0


@pytest.mark.parametrize("bad", [None, 2.0**60])
def test_rejects_a_person_that_is_none(bad: Any, clinic: tr.Vault) -> None:
    names = pa.array([bad], pa.float64()) if isinstance(bad, float) else pa.array([bad], pa.string())
    row = pa.table({"patient": names, "ward": ["skin"], "month": [1], "cost": [1]})
    with pytest.raises(tr.DataError, match="person"):
        clinic.append(row)
