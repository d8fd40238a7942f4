"""Errors about a file's columns name the file; those about a row name it already, and stay as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from treering.errors import DataError
from treering.trusted.rows.batches import _about

FILE: Any = SimpleNamespace(path="rows.csv")


def test_an_error_about_a_column_names_the_file() -> None:
    with pytest.raises(DataError) as caught, _about(FILE):
        raise DataError("has no column a", column="a")
    assert (str(caught.value), caught.value.row, caught.value.column) == ("rows.csv: has no column a", None, "a")


def test_an_error_about_a_row_stays_as_it_is() -> None:
    error = DataError("rows.csv, line 3: is too large", row=3, column="a")
    with pytest.raises(DataError) as caught, _about(FILE):
        raise error
    assert caught.value is error


def test_without_an_error_nothing_is_raised() -> None:
    with _about(FILE):
        pass
