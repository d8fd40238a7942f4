"""Tables in real engines: a server started for the tests, files, and rows that are as nasty as rows get."""

from __future__ import annotations

import io
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from support.coded import coded
from support.programs import postgres_programs
from treering.domain.attribute import Attribute, bins, categories, integers
from treering.domain.calendar import dates
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.trusted.engines.source import Source
from treering.trusted.engines.tables import Stretch
from treering.trusted.engines.watermark import Watermark
from treering.trusted.memory.database import GrowingDatabase
from treering.trusted.rows.intake import OnInvalid
from treering.trusted.rows.kept import Rows

USER: Final = "treering"

TEXTS: Final = ("EWR", "JFK ", "jfk", "", "it's", "a\\b", "new\nline", "é", "e\u0301", "日本", '"', "%s {x}", "NULL")
NAN: Final = float("nan")
INFINITY: Final = float("inf")


def nasty_schema(*, open_ended: bool) -> Schema:
    """Every kind of attribute; with a cell for everything, or for nothing but what is listed."""
    flags: dict[str, Any] = {"other": open_ended, "missing": open_ended}
    return Schema(
        {
            "origin": categories(*TEXTS, **flags),
            "code": categories(-(2**63), 0, 7, 2**63 - 1, **flags),
            "flag": categories(True, **flags),
            "month": integers(1, 12, **flags),
            "share": integers(-3, 900_000, **flags),
            "delay": bins([-1440, -0.1, 0, 0.1 + 0.2, 0.7, 1.5, 60, 1440], **flags),
            "single": bins([-1, 0.1, 0.7, 3e5], **flags),
            "small": bins([-100.5, 0, 7, 100], **flags),
        }
    )


NASTY: Final[dict[str, tuple[pa.DataType, list[Any]]]] = {
    "origin": (pa.string(), [*TEXTS, None, "JFK", "JFK  ", " EWR", "ewr", "É", "null", "日", "EWR\n", "\t"]),
    "code": (pa.int64(), [-(2**63), 2**63 - 1, 0, 7, None, 8, -(2**63) + 1, 2**53 + 1]),
    "flag": (pa.bool_(), [True, False, None]),
    "month": (pa.int32(), [1, 12, 0, 13, -1, None, 2**31 - 1, -(2**31), 6]),
    "share": (pa.float64(), [1.0, 2.5, NAN, INFINITY, -INFINITY, None, -0.0, 1e300, -3.0, -3.5, 900_000.0, 5e-324]),
    "delay": (
        pa.float64(),
        [
            *(-1440.0, -0.1, -0.0, 0.0, 0.7, 0.6999999999999999, 1.5, 60.0, 1440.0, 1440.0000000000002),
            *(-1440.0000000000002, NAN, None, INFINITY, -INFINITY, 5e-324, -5e-324, 1e308, -1e308),
        ],
    ),
    "single": (pa.float32(), [0.1, 0.7, -0.0, 3e5, NAN, None, INFINITY, -INFINITY, -1.0, 3e38, 1e-45]),
    "small": (pa.int16(), [-100, 0, 7, 100, 101, -101, None, 2**15 - 1, -(2**15)]),
}
"""For each column its type and values: listed, almost listed, at the edges and beside them, out of range, absent."""


