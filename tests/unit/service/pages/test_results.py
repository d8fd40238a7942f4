"""Answers, tables and prices as the page shows them."""

from __future__ import annotations

import base64
import csv
import io

import pyarrow as pa
import pytest

from treering.answer import Answer, Bill, Price
from treering.errors import ParameterError
from treering.service.pages.results import SHOWN, counted_rows, priced, released, wish
from treering.shown import HOLDING, MARK, TOGETHER


def read(found: dict[str, object]) -> list[dict[str, str]]:
    """The file that a result has in it."""
    kind, content = str(found["csv"]).split(",")
    assert kind == "data:text/csv;base64"
    return list(csv.DictReader(io.StringIO(base64.b64decode(content).decode())))


def table(groups: int, **more: list[object]) -> pa.Table:
    columns = {"month": list(range(groups)), "n": [100 * each for each in range(groups)], "n_margin": [7.5] * groups}
    return pa.table({**columns, **more}).replace_schema_metadata({MARK: b"1", HOLDING: TOGETHER})


def test_a_count_says_what_it_cost_and_what_is_left() -> None:
    answer = Answer(0.25, 0.125, 2000, "measured", 0.0625)
    found = counted_rows(answer, Bill(cost=0.02, remaining=0.5), 1.0)
    assert (found["free"], found["share"], found["left"]) == (False, "2%", "50%")
    assert found["said"] == f"500 plus or minus {answer.count_margin} of 2,000 rows. It cost 2% of a row's budget."
    (row,) = read(found)
    assert (row["count"], row["count_margin"], row["value"], row["kind"]) == (
        "500",
        f"{answer.count_margin}",
        "0.25",
        "measured",
    )
    assert counted_rows(answer, Bill(remaining=0.5), 1.0)["said"].endswith("It was free.")


def test_a_table_has_each_number_with_its_margin_and_bars_for_the_first() -> None:
    found = released(table(3, third=[1.5, 2.5, None], third_margin=[0.25, 0.25, None]), 900, Bill(remaining=1), 1.0)
    assert [head["name"] for head in found["heads"]] == ["month", "n", "third"]
    assert [head["bars"] for head in found["heads"]] == [False, True, False]
    assert [[cell["text"] for cell in row] for row in found["rows"]] == [
        ["0", "0 ± 8", "1.50 ± 0.25"],
        ["1", "100 ± 8", "2.50 ± 0.25"],
        ["2", "200 ± 8", "NULL"],
    ]
    assert all(row[1]["svg"].count("whisker") == 3 for row in found["rows"])
    assert found["holding"] == TOGETHER.decode()
    assert [row["n"] for row in read(found)] == ["0", "100", "200"]


def test_bars_need_labels_and_more_than_one_group_and_not_too_many() -> None:
    for each in (table(1), table(41), table(3).select(["n", "n_margin"])):
        assert not any(head["bars"] for head in released(each, 10, Bill(remaining=1), 1.0)["heads"])


def test_of_a_long_table_the_file_has_all() -> None:
    found = released(table(SHOWN + 5), 10, Bill(remaining=1), 1.0)
    assert (len(found["rows"]), found["length"], found["more"]) == (SHOWN, SHOWN + 5, True)
    assert len(read(found)) == SHOWN + 5


def test_a_price() -> None:
    free, dear = Price("rings", 0.0, 1.0, "rho", True, True), Price("pmwg", 0.005, 1.0, "rho", False, False)
    assert priced(free, 1.0)["free"]
    found = priced(dear, 0.1)
    assert (found["share"], found["most"], found["exact"], found["enough"]) == ("5%", "0.005", False, False)


@pytest.mark.parametrize("text", ["0", "-3", "a few", "100%", "0%", "inf", "nan", "%", "1e999"])
def test_a_margin_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="within"):
        wish(text)
