"""The errors of the package over HTTP: a status and a stable code for each, and the error that a reply stands for.

A server writes problems (RFC 9457) by this table, and a client raises by it what the vault raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from treering.answer import Answer, Bill
from treering.errors import (
    AccessDenied,
    BudgetExceeded,
    DamagedVault,
    DataError,
    EngineError,
    GuaranteeError,
    Halted,
    KeyUsed,
    ParameterError,
    QueryError,
    QuotaExceeded,
    SchemaError,
    ServiceError,
    TimeLimit,
    TreeringError,
    VaultBusy,
    VaultError,
)


class Coded(NamedTuple):
    """What an error is over HTTP."""

    kind: type[TreeringError]
    status: int
    code: str


ERRORS: Final = (
    Coded(KeyUsed, 409, "key_reused"),
    Coded(ParameterError, 422, "bad_parameter"),
    Coded(TimeLimit, 422, "takes_too_long"),
    Coded(QueryError, 422, "bad_query"),
    Coded(SchemaError, 422, "bad_schema"),
    Coded(DataError, 422, "bad_rows"),
    Coded(BudgetExceeded, 402, "budget_exceeded"),
    Coded(QuotaExceeded, 429, "quota_exceeded"),
    Coded(GuaranteeError, 409, "no_guarantee"),
    Coded(Halted, 409, "halted"),
    Coded(VaultBusy, 503, "vault_busy"),
    Coded(DamagedVault, 500, "vault_damaged"),
    Coded(VaultError, 503, "vault_unavailable"),
    Coded(EngineError, 502, "engine_failed"),
)
"""The first line that fits is what an error is."""

_KINDS: Final = {each.code: each.kind for each in ERRORS}


def details_of(error: TreeringError) -> dict[str, Any]:
    """What a program may want to know of an error, as plain values; amounts of budget as exact fractions."""
    return {**_about(error), **charged(error)}


def charged(error: BaseException) -> dict[str, Any]:
    """What was charged before an error, also an unexpected one; nothing if nothing was."""
    bill = getattr(error, "bill", None)
    if not isinstance(bill, Bill):
        return {}
    return {"cost": bill.cost, "remaining": bill.remaining, "settled": bill.settled, "unit": bill.unit}


def _about(error: TreeringError) -> dict[str, Any]:
    if isinstance(error, ParameterError):
        return {"parameter": error.parameter}
    if isinstance(error, DataError):
        return {"row": error.row, "column": error.column}
    if isinstance(error, BudgetExceeded):
        return {"unit": error.unit, **{name: str(getattr(error, name)) for name in _AMOUNTS}}
    if isinstance(error, QuotaExceeded):
        return {"unit": error.unit, "requested": error.requested, "left": error.left}
    return {}


def error_of(told: Mapping[str, Any]) -> TreeringError:
    """The error that a problem stands for.

    >>> raised = error_of({"status": 422, "code": "bad_parameter", "detail": "within must be", "parameter": "within"})
    >>> type(raised).__name__, str(raised), raised.parameter
    ('ParameterError', 'within must be', 'within')
    """
    code, status = str(told["code"]), int(told["status"])
    make = _MADE.get(code, _plain)
    kind = AccessDenied if status in (401, 403) else _KINDS.get(code, ServiceError)
    error = make(told, kind)
    error.args = (str(told["detail"]),)
    error.answers = tuple(
        Answer(*(each[name] for name in ("value", "error", "size", "kind", "margin", "of")))
        for each in told.get("answers", ())
    )
    if told.get("cost"):
        remaining = told.get("remaining")
        left = math.nan if remaining is None else float(remaining)
        error.bill = Bill(math.inf, float(told["cost"]), left, bool(told.get("settled")), str(told.get("unit", "")))
    return error


_AMOUNTS: Final = ("spent", "requested", "total")


def _plain(told: Mapping[str, Any], kind: type[TreeringError]) -> TreeringError:
    return kind(str(told["detail"]))


def _parameter(told: Mapping[str, Any], _: type[TreeringError]) -> TreeringError:
    return ParameterError(str(told["parameter"]), "")


def _key(_: Mapping[str, Any], __: type[TreeringError]) -> TreeringError:
    return KeyUsed("", "")


def _rows(told: Mapping[str, Any], _: type[TreeringError]) -> TreeringError:
    return DataError("", row=told.get("row"), column=told.get("column"))


def _budget(told: Mapping[str, Any], _: type[TreeringError]) -> TreeringError:
    spent, requested, total = (Fraction(told[name]) for name in _AMOUNTS)
    return BudgetExceeded(str(told["unit"]), spent=spent, requested=requested, total=total)


def _quota(told: Mapping[str, Any], _: type[TreeringError]) -> TreeringError:
    amounts = {name: float(told.get(name) or 0.0) for name in ("requested", "left")}
    return QuotaExceeded("", unit=str(told.get("unit", "")), **amounts)


def _invalid(told: Mapping[str, Any], _: type[TreeringError]) -> TreeringError:
    """A request of another form than the server reads: about the question, or about a parameter."""
    errors = told.get("errors") or [{"where": ""}]
    name = str(errors[0]["where"]).rpartition(".")[2]
    asked = any(f".{word}" in str(errors[0]["where"]) for word in ("query", "queries", "sql"))
    return QueryError("") if asked else ParameterError(name or "request", "")


def _no_token(_: Mapping[str, Any], __: type[TreeringError]) -> TreeringError:
    return ParameterError("token", "")


_MADE: Final[dict[str, Callable[[Mapping[str, Any], type[TreeringError]], TreeringError]]] = {
    "bad_parameter": _parameter,
    "key_reused": _key,
    "bad_rows": _rows,
    "budget_exceeded": _budget,
    "quota_exceeded": _quota,
    "invalid_request": _invalid,
    "no_such_token": _no_token,
}
