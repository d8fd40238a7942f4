"""Which box would do for a class that another one cannot serve: public arithmetic, for messages."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from treering.boxes.histogram import MOST_CELLS
from treering.boxes.query_class import QueryClass
from treering.budget.promise import Budget
from treering.mechanisms.histogram.hypothesis import MAX_CELLS
from treering.theory.mwem import plan
from treering.theory.static import answer_radius, answers_noise, histogram_noise, histogram_radius

_SIZE: Final = 10**6
_BETA: Final = 0.05
_BUDGET: Final = Budget("pure", Fraction(1))


def another_box(served: QueryClass) -> str:
    """HistogramBox, AnswersBox or MWEM: the one whose proven error is least for a million rows and an epsilon of 1."""
    cells, queries = served.schema.cells, len(served)
    errors = {
        "AnswersBox": answer_radius(answers_noise(_BUDGET, served.spreads), _BETA / queries) / _SIZE,
    }
    if cells <= MOST_CELLS:
        errors["HistogramBox"] = histogram_radius(histogram_noise(_BUDGET), cells, _BETA) / _SIZE
    if cells <= MAX_CELLS:
        errors["MWEM"] = plan(cells, queries, max(served.spreads), _SIZE, _BUDGET, _BETA).alpha(cells, _SIZE)
    best = min(errors, key=errors.__getitem__)
    return f"{best} would do: its error for a million rows and an epsilon of 1 is at most {errors[best]:.2g}"