MOMENTS: Final = [
    None,
    datetime(2013, 2, 28, 23, 59, 59, 999_999),
    datetime(2012, 2, 29),  # a leap day
    datetime(1600, 2, 29, 12),
    datetime(2013, 3, 10, 2, 30),  # a clock in New York skips this
    datetime(2013, 11, 3, 5, 30),  # as UTC: 1:30 in New York, for the first time
    datetime(2013, 11, 3, 6, 30),  # and for the second
    datetime(2013, 3, 1),
    datetime(2013, 3, 1, 4, 59, 59, 999_999),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
    datetime(2012, 12, 31),
    datetime(2300, 7, 1, 3),
]
DATED_TEXTS: Final = [
    *("", None, "x", "2013-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "2013-02-28T23:59:59.9999999"),
    *("2013-03-01T04:59:59Z", "2013-03-01T05:00:00Z", "2013-03-01 00:00:00+05:30", "2013-03-01T00:00-0800"),
    *("2013-03-01 00:00:00+05", "9999-12-31T23:59:59.999999-14:00", "0001-01-01", "0000-01-01", "2013-01-01\n"),
    *(" 2013-01-01", "2013-01-01T24:00:00", "2013-01-01T23:60", "2013-W01", "20130101", "99999-01-01", "infinity"),
    *(
        "2013-11-03T05:30:00Z",
        "2013-11-03T06:30:00Z",
        "2013-01-01 10:00:00.5",
        "2013-01-01 10:00",
        "2013-01-01T10:00+15:00",
    ),
]


def dated_schema() -> Schema:
    """Periods and parts of every kind of column."""
    zone = "America/New_York"
    attributes: dict[str, Attribute] = {}
    for column, unit in (("day", "day"), ("moment", "week"), ("instant", "month"), ("text", "quarter")):
        attributes[f"{column} by {unit}"] = dates("2012-02-28", "2013-03-10", by=unit, column=column, tz=zone)
    for column, part in (("day", "weekday"), ("moment", "hour"), ("instant", "hour"), ("text", "month")):
        attributes[f"{part} of {column}"] = dates(part=part, column=column, tz=zone)
    # East of Greenwich the first and the last instants of all lie within the years and beyond them, not the reverse.
    attributes["hour in Tokyo"] = dates(part="hour", column="instant", tz="Asia/Tokyo")
    return Schema({**attributes, "amount": bins([0, 0.1, 7], other=True, missing=True)})


def dated_rows(rows: int = 406) -> pa.Table:
    """Rows that run through all nasty dates and some decimals."""
    moments = [MOMENTS[row % len(MOMENTS)] for row in range(rows)]
    amounts = [None, Decimal("0.10"), Decimal("0.09"), Decimal("-0.01"), Decimal("7.00"), Decimal("6.99")]
    return pa.table(
        {
            "id": pa.array(range(10, 10 + rows), pa.int64()),
            "day": pa.array([None if each is None else each.date() for each in moments], pa.date32()),
            "moment": pa.array(moments, pa.timestamp("us")),
            "instant": pa.array([None if each is None else each.replace(tzinfo=UTC) for each in moments], INSTANT),
            "text": pa.array([DATED_TEXTS[row % len(DATED_TEXTS)] for row in range(rows)], pa.string()),
            "amount": pa.array([amounts[row % len(amounts)] for row in range(rows)], pa.decimal128(12, 2)),
        }
    )


INSTANT: Final = pa.timestamp("us", "UTC")


def nasty_rows(rows: int = 400) -> pa.Table:
    """Rows that run through all of these, each column at its own pace."""
    columns = {
        name: pa.array([values[(row * (1 + place)) % len(values)] for row in range(rows)], kind)
        for place, (name, (kind, values)) in enumerate(NASTY.items())
    }
    return pa.table({"id": pa.array(range(10, 10 + rows), pa.int64()), **columns})


def lonely(rows: Mapping[str, tuple[pa.DataType, list[Any]]], ordinary: Mapping[str, Any]) -> list[pa.Table]:
    """Tables of three ordinary rows and one in which a nasty value stands alone in each column, such that each value of
    each column is in one of them. (Of more than 20 values, two are in one table.)"""
    longest = min(20, max(len(values) for _, values in rows.values()))
    tables = []
    for place in range(longest):
        columns = {
            name: pa.array([ordinary[name]] * 3 + [values[place % len(values)], values[-1 - place % len(values)]], kind)
            if len(values) > longest
            else pa.array([ordinary[name]] * 3 + [values[place % len(values)]] * 2, kind)
            for name, (kind, values) in rows.items()
        }
        tables.append(pa.table({"id": pa.array(range(5), pa.int64()), **columns}))
    return tables


ORDINARY: Final = {
    "origin": "日本",
    "code": 7,
    "flag": True,
    "month": 12,
    "share": 900_000.0,
    "delay": 1.0,
    "single": 0.7,
    "small": 7,
}
"""A row that fits the nasty schema."""


def generated_rows(rows: int, seed: int = 2013) -> pa.Table:
    """Rows in bulk, of some of these columns: from the nasty values, or drawn."""
    generator = np.random.default_rng(seed)

    def some(name: str) -> pa.Array:
        kind, values = NASTY[name]
        return pa.array(values, kind).take(pa.array(generator.integers(0, len(values), rows)))

    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64) * 3 - 17),
            "origin": some("origin"),
            "flag": some("flag"),
            "month": some("month"),
            "delay": pa.array(generator.normal(20, 300, rows)),
            "single": pa.array(generator.normal(0, 2, rows).astype(np.float32)),
        }
    )


