"""Drafts of schemas, by looking at rows: for samples that anyone may see.

What a draft lists is read off the rows, so it tells on them: no promise covers that.
"""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from treering.domain.attribute import Attribute, categories, integers
from treering.domain.calendar import dates
from treering.domain.numeric import MAX_STEPS, numbers
from treering.domain.schema import MAX_CELLS, Schema
from treering.errors import DataError, SchemaError
from treering.rowfile import DELIMITERS, RowFile

WARNING: Final = (
    "A schema is public. Draw it up from general knowledge or from a sample that anyone may see, never from the "
    "private rows: the values that it lists, and the ends of its ranges, would tell on them. No epsilon covers that."
)

NOTE: Final = (
    "Drafted by looking at rows: the values, edges and bounds below were read off them. That is right for rows which "
    "anyone may see. If they were private, this file tells on them, and no promise covers that."
)
"""The first line of the file of a draft."""

_MOST_CATEGORIES: Final = 50
_MOST_INTEGERS: Final = 64
_YEARS_TO_COME: Final = 10
_MOST_YEARS_OF_MONTHS: Final = 50
_BINS: Final = 8
_ENOUGH: Final = 100
"""Edges are quantiles from this many values on."""
_NEARLY_ALL: Final = 0.9
NAME_OF_IDS: Final = r"(^|.*[^a-z])(id|uuid|guid|key|nr|number|index)"
"""What a column is called that tells rows, or persons, apart."""
_NUMBER: Final = r"^\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\s*$"
_OTHER_DATE: Final = r"\s*[0-9]{1,4}[/.-][0-9]{1,2}[/.-][0-9]{1,4}(\s.*)?"


@dataclass(frozen=True)
class Draft:
    """The schema that a sample suggests."""

    schema: Schema
    left_out: dict[str, str]
    """The columns that make no attribute, and why."""


def infer(table: Any) -> Draft:
    """A draft of a schema: categories for short lists of texts, small ranges of integers, other numbers with bounds and
    bins, and dates by month.

    Every attribute but a boolean one has a cell for values that the sample does not show. It has one for missing values
    if some are missing. A column that makes no attribute is left out, and so are the widest ones while there are more
    cells than a vault can have: every draft can be created.
    """
    attributes: dict[str, Attribute] = {}
    left_out: dict[str, str] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        found = _suggested(name, column, table.column_names)
        if isinstance(found, str):
            left_out[name] = found
        else:
            attributes[name] = found
    while math.prod(each.size for each in attributes.values()) > MAX_CELLS:
        widest = max(reversed(attributes), key=lambda name: attributes[name].size)
        left_out[widest] = "with it there would be more than 2^62 cells"
        del attributes[widest]
    if not attributes:
        raise SchemaError("no column of the sample makes an attribute: is its first line a header?")
    return Draft(Schema(attributes), left_out)


def _suggested(name: str, column: Any, names: list[str]) -> Attribute | str:
    """The attribute that a column suggests, or why it suggests none: its name and its values both have a say."""
    if not name or '"' in name or not name.isprintable():
        return "an attribute's name is a printable text without quotes"
    if names.count(name) > 1:
        return "more than one column has that name"
    alike = next(each for each in names if each.lower() == name.lower())
    if alike != name:
        return f"{alike!r} differs from it in upper and lower case only"
    if _tells_rows_apart(name, column):
        return "it tells rows apart: nearly every row has a value of its own"
    try:
        return _attribute(column)
    except SchemaError as error:
        return str(error)


def _tells_rows_apart(name: str, column: Any) -> bool:
    """Whether a column of texts or integers is called as ids are, and has nearly as many values as rows."""
    listed = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
    if not listed or not re.fullmatch(NAME_OF_IDS, re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()):
        return False
    return bool(pc.count_distinct(column).as_py() >= _NEARLY_ALL * len(column) > 1)


