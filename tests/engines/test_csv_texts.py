"""The same nasty texts give the same cells, or the same refusal, however they come."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.coded import coded
from support.engines import histogram
from support.golden import TEXTS, kinds
from treering.domain.attribute import Attribute, Categories
from treering.domain.calendar import Dated
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted.engines.source import Source
from treering.trusted.rows.files import NULLS

WORDS = [text for text in TEXTS if text is not None and text not in NULLS and "\0" not in text]
FLAGS: list[dict[str, bool]] = [{}, {"missing": True}, {"other": True}, {"other": True, "missing": True}]
CASES = [pytest.param(name, flags, id=f"{name}, {'+'.join(flags) or 'strict'}") for name in kinds() for flags in FLAGS]


def cells(path: Path, schema: Schema) -> tuple[dict[int, int], int]:
    """The histogram of a file, and how many rows do not fit."""
    return counted(RowFile(path), schema)


def counted(frame: Any, schema: Schema) -> tuple[dict[int, int], int]:
    found, dropped = coded(frame, schema, drop=True)
    return dict(Counter(found.tolist())), dropped


@pytest.mark.parametrize(("name", "flags"), CASES)
def test_a_csv_file_that_is_appended_and_one_at_an_address_agree(
    tmp_path: Path, name: str, flags: dict[str, bool]
) -> None:
    schema = Schema({"only": kinds(**flags)[name]})
    path = tmp_path / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("id", "only"), *enumerate(WORDS)])
    source = Source.of(f"csv://{path}", schema)
    assert (histogram(source, drop=True), source.increment(None, "drop").dropped) == cells(path, schema)


@pytest.mark.parametrize(("name", "flags"), CASES)
def test_texts_with_a_type_are_the_texts_of_a_csv_file_or_are_refused_for_it(
    tmp_path: Path, name: str, flags: dict[str, bool]
) -> None:
    """Where a column of texts can be no value of the attribute, its type is refused, and no text becomes a null."""
    attribute: Attribute = kinds(**flags)[name]
    schema, table = Schema({"only": attribute}), pa.table({"only": pa.array(WORDS, pa.string())})
    pq.write_table(table, tmp_path / "rows.parquet")
    lines = "".join(json.dumps({"only": text}) + "\n" for text in WORDS)
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("only",), *((text,) for text in WORDS)])
    fits = isinstance(attribute, Dated) or (isinstance(attribute, Categories) and isinstance(attribute.values[0], str))
    frames: list[Any] = [table, *(RowFile(tmp_path / f"rows.{ending}") for ending in ("parquet", "jsonl"))]
    for frame in frames:
        if not fits:
            with pytest.raises(DataError, match="only"):
                counted(frame, schema)
        else:
            assert counted(frame, schema) == cells(tmp_path / "rows.csv", schema)