def expected(table: pa.Table, schema: Schema, *, drop: bool = False) -> dict[int, int]:
    """The histogram that typed rows have."""
    cells, _ = coded(table.select(list(schema.columns)), schema, drop=drop)
    return dict(Counter(cells.tolist()))


def taken(source: Source, after: Watermark | None = None, *, drop: bool = False) -> Rows:
    """The rows past a watermark, taken in: they stay where they are."""
    increment = source.increment(after, "drop" if drop else "refuse")
    rows = Rows(source.schema)
    rows.add_elsewhere(Stretch(lambda: source, after, increment.watermark), increment.rows)
    return rows


def cells(rows: Rows) -> dict[int, int]:
    """The histogram of rows."""
    if not rows.size:
        return {}
    _, place, number = rows.tally(Groups.cells(rows.schema), (0, rows.size))
    return dict(zip(place.tolist(), number.tolist(), strict=True))


def histogram(source: Source, after: Watermark | None = None, *, drop: bool = False) -> dict[int, int]:
    """The histogram of the rows past a watermark."""
    return cells(taken(source, after, drop=drop))


class Postgres:
    """A PostgreSQL server of our own, in a temporary folder, on a Unix socket.

    PostgreSQL refuses to run as root: there it runs as the user that its package has made, or as nobody.
    """

    def __init__(self) -> None:
        self.programs = postgres_programs()
        self.owner: dict[str, Any] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="treering-postgres-"))
        if os.geteuid() == 0:
            known = {user.pw_name: user for user in pwd.getpwall()}
            owner = known.get("postgres", known["nobody"])
            self.owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(self.folder, owner.pw_uid, -1)
        self._run("initdb", "--auth=trust", f"--username={USER}", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.programs / program), "-D", str(self.folder / "data"), *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self.owner,
        )

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self) -> None:
        """At once, as if the machine had failed."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def connect(self, user: str = USER) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self.folder), user=user, dbname="postgres", autocommit=True)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def address(self, table: str, user: str = USER) -> str:
        return f"postgresql://{user}@/postgres?host={self.folder}#{table}"


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A server that runs until it is let go of."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        if (server.folder / "data" / "postmaster.pid").exists():
            server.stop()
        server.remove()


class Stage(ABC):
    """One way to keep a table: how to make it, how to let it grow, how to change what may not change."""

    name: str
    source: Any
    """What `Source.of` is given."""

    @abstractmethod
    def create(self, rows: pa.Table) -> None:
        """Make the table anew, with these rows."""

    @abstractmethod
    def add(self, rows: pa.Table) -> None:
        """More rows, wherever their order values put them."""

    @abstractmethod
    def remove(self, order: int) -> None:
        """Delete one row."""

    @abstractmethod
    def retype(self) -> None:
        """Turn the column ``month`` into floats."""

    def database(self, schema: Schema, on_invalid: OnInvalid = "refuse") -> GrowingDatabase:
        """A database of the rows that the table has."""
        return GrowingDatabase.from_table(self.source, schema, on_invalid=on_invalid)

    def refresh(self, database: GrowingDatabase) -> None:
        """Take in the rows that were added since."""
        database.refresh()


class Embedded(Stage):
    """No engine: rows that are appended, and kept."""

    name = "embedded"

    def __init__(self) -> None:
        self._rows: list[pa.Table] = []

    def create(self, rows: pa.Table) -> None:
        self._rows = [rows]

    def add(self, rows: pa.Table) -> None:
        self._rows.append(rows)

    def remove(self, order: int) -> None:
        raise NotImplementedError

    def retype(self) -> None:
        raise NotImplementedError

    def database(self, schema: Schema, on_invalid: OnInvalid = "refuse") -> GrowingDatabase:
        database = GrowingDatabase(schema)
        for rows in self._rows:
            database.append(rows, on_invalid)
        self._rows = []
        return database

    def refresh(self, database: GrowingDatabase) -> None:
        for rows in self._rows:
            database.append(rows)
        self._rows = []


class DuckDB(Stage):
    """A table in a DuckDB file, by its address."""

    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows.duckdb"
        self.source = f"duckdb://{self.path}#rows"

    def _execute(self, statement: str, rows: pa.Table | None = None) -> None:
        with duckdb.connect(str(self.path)) as connection:
            if rows is not None:
                connection.register("given", rows)
            connection.execute(statement)

    def create(self, rows: pa.Table) -> None:
        self._execute("CREATE OR REPLACE TABLE rows AS SELECT * FROM given", rows)

    def add(self, rows: pa.Table) -> None:
        self._execute("INSERT INTO rows SELECT * FROM given", rows)

    def remove(self, order: int) -> None:
        self._execute(f"DELETE FROM rows WHERE id = {order}")

    def retype(self) -> None:
        self._execute("ALTER TABLE rows ALTER month TYPE DOUBLE")


class Files(Stage):
    """A folder of files, one for every addition."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.name = self.kind = kind
        self.folder = folder / f"rows-{time.monotonic_ns()}"
        self.source = f"{kind}://{self.folder}"

    def _write(self, name: str, rows: pa.Table) -> None:
        path = self.folder / f"{name}.{self.kind}"
        if self.kind == "csv":
            # The shortest text of a single-precision number is that of another double.
            wide = [pa.float64() if field.type == pa.float32() else field.type for field in rows.schema]
            pc.write_csv(rows.cast(pa.schema(zip(rows.column_names, wide, strict=True))), path)
        else:
            pq.write_table(rows, path, row_group_size=3 if rows.num_rows < 10 else None)

    def create(self, rows: pa.Table) -> None:
        self.rows = rows
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._write("0", rows)

    def add(self, rows: pa.Table) -> None:
        self.rows = pa.concat_tables([self.rows, rows])
        self._write(str(self.rows.num_rows), rows)

    def remove(self, order: int) -> None:
        self.create(self.rows.filter(pa.compute.not_equal(self.rows["id"], order)))

    def retype(self) -> None:
        self.create(self.rows.set_column(4, "month", self.rows["month"].cast(pa.float64())))


