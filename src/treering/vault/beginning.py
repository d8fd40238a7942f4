"""The first mechanism of a new vault, and what its table is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

from treering.domain.schema import Schema
from treering.params import Number, probability, whole
from treering.trusted.store import Origin, Spec, trial
from treering.vault.kinds import build, choose, spec
from treering.vault.record import options_of

DEFAULT_ALPHA: Final = 0.05
"""The alpha of a `PMWG` for which none was given."""
MOST_LETTERS: Final = 63
"""The longest name that a table gets from its folder."""


def first_spec(
    origin: Origin,
    kind: str,
    share: Number,
    alpha: Number | None,
    beta: Number,
    rows: int,
    options: Mapping[str, Any],
) -> Spec:
    """The first mechanism of a new vault; for "auto", rings, or the planner's choice if an alpha is wanted."""
    accuracy = DEFAULT_ALPHA if alpha is None else float(probability(alpha, "alpha"))
    chance = float(probability(beta, "beta"))
    if kind == "auto":
        own = replace(origin.promise, share=share)
        rows = whole(rows, "rows")
        kind = "rings" if alpha is None else choose(origin.schema.cells, own, accuracy, chance, rows)
    given = {"beta": chance, **({"alpha": accuracy} if kind == "pmwg" else {}), **options}
    return checked(origin, spec(kind, share, options_of(given), ()))


def checked(origin: Origin, new: Spec, schema: Schema | None = None) -> Spec:
    """The mechanism, if its options are valid: tried by building it over an empty database."""
    build(new, trial(origin, new, schema), origin.promise)
    return new


def named(path: str | PathLike[str]) -> str:
    """What the table of a vault in this folder is called: the folder's name as a word.

    >>> named("data/flights.treering"), named("2026 visits")
    ('flights', '_2026_visits')
    """
    stem = Path(path).resolve().name.partition(".")[0]
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem)[:MOST_LETTERS]
    return f"_{word}"[:MOST_LETTERS] if not word.isidentifier() else word
