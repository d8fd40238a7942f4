"""Every error that treering raises on purpose.

    TreeringError
    ├── ParameterError      an invalid parameter (also a ValueError)
    │   └── KeyUsed         an idempotency key that was used for something else
    ├── SchemaError         an invalid schema, or a query or table of another schema (also a ValueError)
    ├── QueryError          a query that this schema cannot answer (also a ValueError)
    │   └── TimeLimit       a question that takes longer to work out than a request may, or whose caller has gone
    ├── DataError           rows that do not fit the schema: position and column, never the value (also a ValueError)
    ├── BudgetExceeded      a charge that exceeds what is left; nothing was charged or read
    ├── Dearer              a question that could cost more than its caller allows; nothing was charged or read
    ├── GuaranteeError      parameters that give no guarantee; the message says which would
    ├── Halted              a mechanism, or a run, that has given its last answer
    ├── VaultError          a vault that is missing, locked, damaged or of another version
    │   ├── NotAVault       a folder that is no vault
    │   ├── UnknownFormat   a vault of another format than this version of treering reads
    │   ├── DamagedVault    a vault whose files are not what was written
    │   └── VaultBusy       a vault that another process has open for writing
    ├── EngineError         a database engine that failed, or a table that changed other than by growing
    ├── QuotaExceeded       a question that an analyst's own quota does not cover; nothing was charged or read
    ├── AccessDenied        a token that is missing, wrong, expired or revoked, or whose role may not do this
    └── ServiceError        a server that cannot be reached, or that is none of ours, or of another version

No message carries a private value: what is quoted is a parameter, a query, a schema or a position.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from treering.words import readable

if TYPE_CHECKING:
    from treering.answer import Bill


class TreeringError(Exception):
    """The base class: ``except TreeringError`` catches every error of this module."""

    answers: tuple[object, ...] = ()
    """The answers that a batch had released before it failed: they are valid, and paid for."""

    bill: Bill | None = None
    """What was charged before this error; None if nothing was. What was released for it is free to ask again."""


class ParameterError(TreeringError, ValueError):
    """An invalid parameter; the message names it and says what is valid. ``parameter`` is its name."""

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"{parameter} {problem}")
        self.parameter = parameter


class KeyUsed(ParameterError):
    """An idempotency key that was used for something else."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__("key", f"{key!r} was used for something else: use a new key for {what}")


class SchemaError(TreeringError, ValueError):
    """An invalid schema, or a query or table of another schema."""


class QueryError(TreeringError, ValueError):
    """A query that this schema cannot answer."""


class TimeLimit(QueryError):
    """A question that takes longer to work out than a request may, or whose caller has gone."""


class DataError(TreeringError, ValueError):
    """Rows that do not fit the schema. ``row`` and ``column`` say where, if that is known; the value is never shown."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class BudgetExceeded(TreeringError):
    """A charge that exceeds what is left of the budget. Nothing was charged, and no private data were read.

    ``spent``, ``requested`` and ``total`` are amounts of ``unit``: "epsilon" or "rho". ``remedy`` says what would do.

    >>> print(BudgetExceeded("rho", spent=Fraction(1, 2), requested=Fraction(2), total=Fraction(1)))
    the privacy budget does not cover this: it needs rho 2, and 0.5 is left of 1
    """

    def __init__(self, unit: str, *, spent: Fraction, requested: Fraction, total: Fraction, remedy: str = "") -> None:
        wanted, left = float(requested), float(total - spent)
        digits = next((each for each in (4, 8) if readable(wanted, each) != readable(left, each)), 17)
        super().__init__(
            f"the privacy budget does not cover this: it needs {unit} {readable(wanted, digits)}, and "
            f"{readable(left, digits)} is left of {readable(float(total))}{remedy and '; '}{remedy}"
        )
        self.unit = unit
        self.spent = spent
        self.requested = requested
        self.total = total


class Dearer(TreeringError):
    """A question that could cost more than its caller allows. Nothing was charged, and no private data were read.

    ``price`` and ``most`` are amounts of ``unit``; ``plan`` is what would be done for that price: hand it over with the
    question when more is allowed.
    """

    def __init__(self, unit: str, price: float, most: float, plan: object = None) -> None:
        super().__init__(f"this could cost {unit} {readable(price)}, which is more than the {readable(most)} allowed")
        self.unit = unit
        self.price = price
        self.most = most
        self.plan = plan


class GuaranteeError(TreeringError):
    """Parameters that cannot give the guarantee that was asked for."""


class Halted(TreeringError):
    """A mechanism, or one of its runs, has given its last answer; it reads no private data any more."""


class VaultError(TreeringError):
    """A vault that is missing, locked, damaged or of another version."""


class NotAVault(VaultError):
    """A folder that is no vault."""


class UnknownFormat(VaultError):
    """A vault of another format than this version of treering reads."""


class DamagedVault(VaultError):
    """A vault whose files are not what was written."""


class VaultBusy(VaultError):
    """A vault that another process has open for writing."""


class EngineError(TreeringError):
    """A database engine that failed, or a table that changed other than by growing."""


class QuotaExceeded(TreeringError):
    """A question that an analyst's own quota does not cover. Nothing was charged, and no private data were read.

    ``requested`` and ``left`` are amounts of ``unit``: "epsilon", "rho" or "answers".
    """

    def __init__(self, message: str, *, unit: str = "", requested: float = 0.0, left: float = 0.0) -> None:
        super().__init__(message)
        self.unit = unit
        self.requested = requested
        self.left = left


class AccessDenied(TreeringError):
    """A token that is missing, wrong, expired or revoked, or whose role may not do this."""


class ServiceError(TreeringError):
    """A server that cannot be reached, or that is none of ours, or of another version."""
