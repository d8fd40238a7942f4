"""Every error that treering raises on purpose.

    TreeringError
    ├── ParameterError      a parameter that cannot be (also a ValueError)
    ├── SchemaError         a schema that cannot be, or two schemas where one was meant (also a ValueError)
    ├── QueryError          a question that cannot be asked of this schema (also a ValueError)
    ├── DataError           rows that do not fit the schema: position and column, never the value (also a ValueError)
    ├── BudgetExceeded      a charge that does not fit; nothing was touched
    ├── GuaranteeError      parameters that give no guarantee; the message says which would
    ├── Halted              a mechanism that has given its last answer
    ├── VaultError          durable state that is missing, locked, damaged or of another version
    │   ├── NotAVault       a folder that is no vault
    │   ├── NewerVault      a vault that a later version of treering wrote
    │   ├── DamagedVault    a vault that does not hold what was written to it
    │   └── VaultBusy       a vault that another process is writing to
    └── EngineError         a database engine that failed, or a table that changed under us

No message carries a private value: what is quoted is a parameter, a query, a schema or a position.
"""

from __future__ import annotations

from fractions import Fraction


class TreeringError(Exception):
    """The root of the tree: ``except TreeringError`` catches all of them."""

    answers: tuple[object, ...] = ()
    """What a batch had released before it failed: these answers stand, and are paid for."""


class ParameterError(TreeringError, ValueError):
    """A parameter that cannot be; the message names it and says what would do."""

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"{parameter} {problem}")
        self.parameter = parameter


class SchemaError(TreeringError, ValueError):
    """A schema that cannot be, or a query or table that speaks of another schema."""


class QueryError(TreeringError, ValueError):
    """A question that cannot be asked of this schema."""


class DataError(TreeringError, ValueError):
    """Rows that do not fit the schema: where, never what."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class BudgetExceeded(TreeringError):
    """A charge that does not fit into what is left. Nothing was charged and nothing was touched."""

    def __init__(self, unit: str, *, spent: Fraction, requested: Fraction, total: Fraction) -> None:
        super().__init__(
            f"the privacy budget does not cover this: spent {unit}={float(spent):.6g}, "
            f"requested {float(requested):.6g}, total {float(total):.6g}"
        )
        self.unit = unit
        self.spent = spent
        self.requested = requested
        self.total = total


class GuaranteeError(TreeringError):
    """Parameters that cannot give the guarantee that was asked for."""


class Halted(TreeringError):
    """The mechanism has given its last answer; it touches no private data any more."""


class VaultError(TreeringError):
    """Durable state that is missing, locked, damaged or of another version."""


class NotAVault(VaultError):
    """A folder that is no vault."""


class NewerVault(VaultError):
    """A vault that a later version of treering wrote."""


class DamagedVault(VaultError):
    """A vault that does not hold what was written to it."""


class VaultBusy(VaultError):
    """A vault that another process is writing to."""


class EngineError(TreeringError):
    """A database engine that failed, or a table that changed under us."""
