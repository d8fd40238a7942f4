"""Python's database API (PEP 249) over a vault: of this process, in a folder, or on a server.

    connection = treering.dbapi.connect("flights.treering")
    cursor = connection.cursor()
    cursor.execute("SELECT origin, COUNT(*) AS n FROM flights WHERE delay >= ? GROUP BY origin", [60])
    cursor.fetchall()

Each statement is priced and answered as `treering.Vault.sql` does it, under the vault's one promise; ``…_margin``
columns stand beside what has noise. What was released cannot be taken back: `Connection.rollback` undoes nothing.
Threads may share the module and connections, not cursors.
"""

from datetime import date as Date, datetime as Timestamp, time as Time

from treering.dbapi.connection import Connection as Connection, Cursor as Cursor, connect as connect
from treering.dbapi.exceptions import (
    DatabaseError as DatabaseError,
    DataError as DataError,
    Error as Error,
    IntegrityError as IntegrityError,
    InterfaceError as InterfaceError,
    InternalError as InternalError,
    NotSupportedError as NotSupportedError,
    OperationalError as OperationalError,
    ProgrammingError as ProgrammingError,
    Warning as Warning,
)
from treering.dbapi.types import (
    BINARY as BINARY,
    DATETIME as DATETIME,
    NUMBER as NUMBER,
    ROWID as ROWID,
    STRING as STRING,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Binary = bytes
DateFromTicks = Date.fromtimestamp
TimestampFromTicks = Timestamp.fromtimestamp


def _time(ticks: float) -> Time:
    """The local time of a number of seconds since 1970."""
    return Timestamp.fromtimestamp(ticks).time()


TimeFromTicks = _time
