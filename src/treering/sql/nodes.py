"""The nodes that a statement may consist of, by their names in sqlglot. What is not listed is refused.

A node is written out from its arguments. So each has a list of the arguments that it may have; arguments that are texts
and not nodes are words from lists, but for names and literals, which are quoted when they are written: see `check`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlglot import exp

from treering.errors import QueryError

MAX_NODES: Final = 8_000
"""The most nodes of a tree, CTEs put in their places: more would take seconds to rearrange."""
MAX_DEPTH: Final = 400
"""The most nodes that stand inside each other; a chain of operators is as deep as it is long."""
MAX_TEXT: Final = 2**18
"""The most characters of all names and literals of a tree together."""
MAX_DIGITS: Final = 400
"""The longest number, in characters."""

_CLAUSES = "Select From Where Group Having Order Ordered Limit Offset Fetch Distinct Qualify With CTE Subquery Union "
_CLAUSES += "Intersect Except Table TableAlias Join Alias Star Column Identifier Tuple Window WindowSpec Filter "
_CLAUSES += "WithinGroup Paren Literal Null Boolean DataType DataTypeParam Interval Var Values Rollup Cube "
_CLAUSES += "GroupingSets"

_OPERATORS = (
    "And Or Not Is In Between EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Like ILike Add Sub Mul Div IntDiv Mod "
)
_OPERATORS += "Neg DPipe Case If Cast TryCast Exists"

_FUNCTIONS = "Coalesce Nullif Greatest Least Round Floor Ceil Abs Sign Sqrt Ln Log Exp Pow Upper Lower Trim Substring "
_FUNCTIONS += "Length Left Right Concat ConcatWs Replace StartsWith EndsWith Contains RegexpLike RegexpFullMatch "
_FUNCTIONS += "Date DateTrunc TimestampTrunc Extract Year Quarter Month Week WeekOfYear Day DayOfMonth DayOfWeek "
_FUNCTIONS += "DayOfWeekIso DayOfYear Hour Minute TimeToStr TsOrDsToDate TsOrDsToTimestamp StrToDate StrToTime DateAdd "
_FUNCTIONS += "DateSub DateDiff CurrentDate Monthname Dayname"

_AGGREGATES = "Count CountIf Sum Avg Min Max Median Quantile ApproxQuantile PercentileCont PercentileDisc Stddev "
_AGGREGATES += "StddevSamp StddevPop Variance VariancePop RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead "
_AGGREGATES += "FirstValue LastValue NthValue ArgMax ArgMin LogicalOr LogicalAnd"

_MODIFIERS = "with_ joins where group having qualify windows order limit offset"

_ARGUMENTS: Final[dict[type[exp.Expr], str]] = {
    exp.Select: f"{_MODIFIERS} expressions distinct from_",
    exp.Subquery: f"{_MODIFIERS} this alias",
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), f"{_MODIFIERS} this expression distinct by_name"),
    exp.Table: "this alias joins db catalog",
    exp.Join: "this on using side kind method",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Order: "this expressions",
    exp.Ordered: "this desc nulls_first",
    exp.With: "expressions recursive",
    exp.CTE: "this alias",
    exp.Values: "expressions alias",
    exp.Column: "this table db catalog",
    exp.In: "this expressions query",
    exp.DataType: "this expressions nested",
    exp.Cast: "this to",
    exp.TryCast: "this to requires_string safe",
    exp.Trim: "this expression position",
    exp.TimeToStr: "this format",
    exp.StrToTime: "this format",
    exp.StrToDate: "this format",
    exp.DateDiff: "this expression unit",
    exp.TimestampTrunc: "this unit",
    exp.DateTrunc: "this unit",
}
"""The arguments of nodes of which sqlglot knows more than can be answered; other nodes may have all of theirs."""

_WORDS: Final[dict[tuple[type[exp.Expr], str], str]] = {
    (exp.Join, "kind"): "INNER OUTER CROSS SEMI ANTI",
    (exp.Join, "side"): "LEFT RIGHT FULL",
    (exp.Join, "method"): "NATURAL",
    (exp.Window, "over"): "OVER",
    (exp.WindowSpec, "kind"): "ROWS RANGE GROUPS",
    (exp.WindowSpec, "start"): "UNBOUNDED CURRENT_ROW",
    (exp.WindowSpec, "end"): "UNBOUNDED CURRENT_ROW",
    (exp.WindowSpec, "start_side"): "PRECEDING FOLLOWING",
    (exp.WindowSpec, "end_side"): "PRECEDING FOLLOWING",
    (exp.Trim, "position"): "LEADING TRAILING BOTH",
}
"""The words that an argument may be which is a text."""

_UNIT_NAMES = "year years quarter quarters month months week weeks day days hour hours minute minutes second seconds "
_UNIT_NAMES += (
    "millisecond milliseconds microsecond microseconds decade decades century centuries millennium millennia "
)
_UNIT_NAMES += (
    "dow isodow doy dayofweek dayofweekiso dayofyear dayofmonth weekday weekofyear isoyear yearweek epoch era"
)
_UNITS: Final = frozenset(_UNIT_NAMES.split())
"""The units of EXTRACT, date_trunc, intervals and the like."""

_TYPE_NAMES = "BOOLEAN BIT TINYINT SMALLINT MEDIUMINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE "
_TYPE_NAMES += "DECIMAL MONEY CHAR NCHAR VARCHAR NVARCHAR TEXT DATE TIME TIMESTAMP TIMESTAMPNTZ TIMESTAMPTZ "
_TYPE_NAMES += "TIMESTAMPLTZ TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS DATETIME DATETIME2 SMALLDATETIME INTERVAL"
_TYPES: Final = frozenset(exp.DType[name] for name in _TYPE_NAMES.split())
"""The types that a value may be cast to."""


def _kinds(names: str) -> frozenset[type[exp.Expr]]:
    return frozenset(kind for name in names.split() if (kind := getattr(exp, name, None)) is not None)


AGGREGATES: Final = _kinds(_AGGREGATES)
"""Aggregates and window functions."""
_KINDS: Final = _kinds(_CLAUSES) | _kinds(_OPERATORS) | _kinds(_FUNCTIONS) | AGGREGATES

_ALLOWED: Final = {kind: frozenset(_ARGUMENTS.get(kind, " ".join(kind.arg_types)).split()) for kind in _KINDS}
"""The nodes of statements, each with the arguments that it may have."""
_OURS: Final = {
    **_ALLOWED,
    exp.Table: frozenset({"this", "alias", "joins"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Lateral: frozenset({"this", "alias"}),
    exp.GenerateSeries: frozenset({"start", "end", "is_end_exclusive"}),
}
"""The nodes of what is run: our own statements are around those of users, and there is one schema of tables."""


def check(tree: exp.Expr, *, ours: bool = False) -> None:
    """Refuse a tree with a node, an argument, a word, a type or a unit that is not listed, or that is too large.

    Formal Guarantees
        Every text in a tree that passes is the name of an `Identifier`, a string `Literal`, a number of ASCII digits,
        or a word of the lists of this module. Time and memory are linear in the size of the tree.
    """
    allowed = _OURS if ours else _ALLOWED
    nodes = characters = 0
    rest = [(tree, 1)]
    while rest:
        node, depth = rest.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise QueryError(f"the statement has more than {MAX_NODES:,} parts, CTEs put in their places: ask for less")
        if depth > MAX_DEPTH:
            raise QueryError(
                f"more than {MAX_DEPTH} parts of the statement stand inside each other: write IN (…) for many ORs, and "
                "fewer operators in a row"
            )
        arguments = allowed.get(type(node))
        if arguments is None:
            raise QueryError(f"{called(node)} cannot be answered here: counts, sums, averages and quantiles are")
        characters += _check_leaf(node)
        if characters > MAX_TEXT:
            raise QueryError(f"the names and literals of the statement have more than {MAX_TEXT:,} characters")
        rest += [(child, depth + 1) for child in _children(node, arguments)]


def called(node: exp.Expr) -> str:
    """What people call a node."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def _children(node: exp.Expr, arguments: frozenset[str]) -> Iterator[exp.Expr]:
    """The nodes among the arguments; anything else is a flag or a word that is listed."""
    for name, value in node.args.items():
        if value is None or value is False or value == "" or value == []:
            continue
        if name not in arguments:
            what = called(value) if isinstance(value, exp.Expr) else name.strip("_").upper()
            raise QueryError(f"{called(node)} with {what} cannot be answered here: leave that out")
        if name == "unit" or (name == "this" and isinstance(node, exp.Extract)):
            _check_unit(value)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expr):
                yield each
            elif not (each is True or _is_text(node, name) or _is_word(node, name, each)):
                raise QueryError(f"{called(node)} {each} cannot be answered here")


