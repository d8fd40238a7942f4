"""SQLAlchemy over a vault in a folder (``treering:///folder/of/vault``) or on a server (``treering+http``).

SELECTs of the released numbers are what works: counts, sums, averages, quantiles, grouped and filtered. There is one
table, whose columns are the attributes; nothing is inserted, created or rolled back.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedPrimaryKeyConstraint
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.compiler import IdentifierPreparer, SQLCompiler

import treering.dbapi
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.calendar import DatePart, Dates

_COLUMNS: Final[tuple[tuple[tuple[type[Attribute], ...], types.TypeEngine[Any]], ...]] = (
    ((Dates,), types.DATE()),
    ((DatePart, Integers), types.BIGINT()),
    ((Bins,), types.FLOAT()),
)
"""The types of columns, by kinds of attributes; categories have the type of their values."""


class Preparer(IdentifierPreparer):
    """Names in double quotes where they need them."""


class TreeringDialect(DefaultDialect):
    """A vault in a folder."""

    name = "treering"
    driver = "vault"
    default_paramstyle = "qmark"
    preparer = Preparer
    statement_compiler = SQLCompiler
    supports_alter = False
    supports_statement_cache = True
    supports_sane_rowcount = False
    supports_native_boolean = True
    supports_default_values = False
    supports_empty_insert = False
    supports_schemas = False
    postfetch_lastrowid = False
    requires_name_normalize = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module of PEP 249."""
        return treering.dbapi

    def create_connect_args(self, url: URL) -> tuple[Any, dict[str, Any]]:
        """The folder, and options such as ``?within=200``."""
        return [url.database or ""], _options(url)

    # -- what there is ------------------------------------------------------------------------------------------------

    def initialize(self, connection: Connection) -> None:
        """Nothing is asked."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the connection is open."""
        dbapi_connection.check()
        return True

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """None: tables have no schemas."""
        return []

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """The one table."""
        return [_source(connection).name]

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """None."""
        return []

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether a name is that of the table."""
        return table_name.lower() == str(_source(connection).name).lower()

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        """The attributes, each with what can be asked about it as its comment."""
        self._check_table(connection, table_name)
        return [
            {
                "name": name,
                "type": _type(attribute),
                "nullable": attribute.missing,
                "default": None,
                "autoincrement": False,
                "comment": attribute.describe(),
            }
            for name, attribute in _source(connection).schema.attributes.items()
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """None."""
        self._check_table(connection, table_name)
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """None."""
        self._check_table(connection, table_name)
        return []

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """None."""
        self._check_table(connection, table_name)
        return []

    def _check_table(self, connection: Connection, table_name: str) -> None:
        if not self.has_table(connection, table_name):
            raise NoSuchTableError(table_name)


class HttpDialect(TreeringDialect):
    """A vault on a server: ``treering+http``, then the token as the user, the host, the port and the table's name."""

    driver = "http"
    scheme = "http"
    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> tuple[Any, dict[str, Any]]:
        """The address and the token, which stands in the place of the user, or of the password."""
        port = f":{url.port}" if url.port else ""
        token = url.password or url.username or ""
        return [f"{self.scheme}://{url.host}{port}", token], _options(url)


class HttpsDialect(HttpDialect):
    """The same over TLS: ``treering+https``."""

    driver = "https"
    scheme = "https"
    supports_statement_cache = True


def _options(url: URL) -> dict[str, Any]:
    given = dict(url.query)
    options: dict[str, Any] = {name: given[name] for name in ("mechanism",) if name in given}
    if "within" in given:
        options["within"] = float(str(given["within"]))
    return options


def _source(connection: Connection) -> Any:
    opened: Any = connection.connection.driver_connection
    return opened.source


def _type(attribute: Attribute) -> types.TypeEngine[Any]:
    if isinstance(attribute, Categories):
        first = attribute.values[0]
        return (
            types.BOOLEAN() if isinstance(first, bool) else types.BIGINT() if isinstance(first, int) else types.TEXT()
        )
    return next(kind for kinds, kind in _COLUMNS if isinstance(attribute, kinds))
