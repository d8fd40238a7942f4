"""What a plan says where persons have several rows: how sharp each kind of question will be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.budget.convert import rho_of
from treering.budget.promise import Budget, Promise
from treering.domain.sums import Capped
from treering.errors import ParameterError
from treering.params import Number
from treering.theory.rings import first_law, margin, usual_price
from treering.theory.sums import kept_price

PERSONS: Final = Fraction(9, 10)
"""The part of the promise that a vault gives to counting persons."""
GROUPS: Final = 12
PACE: Final = 25
_ONE: Final = ((1.0, 1),)


@dataclass(frozen=True, slots=True)
class KindOfQuestion:
    """How sharp a kind of question is, in rows or persons: the 95% margin of the first answer, whatever the size."""

    name: str
    margin: float


def kinds(epsilon: Number, delta: Number, rows_per_person: int) -> tuple[KindOfQuestion, ...]:
    """The margins of the first of some 25 series of questions, where a vault's promise is for persons: nine tenths of
    it for persons, one for rows.

    >>> [f"{each.name}: {each.margin:,.0f}" for each in kinds(1.0, 1e-6, 30)[:2]]
    ['rows: 4,710', 'persons: 74']
    """
    row = Promise(epsilon, delta, rows_per_person).budget
    found = [KindOfQuestion("rows", margin(first_law(_price(row.share(1 - PERSONS)), 2), ((0.5, 2),)))]
    own = _price(row.share(PERSONS))
    asked = [("persons", 1, 1, 1), (f"persons, by {GROUPS} groups", 1, min(GROUPS, rows_per_person), GROUPS)]
    caps = [cap for cap in (1, 3, 10) if cap < rows_per_person]
    asked += [(f"rows, at most {cap} of each person", cap, cap, GROUPS) for cap in caps]
    for name, each, most, groups in asked:
        law = first_law(kept_price(own, Capped(each, most, rows_per_person, own.total)), max(2, groups))
        found.append(KindOfQuestion(name, margin(law, _ONE)))
    return tuple(found)


def _price(budget: Budget) -> Budget:
    return Budget(budget.kind, usual_price(budget.total, budget.total, 0, PACE))


@lru_cache(maxsize=64)
def row_epsilon(epsilon: Number, delta: Number, rows_per_person: int) -> Number:
    """The epsilon of one row, with the same delta, where persons have up to so many rows and the promise is for them:
    rounded down.

    >>> row_epsilon(1.0, 0.0, 4), 0.026 < row_epsilon(1.0, 1e-6, 30) < 0.027
    (0.25, True)
    """
    if isinstance(rows_per_person, bool) or not isinstance(rows_per_person, int) or rows_per_person < 1:
        raise ParameterError("rows_per_person", f"must be a whole number from 1 on, not {rows_per_person!r}")
    if rows_per_person == 1:
        return epsilon
    if delta == 0:
        return float(epsilon) / rows_per_person
    own = Promise(epsilon, delta, rows_per_person).budget.total
    low, high = 0.0, float(epsilon)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if middle > 0 and rho_of(middle, delta) <= own else (low, middle)
    return low