def _check_unit(value: object) -> None:
    if not isinstance(value, exp.Var | exp.Literal) or value.name.lower() not in _UNITS:
        raise QueryError("a unit is one of year, quarter, month, week, day, hour, minute, second, dow, isodow and doy")


def _is_text(node: exp.Expr, name: str) -> bool:
    """Whether an argument is checked by `_check_leaf`."""
    return name == "this" and isinstance(node, exp.Identifier | exp.Literal | exp.Var | exp.DataType)


def _is_word(node: exp.Expr, name: str, value: Any) -> bool:
    words = _WORDS.get((type(node), name), "").split()
    return isinstance(value, str) and value.upper().replace(" ", "_") in words


def _check_leaf(node: exp.Expr) -> int:
    """Refuse names, literals, words and types that are none; the number of characters of a name or literal."""
    if isinstance(node, exp.DataType) and node.this not in _TYPES:
        raise QueryError("a value is cast to BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL, VARCHAR, DATE or TIMESTAMP")
    if not isinstance(node, exp.Identifier | exp.Literal | exp.Var):
        return 0
    text = node.this
    if not isinstance(text, str):
        raise QueryError(f"a name or a literal is a text, not {type(text).__name__}")
    if isinstance(node, exp.Var):
        _check_var(node)
    elif isinstance(node, exp.Literal) and not node.is_string:
        _check_number(text)
    elif not text.isprintable() and not _is_unicode(text):
        raise QueryError("names and texts have no null characters, and no halves of surrogate pairs")
    return len(text)


def _check_var(node: exp.Var) -> None:
    """Refuse what is neither a unit nor the ALL of ORDER BY ALL."""
    if node.name.lower() not in _UNITS and not (isinstance(node.parent, exp.Ordered) and node.name.upper() == "ALL"):
        raise QueryError(f"{node.name[:60]!r} cannot be answered here: it is neither a column nor a unit of time")


def _check_number(text: str) -> None:
    """Refuse what is no decimal number: digits, perhaps a point among them, perhaps an exponent."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    digits = whole + part + exponent.removeprefix("-").removeprefix("+")
    ends = "e" not in text.lower() or exponent.lstrip("+-") != ""
    if not (text.isascii() and digits.isdigit() and (whole or part) and ends) or len(text) > MAX_DIGITS:
        raise QueryError(f"{text[:60]} is no number of at most {MAX_DIGITS} digits")


def _is_unicode(text: str) -> bool:
    """Whether a text can be written in UTF-8, and is not cut off by a null character."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
