"""The exceptions of PEP 249, and which of them an error of treering is.

    Exception
      Warning
      Error
        InterfaceError          a closed connection or cursor, parameters that do not fit
        DatabaseError
          DataError             a parameter of a type that has no place in a statement
          OperationalError      the budget or a quota is spent; no server; the vault is busy or damaged; a limit
          IntegrityError        an idempotency key that was used for something else
          InternalError         anything else that the vault refuses
          ProgrammingError      a statement that cannot be read or answered, an attribute that is not there
          NotSupportedError     what a vault has not: binary values, procedures

The cause (``__cause__``) is treering's own error, whose ``bill`` says what was charged.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from treering.errors import (
    AccessDenied,
    BudgetExceeded,
    DataError as BadData,
    Dearer,
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
    VaultError,
)


class Warning(builtins.Exception):
    """A warning."""


class Error(builtins.Exception):
    """The root of all errors."""


class InterfaceError(Error):
    """The interface was used wrongly."""


class DatabaseError(Error):
    """The vault refused, or failed."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The vault cannot answer now: budget, quota, limits, server."""


class IntegrityError(DatabaseError):
    """A key was used for something else."""


class InternalError(DatabaseError):
    """The vault failed."""


class ProgrammingError(DatabaseError):
    """The statement cannot be answered as it is written."""


class NotSupportedError(DatabaseError):
    """A vault has nothing of the kind."""


_KINDS: Final[tuple[tuple[tuple[type[TreeringError], ...], type[DatabaseError]], ...]] = (
    ((KeyUsed,), IntegrityError),
    (
        (
            *(BudgetExceeded, Dearer, QuotaExceeded, TimeLimit, Halted),
            *(VaultError, EngineError, ServiceError, AccessDenied, GuaranteeError),
        ),
        OperationalError,
    ),
    ((QueryError, SchemaError, ParameterError), ProgrammingError),
    ((BadData,), DataError),
)
"""For errors of treering, the first match: the exception of PEP 249."""


@contextmanager
def translated() -> Iterator[None]:
    """Errors of treering within the block are raised as exceptions of PEP 249."""
    try:
        yield
    except TreeringError as error:
        kind = next((kind for own, kind in _KINDS if isinstance(error, own)), InternalError)
        raise kind(str(error)) from error