class PostgresStage(Stage):
    """A table in a PostgreSQL server, by its address."""

    name = "postgres"
    TYPES: Final = {
        "string": "text",
        "int64": "bigint",
        "int32": "integer",
        "int16": "smallint",
        "bool": "boolean",
        "double": "double precision",
        "float": "real",
        "decimal128(9, 3)": "numeric(9, 3)",
        "date32[day]": "date",
        "timestamp[us]": "timestamp",
        "timestamp[us, tz=UTC]": "timestamptz",
        "decimal128(12, 2)": "numeric(12, 2)",
    }

    def __init__(self, server: Postgres, table: str) -> None:
        self.server = server
        self.table = table
        self.source = server.address(table)

    def create(self, rows: pa.Table) -> None:
        columns = ", ".join(f'"{field.name}" {self.TYPES[str(field.type)]}' for field in rows.schema)
        self.server.execute(f"DROP TABLE IF EXISTS {self.table}", f"CREATE TABLE {self.table} ({columns})")
        self.add(rows)

    def add(self, rows: pa.Table) -> None:
        sink = io.BytesIO()
        pc.write_csv(rows, sink, pc.WriteOptions(include_header=False))
        statement = f"COPY {self.table} FROM STDIN (FORMAT csv)".encode()
        with self.server.connect() as connection, connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(sink.getvalue())

    def remove(self, order: int) -> None:
        self.server.execute(f"DELETE FROM {self.table} WHERE id = {order}")

    def retype(self) -> None:
        self.server.execute(f"ALTER TABLE {self.table} ALTER month TYPE double precision")