def _attribute(column: Any) -> Attribute | str:
    """The attribute that a column suggests, or why it suggests none."""
    missing = column.null_count > 0
    kind = column.type
    if pa.types.is_boolean(kind):
        return categories(False, True, missing=missing)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _number(column, missing or bool(pc.any(pc.is_nan(column)).as_py()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return _texts(column, missing)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _dates(column)
    return f"its type is {kind}"


def _texts(column: Any, missing: bool) -> Attribute | str:
    """A short list of texts; or numbers, if nearly all of them are: `numbers` has a cell for what is none."""
    values = sorted({value for value in column.to_pylist() if value is not None})
    if not values:
        return "it has no values"
    if len(values) <= _MOST_CATEGORIES:
        return categories(*values, other=True, missing=missing)
    numbers = column.cast(pa.string()).filter(pc.match_substring_regex(column.cast(pa.string()), _NUMBER))
    if len(numbers) >= _NEARLY_ALL * (len(column) - column.null_count):
        return _number(numbers.cast(pa.float64()), missing)
    if all(re.fullmatch(_OTHER_DATE, value) for value in values):
        return "its dates are not written as 2012-01-31, the way that they are read"
    return f"it has {len(values):,} different texts; at most {_MOST_CATEGORIES} are listed"


def _dates(column: Any) -> Attribute | str:
    """Months from the first year of the sample to ten years after its last; years, if that would be many months."""
    ends = pc.min_max(pc.year(column))
    if not ends["min"].is_valid:
        return "it has no values"
    first, last = ends["min"].as_py(), ends["max"].as_py() + _YEARS_TO_COME
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    by = "month" if last - first < _MOST_YEARS_OF_MONTHS else "year"
    return dates(f"{first:04}-01-01", f"{last:04}-12-31", by=by, tz=zone)


def _number(column: Any, missing: bool) -> Attribute | str:
    """Few integers as they are; other numbers with bounds, a step for sums, and bins."""
    values = sorted(value for value in column.to_pylist() if value is not None and math.isfinite(value))
    if not values:
        return "it has no values"
    low, high = values[0], values[-1]
    whole = pa.types.is_integer(column.type)
    if whole and high - low < _MOST_INTEGERS:
        return integers(int(low), int(high), other=True, missing=missing)
    if low == high or max(abs(low), abs(high)) >= 2**52:
        return "its values make no bins"
    width = _round(high - low)
    first, last = math.floor(low / width), math.floor(high / width) + 1
    ends = round(first * width, 12), round(last * width, 12)
    edges = _edges(values, *ends) or [round(place * width, 12) for place in range(first, last + 1)]
    if not all(before < after for before, after in pairwise(edges)):
        return "its values make no bins"
    narrow = min(after - before for before, after in pairwise(edges))
    return numbers(*ends, step=_step(values, narrow, ends[1] - ends[0]), edges=edges)


def _edges(values: list[float], low: float, high: float) -> list[float]:
    """Edges between which about equally many of the values lie, each rounded as far as its neighbours allow; none for
    few values. ``values`` increase."""
    if len(values) < _ENOUGH:
        return []
    cuts = sorted({values[len(values) * place // _BINS] for place in range(1, _BINS)} - {low, high})
    return rounded_cuts(cuts, low, high)


def rounded_cuts(cuts: list[float], low: float, high: float) -> list[float]:
    """Increasing cuts between two ends, each rounded as far as its neighbours allow, and the ends."""
    ends = [low, *cuts, high]
    edges = {low, high}
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        unit = _finer(min(cut - before, after - cut))
        edges.add(min(high, max(low, round(round(cut / unit) * unit, 12))))
    return sorted(edges)


def _finer(gap: float) -> float:
    """A round number, at most half of a gap: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(gap / 2))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= gap / 2)


def _step(values: list[float], width: float, span: float) -> float:
    """The step that numbers have: 1, or a power of ten below it, the greatest of which all are multiples; but no less
    than a ten-thousandth of a bin, and no less than there may be steps for."""
    least = math.floor(math.log10(width)) - 4
    power = next((each for each in range(0, least, -1) if all(round(v, -each) == v for v in values)), least)
    coarse = math.ceil(math.log10(span / MAX_STEPS))
    return float(f"1e{max(coarse, min(power, math.floor(math.log10(width))))}")


def _round(span: float) -> float:
    """The width of a bin: 1, 2 or 5 times a power of ten, the least with at most `_BINS` of them in the span."""
    power = 10.0 ** math.floor(math.log10(span / _BINS))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= _BINS)


def draft(path: str | Path) -> Schema:
    """See `Schema.draft`."""
    return infer(read(RowFile(Path(path)))).schema


# -- files of rows -----------------------------------------------------------------------------------------------------


def read(file: RowFile) -> Any:
    """The rows of a PUBLIC file as an Arrow table, with the types that its values suggest."""
    from pyarrow import csv, feather, json, parquet

    path = file.path
    try:
        if file.ending == ".parquet":
            return parquet.ParquetFile(path).read()  # also where a name is there twice
        if file.ending in (".arrow", ".feather"):
            return feather.read_table(path)
        if not file.separated:
            return json.read_json(path)
        nulls = ["", "NA", "N/A", "NULL", "null", "NaN", "nan", "None"]
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(encoding=file.encoding or "utf8"),
            parse_options=csv.ParseOptions(delimiter=file.delimiter or _delimiter(file)),
            convert_options=csv.ConvertOptions(null_values=nulls, strings_can_be_null=True),
        )
    except (pa.ArrowException, OSError, UnicodeError):  # may quote a value, and who knows whether it is public
        problem = f"it is no file of {(file.ending or '').lstrip('.')}, or it is damaged"
    raise DataError(f"{path} cannot be read: {problem}")


def _delimiter(file: RowFile) -> str:
    """The delimiter of a public file: the one that its first line has most often."""
    opened = gzip.open if file.path.name.lower().endswith(".gz") else open
    with opened(file.path, "rt", encoding=file.encoding or "utf-8", errors="replace") as stream:
        line = stream.readline()
    usual = "\t" if file.ending == ".tsv" else ","
    return max((usual, *DELIMITERS), key=line.count)
