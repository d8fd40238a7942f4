"""The nodes that a statement may consist of, by their names in sqlglot. What is not listed is refused."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

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


def _found(names: str) -> frozenset[type[exp.Expr]]:
    return frozenset(kind for name in names.split() if (kind := getattr(exp, name, None)) is not None)


AGGREGATES: Final = _found(_AGGREGATES)
"""Aggregates and window functions."""
ALLOWED: Final = _found(_CLAUSES) | _found(_OPERATORS) | _found(_FUNCTIONS) | AGGREGATES
