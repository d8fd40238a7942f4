"""Files of rows by name: endings, and what is refused before a file is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering.errors import ParameterError
from treering.rowfile import RowFile


@pytest.mark.parametrize(
    ("name", "ending", "separated"),
    [("a.csv", ".csv", True), ("A.CSV.GZ", ".csv", True), ("b.tsv", ".tsv", True), ("c.parquet", ".parquet", False)],
)
def test_the_end_of_a_name_says_how_a_file_is_read(name: str, ending: str, separated: bool) -> None:
    file = RowFile(Path(name))
    assert (file.ending, file.separated) == (ending, separated)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"must end in one of \.csv"):
        RowFile(Path("rows.xlsx"))
    with pytest.raises(ParameterError, match="must be one character"):
        RowFile(Path("rows.csv"), delimiter="||")
    with pytest.raises(ParameterError, match="must be known to Python"):
        RowFile(Path("rows.csv"), encoding="latin-99")
