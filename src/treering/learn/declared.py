"""What must be declared about rows before any is seen: public, and never taken from data."""

from __future__ import annotations

import math
from numbers import Real
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.arrays import Array
from treering.errors import ParameterError
from treering.params import Number, exact

_HOW: Final = {
    "norm_bound": "the length (L2 norm) that no row of features is meant to exceed, such as norm_bound=10.0; longer "
    "rows are scaled down to it",
    "label_bound": "the size that no label is meant to exceed, such as label_bound=100.0",
    "classes": 'the two labels, such as classes=("on time", "late")',
}
_NOT_FROM_DATA: Final = (
    "It is public, so it must come from general knowledge: one taken from the rows would tell about them, outside of "
    "any privacy guarantee"
)


def declared(value: Number | None, name: str) -> float:
    """A public bound, which must have been given."""
    if value is None:
        raise ParameterError(name, f"must be declared: {_HOW[name]}. {_NOT_FROM_DATA}")
    return float(exact(value, name))


def declared_classes(classes: npt.ArrayLike | None) -> Array:
    """Two public labels, sorted; the second is the positive one."""
    if classes is None:
        raise ParameterError("classes", f"must be declared: {_HOW['classes']}. {_NOT_FROM_DATA}")
    given = np.asarray(classes, dtype=object)
    strings = [isinstance(label, str) for label in given.flat]
    numbers = [isinstance(label, Real | np.bool_) and math.isfinite(label) for label in given.flat]
    if given.ndim != 1 or not (all(strings) or all(numbers)):
        raise ParameterError("classes", "must be two numbers or two strings")
    found = np.unique(np.asarray(given.tolist()))
    if len(found) != 2 or len(given) != 2:
        raise ParameterError(
            "classes",
            f"must be two different labels, not {len(found)} class(es). Only binary classification is supported: one "
            "against the rest would need an estimator, and a part of the budget, for each class",
        )
    return found
