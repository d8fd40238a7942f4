"""The kinds of attribute by name: reads the plain form that TOML files and vaults keep.

In format 1 the values below and above a range of numbers shared one cell. Schemas of that format are still read so, and
number their cells as ever. From format 2 on ``other = true`` means two cells, and ``other = "together"`` one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from treering.domain.attribute import TOGETHER, Attribute, Bins, Integers, categories
from treering.domain.calendar import dates
from treering.domain.numeric import numbers
from treering.errors import SchemaError

FORMATS: Final = (1, 2)
"""The versions of the plain form, the current one last."""

Maker: TypeAlias = Callable[[Mapping[str, Any], dict[str, Any]], Attribute]

_FLAGS: Final = ("other", "missing", "column")

_KINDS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], Maker]]] = {
    "categories": (("values",), _FLAGS, lambda p, f: categories(*p["values"], **f)),
    "integers": (("low", "high"), _FLAGS, lambda p, f: Integers(low=p["low"], high=p["high"], **f)),
    "bins": (("edges",), _FLAGS, lambda p, f: Bins(edges=tuple(p["edges"]), **f)),
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


def attribute_from_dict(name: str, plain: Mapping[str, Any], version: int) -> Attribute:
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
        return make(plain, _flags(kind, plain, version))
    except (SchemaError, TypeError) as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _flags(kind: str, plain: Mapping[str, Any], version: int) -> dict[str, Any]:
    flags = _given(plain, *_FLAGS)
    ordered = kind in ("integers", "bins")
    if ordered and (flags.get("other") == TOGETHER or (version == 1 and flags.get("other") is True)):
        flags |= {"other": True, "together": True}
    if not all(isinstance(flags.get(key, False), bool) for key in ("other", "missing")):
        raise SchemaError("other and missing are true or false")
    return flags


def _given(plain: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: plain[key] for key in keys if key in plain}
