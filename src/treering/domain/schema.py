"""The schema: named attributes, and the universe of all N combinations of their values, the cells."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, SupportsIndex, TypeAlias

import tomli_w

from treering.domain.attribute import Attribute, Bins, Ordered, Value, bins, categories, integers
from treering.domain.calendar import Dates, dates
from treering.domain.numeric import numbers
from treering.errors import SchemaError
from treering.lazy import loaded
from treering.words import counted, reason

MAX_CELLS: Final = 2**62
"""The most cells a universe may have: cell numbers are 64-bit integers."""

FORMAT: Final = 2
"""The version of the TOML form."""


@dataclass(frozen=True, init=False, eq=False)
class Schema:
    """Named attributes in a fixed order, and the universe of all combinations of their values.

    A cell is a number in ``range(cells)``: the attributes' codes as digits, the last attribute running fastest.
    Two schemas are equal when names, order and values are. A schema is public: it must be written from
    general knowledge or public data, never read off the private rows.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> schema.cells
    24
    >>> schema.cell({"origin": "JFK", "month": 3})
    14
    >>> schema.values(14)
    {'origin': 'JFK', 'month': 3}
    """

    attributes: Mapping[str, Attribute]

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        if not isinstance(attributes, Mapping) or not attributes:
            raise SchemaError("a schema needs at least one attribute, given as a dict from names to attributes")
        for name, attribute in attributes.items():
            if not isinstance(name, str) or not name or '"' in name or not name.isprintable():
                raise SchemaError(f"an attribute's name is a printable text without quotes, not {name!r}")
            if not isinstance(attribute, Attribute):
                raise SchemaError(
                    f"attribute {name!r} must be made by categories(), integers(), bins(), numbers() or dates()"
                )
        if len({name.lower() for name in attributes}) != len(attributes):
            raise SchemaError("attribute names must differ in more than upper and lower case")
        object.__setattr__(self, "attributes", MappingProxyType(dict(attributes)))
        if self.cells > MAX_CELLS:
            power = (self.cells - 1).bit_length() - 1
            raise SchemaError(
                f"this universe has more than 2^{power} cells; at most 2^62 can be numbered. "
                "Use fewer attributes or coarser bins"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(self.attributes)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """For each attribute, the column of the rows that its values come from."""
        return tuple(attribute.column or name for name, attribute in self.attributes.items())

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have, each once."""
        return tuple(dict.fromkeys(self.sources))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The attributes' sizes, in order."""
        return tuple(attribute.size for attribute in self.attributes.values())

    @cached_property
    def cells(self) -> int:
        """N, the number of cells."""
        return math.prod(self.shape)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that makes two schemas equal."""
        plain = json.dumps(self.to_dict(), sort_keys=False)
        return hashlib.sha256(plain.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[type[Schema], tuple[dict[str, Attribute]]]:
        return Schema, (dict(self.attributes),)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {size}" for name, size in zip(self.names, self.shape, strict=True))
        return f"Schema({inside}; {counted(self.cells, 'cell')})"

    def __str__(self) -> str:
        """A line for each attribute: its name, its size, its values."""
        rows = [(name, f"{size:,}", words) for name, size, words in self._described()]
        widths = [max(len(row[place]) for row in rows) for place in (0, 1)]
        lines = [f"{name:<{widths[0]}}  {size:>{widths[1]}}  {words}" for name, size, words in rows]
        return "\n".join([*lines, counted(self.cells, "cell")])

    def _repr_html_(self) -> str:
        """The same as a table, which notebooks show."""
        heads = "".join(f"<th>{head}</th>" for head in ("attribute", "values", "which"))
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{size:,}</td><td>{escape(words)}</td></tr>"
            for name, size, words in self._described()
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        return f"{table}<p>{counted(self.cells, 'cell')}</p>"

    def _described(self) -> Iterator[tuple[str, int, str]]:
        """Name, size and values of each attribute, in words."""
        for name, attribute in self.attributes.items():
            also = [str(attribute.label(attribute.code(cell))) for cell in attribute.outside]
            also += ["missing"] if attribute.missing else []
            source = f"; from column {attribute.column}" if attribute.column not in (None, name) else ""
            beside = f"; also {', '.join(also)}" if also else ""
            yield name, attribute.size, f"{attribute.describe()}{beside}{source}"

    def cut(self, bounds: Mapping[str, Iterable[Any]]) -> Schema:
        """The schema with more bounds of some attributes, which have an order: a *lens* that tells more apart. It is
        for questions, and no version of the schema.

        >>> from treering.domain.attribute import bins
        >>> Schema({"delay": bins([0, 60], other=True)}).cut({"delay": [15]}).shape
        (4,)
        """
        return _cut(self, tuple((name, tuple(sorted(set(each)))) for name, each in bounds.items() if each))

    def joined(self, other: Schema) -> Schema:
        """The lens that tells apart whatever this one or another lens of the same schema does."""
        if self == other:
            return self
        if self.names != other.names:
            raise SchemaError("the two schemas have other attributes")
        pairs = zip(self.attributes.items(), other.attributes.values(), strict=True)
        return Schema({name: _joined(name, one, another) for (name, one), another in pairs})

    def index(self, name: str) -> int:
        """The position of an attribute."""
        if name not in self.attributes:
            raise SchemaError(f"no attribute {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """The positions of several attributes, in the schema's order, each once."""
        return tuple(sorted({self.index(name) for name in names}))

    def cell(self, values: Mapping[str, Value]) -> int:
        """The cell of one combination of (public) values, given by attribute name."""
        if set(values) != set(self.names):
            raise SchemaError(f"a cell needs a value for each of {', '.join(self.names)}")
        cell = 0
        for name, attribute in self.attributes.items():
            try:
                cell = cell * attribute.size + attribute.code(values[name])
            except SchemaError as error:
                raise SchemaError(f"attribute {name!r}: {error}") from None
        return cell

    def values(self, cell: SupportsIndex) -> dict[str, Value]:
        """The values of a cell, by attribute name: ``cell(values(c)) == c``."""
        rest = operator.index(cell)
        if not 0 <= rest < self.cells:
            raise SchemaError(f"cell {rest} is outside 0..{self.cells - 1}")
        codes: list[int] = []
        for size in reversed(self.shape):
            rest, code = divmod(rest, size)
            codes.append(code)
        pairs = zip(self.attributes.items(), reversed(codes), strict=True)
        return {name: attribute.value(code) for (name, attribute), code in pairs}

    @classmethod
    def draft(cls, path: str | Path) -> Schema:
        """A schema drafted by looking at the rows of a file, to be read and edited: for rows that anyone may see.

        Columns that make no attribute are left out: ids, texts with many values. What it lists is read off the rows.
        """
        drafted: Schema = loaded("treering.domain.drafting:draft")(path)  # Loaded when it is met: it reads files.
        return drafted

    def to_dict(self) -> dict[str, Any]:
        """A plain form for TOML; `from_dict` reads it back."""
        return {
            "treering_schema": FORMAT,
            "attributes": {name: attribute.to_dict() for name, attribute in self.attributes.items()},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` wrote; anything else is a `SchemaError`."""
        version = plain.get("treering_schema")
        if version != FORMAT:
            raise SchemaError(f"not a schema of format {FORMAT}: the first line must be 'treering_schema = {FORMAT}'")
        attributes = plain.get("attributes")
        if not isinstance(attributes, Mapping) or not all(isinstance(a, Mapping) for a in attributes.values()):
            raise SchemaError("a schema file has a table [attributes.NAME] for each attribute")
        unknown = sorted(set(plain) - {"treering_schema", "attributes"})
        if unknown:
            raise SchemaError(f"a schema file has only attributes; unknown: {', '.join(unknown)}")
        return cls({name: attribute_from_dict(name, each) for name, each in attributes.items()})

    def save(self, path: str | Path, note: str = "") -> None:
        """Write the schema to a TOML file at ``path``; its first line is the ``note``, if there is one."""
        first = f"# {note}\n" if note else ""
        Path(path).write_text(first + tomli_w.dumps(self.to_dict()), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file at ``path``."""
        try:
            plain = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SchemaError(f"cannot read a schema from {path}: {reason(error)}") from None
        except UnicodeDecodeError:
            raise SchemaError(f"cannot read a schema from {path}: it is not in UTF-8") from None
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"cannot read a schema from {path}, which should be TOML: {error}") from None
        return cls.from_dict(plain)


@lru_cache(maxsize=256)
def _cut(schema: Schema, bounds: tuple[tuple[str, tuple[Any, ...]], ...]) -> Schema:
    attributes = dict(schema.attributes)
    for name, listed in bounds:
        attribute = attributes[name]
        if not isinstance(attribute, Ordered):
            raise SchemaError(f"attribute {name!r} has no order, so that nothing cuts it")
        attributes[name] = attribute.cut(listed)
    return Schema(attributes) if bounds else schema


def _joined(name: str, one: Attribute, other: Attribute) -> Attribute:
    """The attribute with the bounds of both."""
    if one == other:
        return one
    if isinstance(one, Bins) and isinstance(other, Bins):
        return one.cut(other.edges)
    if isinstance(one, Dates) and isinstance(other, Dates):
        return one.cut(other.edges)
    raise SchemaError(f"attribute {name!r} differs between the two schemas")


# -- the kinds of attribute, by name -----------------------------------------------------------------------------------


Maker: TypeAlias = Callable[[Mapping[str, Any], dict[str, Any]], Attribute]

_FLAGS: Final = ("other", "missing", "strict", "column")

_KINDS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], Maker]]] = {
    "categories": (("values",), _FLAGS, lambda p, f: categories(*p["values"], **f)),
    "integers": (("low", "high"), _FLAGS, lambda p, f: integers(p["low"], p["high"], **f)),
    "bins": (("edges",), _FLAGS, lambda p, f: bins(p["edges"], **f)),
    "numbers": (
        ("low", "high"),
        ("step", "edges", "column"),
        lambda p, f: numbers(p["low"], p["high"], **_given(p, "step", "edges"), **f),
    ),
    "dates": (
        (),
        ("first", "last", "by", "part", "tz", "column"),
        lambda p, f: dates(**_given(p, "first", "last", "by", "part", "tz"), **f),
    ),
}
"""For each kind: the keys that it needs, those that it may have, and what makes it."""


def attribute_from_dict(name: str, plain: Mapping[str, Any]) -> Attribute:
    """Read what `Attribute.to_dict` wrote; anything else is a `SchemaError` that names the attribute."""
    kind = plain.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"attribute {name!r}: kind must be one of {', '.join(_KINDS)}")
    needed, allowed, make = _KINDS[kind]
    absent = [key for key in needed if key not in plain]
    unknown = sorted(set(plain) - {"kind", *needed, *allowed})
    if absent or unknown:
        raise SchemaError(
            f"attribute {name!r}: {kind} takes {', '.join((*needed, *allowed))}; "
            + (f"absent: {', '.join(absent)}" if absent else f"unknown: {', '.join(unknown)}")
        )
    if any(key in plain and not isinstance(plain[key], list) for key in ("values", "edges")):
        raise SchemaError(f"attribute {name!r}: {'values' if kind == 'categories' else 'edges'} is a list")
    try:
        return make(plain, _flags(plain))
    except (SchemaError, TypeError) as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _flags(plain: Mapping[str, Any]) -> dict[str, Any]:
    flags = _given(plain, *_FLAGS)
    if not all(isinstance(flags.get(key, False), bool) for key in ("other", "missing", "strict")):
        raise SchemaError("other, missing and strict are true or false")
    return flags


def _given(plain: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: plain[key] for key in keys if key in plain}
