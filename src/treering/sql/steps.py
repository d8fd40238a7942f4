"""Groups of a number by steps: FLOOR, CEIL, ROUND, width_bucket or comparisons of one column of bins or numbers.

Such an expression changes at some numbers only. They become cuts of the column, exact to the last bit of a double: the
first number at which the expression, worked out in doubles as DuckDB does, has its next value. Between two cuts it is
constant, so its value at the lower one is the label of all rows there.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from sqlglot import exp

from treering.deadline import check as check_deadline
from treering.domain.attribute import Bins
from treering.domain.numeric import Numbers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError
from treering.sql.bounds import check_groups
from treering.sql.values import attribute_of, computed_at, label, position_of

Step: TypeAlias = Callable[[float], int]
"""A function with whole values that never falls, or never rises."""
Line: TypeAlias = Callable[[float], float]

_ARITHMETIC: Final[dict[type[exp.Expr], Callable[[float, float], float]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}
_COMPARED: Final[dict[type[exp.Expr], Callable[[float, float], bool]]] = {
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_STEPS: Final[frozenset[type[exp.Expr]]] = frozenset({exp.Floor, exp.Ceil, exp.Round, *_COMPARED})


def stepped(node: exp.Expr, schema: Schema) -> list[tuple[Any, Query, bool]] | None:
    """The groups of an expression that sorts one number into steps: the label of each, its rows, and whether they are
    out of range or missing. None for any other expression."""
    columns = list(node.find_all(exp.Column))
    if not columns or len({position_of(each, schema) for each in columns}) > 1:
        return None
    name, attribute = schema.names[position_of(columns[0], schema)], attribute_of(columns[0], schema)
    if not isinstance(attribute, Bins):
        return None
    inner = list(dict.fromkeys(map(_step_of, columns)))
    steps = [None if each is None else _read(each) for each in inner]
    ends = _ends(attribute)
    cuts = {*ends, *(cut for step in steps if step is not None for cut in _cuts(step, *ends))}
    return None if None in steps else _groups(node, schema.cut({name: cuts}), name)


def bucketed(node: exp.WidthBucket) -> exp.Expr:
    """width_bucket(x, low, high, n) as a CASE: 0 below, 1 to n within, n + 1 from ``high`` on."""
    low, high, number = (node.args.get(each) for each in ("min_value", "max_value", "num_buckets"))
    x = node.this
    if low is None or high is None or number is None:
        raise QueryError("width_bucket takes four arguments: width_bucket(column, low, high, number of buckets)")
    span = exp.paren(exp.Sub(this=high.copy(), expression=low.copy()))
    place = exp.Mul(this=exp.paren(exp.Sub(this=x, expression=low.copy())), expression=number.copy())
    step = exp.cast(exp.Floor(this=exp.Div(this=place, expression=span, typed=False, safe=False)), "BIGINT")
    one = exp.Literal.number(1)
    ifs = [
        exp.If(this=exp.LT(this=x.copy(), expression=low.copy()), true=exp.Literal.number(0)),
        exp.If(this=exp.GTE(this=x.copy(), expression=high.copy()), true=exp.Add(this=number.copy(), expression=one)),
    ]
    return exp.Case(ifs=ifs, default=exp.Add(this=step, expression=one.copy()))


# -- steps -------------------------------------------------------------------------------------------------------------


def _step_of(column: exp.Expr) -> exp.Expr | None:
    """The innermost step that a column stands in."""
    node = column.parent
    while node is not None and type(node) not in _STEPS:
        node = node.parent
    return node


def _read(node: exp.Expr) -> Step | None:
    """A step as a function of its column; None if that is no step of a straight line."""
    if type(node) in _COMPARED:
        return _comparison(node)
    line = _line(node.this)
    if line is None:
        return None
    if isinstance(node, exp.Round):
        digits = _constant(node.args.get("decimals") or exp.Literal.number(0))
        if digits is None or digits > 0 or digits != int(digits):
            return None
        unit = 10.0 ** -int(digits)
        return lambda x: int(Decimal(line(x) / unit).quantize(Decimal(1), ROUND_HALF_UP))
    if node.args.get("decimals") is not None:
        return None
    whole = math.floor if isinstance(node, exp.Floor) else math.ceil
    return lambda x: whole(line(x))


def _comparison(node: exp.Expr) -> Step | None:
    left, right, compare = _line(node.this), _line(node.expression), _COMPARED[type(node)]
    if left is None or right is None or (_constant(node.this) is None and _constant(node.expression) is None):
        return None
    return lambda x: int(compare(left(x), right(x)))


def _line(node: exp.Expr | None) -> Line | None:
    """A straight line of one column, in doubles; None for anything else."""
    node = None if node is None else node.unnest()
    if isinstance(node, exp.Column):
        return lambda x: x
    if isinstance(node, exp.Neg):
        inner = _line(node.this)
        return None if inner is None else lambda x: -inner(x)
    number = _constant(node)
    if number is not None:
        return partial(_level, number)
    if node is None or (work := _ARITHMETIC.get(type(node))) is None:
        return None
    left, right = _line(node.this), _line(node.expression)
    constants = (_constant(node.this), _constant(node.expression))
    if left is None or right is None or constants == (None, None):
        return None
    if work is operator.truediv and not constants[1]:
        return None
    return lambda x: work(left(x), right(x))


def _level(number: float, _: float) -> float:
    return number


def _constant(node: exp.Expr | None) -> float | None:
    """The value of an expression of numbers; None if it names a column, or has none."""
    node = None if node is None else node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string:
        read = float(node.this)
        return read if math.isfinite(read) else None
    if isinstance(node, exp.Neg):
        value = _constant(node.this)
        return None if value is None else -value
    if node is None or (work := _ARITHMETIC.get(type(node))) is None:
        return None
    left, right = _constant(node.this), _constant(node.expression)
    if left is None or right is None or (work is operator.truediv and not right):
        return None
    return work(left, right)


# -- cuts --------------------------------------------------------------------------------------------------------------


def _ends(attribute: Bins) -> tuple[float, float]:
    """Where values that are told apart begin and end."""
    limits = (attribute.low, attribute.high) if isinstance(attribute, Numbers) else ()
    return min(*attribute.edges, *limits), max(*attribute.edges, *limits)


def _cuts(step: Step, low: float, high: float) -> Iterator[float]:
    """The first double of each value that a step takes within (low, high]."""
    try:
        first, last = step(low), step(high)
    except (OverflowError, ValueError):
        raise QueryError("the expression has no finite values for all numbers of its column") from None
    check_groups(abs(last - first) + 1)
    sign = 1 if last >= first else -1
    for value in range(first + sign, last + sign, sign):
        check_deadline()
        yield _first(partial(_reaches, step, sign, value), low, high)


def _reaches(step: Step, sign: int, value: int, x: float) -> bool:
    return sign * step(x) >= sign * value


def _first(reached: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest double in (low, high] that has been reached; ``high`` has."""
    below, above = _ordered(low), _ordered(high)
    while above - below > 1:
        middle = (below + above) // 2
        if reached(_double(middle)):
            above = middle
        else:
            below = middle
    return _double(above)


def _ordered(value: float) -> int:
    """A whole number in the order of doubles: neighbours are one apart."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def _double(place: int) -> float:
    """The double at a place."""
    value: float = struct.unpack("<d", struct.pack("<q", abs(place)))[0]
    return value if place >= 0 else -value


# -- groups ------------------------------------------------------------------------------------------------------------


def _groups(node: exp.Expr, lens: Schema, name: str) -> list[tuple[Any, Query, bool]]:
    """A group for each cell of the column, labelled by the expression's value where it begins."""
    attribute, position = lens.attributes[name], lens.index(name)
    assert isinstance(attribute, Bins)
    check_groups(attribute.size)
    values = computed_at(node, lens, position, attribute.edges[:-1])
    labels = [*values, *(label(attribute, code) for code in range(attribute.regular, attribute.size))]
    codes = np.arange(attribute.size)
    return [
        (shown, Query.conjunction(lens, {position: codes == code}), code >= attribute.regular)
        for code, shown in enumerate(labels)
    ]
