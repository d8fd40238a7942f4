"""A vault on a server, over HTTP: the same questions, answers, tables and errors as a vault in a folder.

Imports nothing heavy: NumPy and Arrow are loaded when a schema or a table comes, and no engine ever is.
"""

from __future__ import annotations

import io
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

from treering.answer import Answer, Price
from treering.errors import (
    AccessDenied,
    DataError,
    ParameterError,
    QueryError,
    ServiceError,
    TreeringError,
)
from treering.lazy import missing
from treering.problems import error_of
from treering.rowfile import RowFile
from treering.words import counted, left_out, reason

if TYPE_CHECKING:
    import ssl

    import httpx
    import pyarrow as pa

    from treering.domain.query import Query
    from treering.domain.schema import Schema

Question: TypeAlias = "Query | str"
Role: TypeAlias = Literal["analyst", "steward"]
Result = TypeVar("Result")

API: Final = "api/v1"
ARROW: Final = "application/vnd.apache.arrow.stream"
TYPES: Final = {
    ".csv": "text/csv",
    ".txt": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
}
"""What a file of rows is called over HTTP, by the end of its name."""

TRIES: Final = 5
"""How often a call that is safe to repeat is made before it fails."""
PAUSE: Final = 0.2
"""Seconds before the second try; each further pause is twice as long."""
LONGEST: Final = 5.0
"""The longest pause, in seconds."""
IDLE: Final = 4.0
"""Seconds after which an idle connection is not used again: the server closes it soon."""
TIMEOUT: Final = 300.0
"""Seconds without a byte of a reply before a call fails, unless another number is given."""
PAGE: Final = 1000
"""Lines of the ledger in one reply."""


def connect(
    url: str,
    token: str,
    *,
    timeout: float = TIMEOUT,
    verify: bool | ssl.SSLContext = True,
    insecure: bool = False,
) -> Client:
    """A vault that `treering serve` has at ``url``, asked with a steward's or an analyst's ``token``.

    ``timeout``   seconds without a byte of a reply before a call fails
    ``verify``    how the server's certificate is checked: an `ssl.SSLContext` for your own authority
    ``insecure``  send the token over plain HTTP to another machine, where everybody on the way can read it
    """
    try:
        import httpx
    except ImportError:
        raise ImportError(missing("connect", "httpx", "client")) from None
    base = _checked(url, insecure)
    if not isinstance(token, str) or not token.strip() or not token.strip().isascii():
        raise AccessDenied("a server wants a token, which a steward makes: it is a text that begins with treering_")
    http = httpx.Client(
        base_url=base,
        headers={"Authorization": f"Bearer {token.strip()}", "Accept": "application/json"},
        timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
        limits=httpx.Limits(keepalive_expiry=IDLE),
        verify=verify,
    )
    client = Client(base, http)
    try:
        client._greet()
    except BaseException:
        client.close()
        raise
    return client


def _checked(url: str, insecure: bool) -> str:
    """The address of a server, without a slash at its end."""
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ParameterError("url", "must be the address of a server, such as http://127.0.0.1:8765")
    if parts.scheme == "http" and not insecure and not _loopback(parts.hostname):
        raise ParameterError(
            "url", "must begin with https: over http anyone on the way could read the token (insecure=True allows it)"
        )
    return url.rstrip("/")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Wanted(TypedDict, total=False):
    """How a question is answered: see `Vault.ask`."""

    within: float | None
    mechanism: str | None
    count: Literal["rows", "persons"]
    per_person: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """Somebody's right to ask a server; times are in ISO 8601."""

    id: str
    name: str
    role: Role
    created: str
    expires: str | None
    revoked: str | None
    answers: int | None
    """How many answers that cost something it may have within a week; None: no limit."""
    budget: float | None
    """The part of the promise that it may spend within a week; None: no limit."""
    answers_used: int
    budget_used: float
    frees: str | None
    """When the oldest use no longer counts."""
    text: str | None = field(default=None, repr=False)
    """What to connect with: known when the token is made, and to nobody afterwards."""


class Client:
    """A vault on a server. Use `connect`. For any number of threads; a context manager.

    Answers are equal to those of `treering.Vault`, and errors are the same. A call is repeated by itself if the
    connection breaks and repeating is safe: with a ``key``, or where nothing is charged.
    """

    def __init__(self, url: str, http: httpx.Client) -> None:
        """Use `connect`."""
        self._url = url
        self._http = http

    # -- what is public -----------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """The attributes that one can ask about."""
        from treering.domain.schema import Schema

        return Schema.from_dict(self._get("schema")["schema"])

    @cached_property
    def name(self) -> str:
        """What the table is called."""
        return str(self.status()["name"])

    @property
    def size(self) -> int:
        """The number of rows now."""
        return int(self.status()["size"])

    def status(self) -> dict[str, Any]:
        """The public state, as `Vault.status` gives it."""
        return self._get("status")

    def me(self) -> Token:
        """The token that this client has: its role, its quota and what of that is used."""
        return _token(self._get("me"))

    def events(self) -> Iterator[dict[str, Any]]:
        """The status now, and again whenever rows have come or something was charged; for ever, or until the server
        stops or the token is revoked."""
        with self._stream("events") as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

    # -- questions ----------------------------------------------------------------------------------------------------

    def ask(
        self, query: Question, *, key: str | None = None, estimate: bool = False, **wanted: Unpack[Wanted]
    ) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error: see `Vault.ask`.

        With a ``key``, a question whose reply was lost is asked again by itself, and charged once.
        """
        if estimate:
            wanted["within"] = None
            return _answer(self._ask({"query": _text(query), "estimate": True, **_options(**wanted)}, None))
        return _answer(self._ask({"query": _text(query), **_options(**wanted)}, key))

    def ask_many(
        self, queries: Iterable[Question], *, key: str | None = None, **wanted: Unpack[Wanted]
    ) -> list[Answer]:
        """`ask` for a batch."""
        return self.ask_for(queries, key=key, **wanted)[0]

    def sql(
        self,
        text: str,
        within: float | None = None,
        mechanism: str | None = None,
        key: str | None = None,
        *,
        per_person: int | None = None,
    ) -> pa.Table:
        """The result of an SQL statement, as an Arrow table: see `Vault.sql`; ``key`` is as in `ask`."""
        return self.sql_for(text, within, mechanism, key, per_person=per_person)[0]

    def price(self, query: Question, **wanted: Unpack[Wanted]) -> float:
        """The most that asking ``query`` next could cost a row, in the promise's unit. Free."""
        return self._priced({"query": _text(query), **_options(**wanted)}).most

    def price_many(self, queries: Iterable[Question], **wanted: Unpack[Wanted]) -> Price:
        """The most that a batch could cost, and which mechanism would answer it. Free."""
        return self._priced({"queries": _texts(queries), **_options(**wanted)})

    def price_sql(
        self, text: str, within: float | None = None, mechanism: str | None = None, *, per_person: int | None = None
    ) -> Price:
        """The most that `sql` could cost, and which mechanism would answer. Free."""
        return self._priced({"sql": text, **_options(within=within, mechanism=mechanism, per_person=per_person)})

    def synthesize(self, rows: int, mechanism: str | None = None, seed: int | None = None) -> pa.Table:
        """Synthetic rows, ``rows`` of them, from what was released so far: free. One seed draws the same rows again."""
        parameters = {"rows": rows, "mechanism": mechanism, "seed": seed}
        given = {name: value for name, value in parameters.items() if value is not None}
        return _table(self._call("GET", "synthetic", safe=True, params=given, headers={"Accept": ARROW}).content)

    def ask_for(
        self, queries: Iterable[Question], *, key: str | None = None, **wanted: Unpack[Wanted]
    ) -> tuple[list[Answer], float]:
        """`ask_many`, and what it has cost those rows that paid most, in the promise's unit."""
        texts = _texts(queries)
        if not texts:
            return [], 0.0
        told = self._ask({"queries": texts, **_options(**wanted)}, key)
        return [_answer(each) for each in told["answers"]], float(told["cost"])

    def sql_for(
        self,
        text: str,
        within: float | None = None,
        mechanism: str | None = None,
        key: str | None = None,
        *,
        per_person: int | None = None,
    ) -> tuple[pa.Table, int, float]:
        """`sql`, the number of rows that it is about, and what it has cost those that paid most."""
        body = {"sql": text, **_options(within=within, mechanism=mechanism, per_person=per_person)}
        headers = {"Accept": ARROW, **_key(key)}
        response = self._call("POST", "ask", safe=key is not None, json=body, headers=headers)
        size, cost = response.headers["Treering-Size"], response.headers["Treering-Cost"]
        from treering.shown import show_tables

        show_tables()
        return _table(response.content), int(size), float(cost)

    def _ask(self, body: dict[str, Any], key: str | None) -> dict[str, Any]:
        return self._json("POST", "ask", safe=key is not None, json=body, headers=_key(key))

    def _priced(self, body: dict[str, Any]) -> Price:
        told = self._json("POST", "ask", safe=True, json={**body, "dry_run": True})
        return Price(*(told[name] for name in Price._fields))

    # -- for stewards -------------------------------------------------------------------------------------------------

    def append(self, frame: Any, on_invalid: Literal["refuse", "drop"] = "refuse", key: str | None = None) -> int:
        """Take in the rows of ``frame`` durably, and return the new size: see `Vault.append`. For stewards.

        ``frame`` may be an Arrow table, a pandas or polars frame, a list of dicts, a path or a `RowFile`. With the same
        ``key``, rows are taken in once; without one, the client makes one up, so that it can try again by itself.
        """
        file = RowFile(frame) if isinstance(frame, Path) else frame
        headers, parameters, content = _file(file) if isinstance(file, RowFile) else _frame(frame)
        told = self._json(
            "POST",
            "rows",
            safe=True,
            content=content,
            params={"on_invalid": on_invalid, **parameters},
            headers={**headers, **_key(key or str(uuid4()))},
        )
        if told["dropped"]:
            warnings.warn(left_out(told["dropped"], of=told["dropped"] + told["rows"]), UserWarning, stacklevel=2)
        return int(told["size"])

    def ledger(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every line of the ledger whose ``seq`` is above ``after``, oldest first. For stewards."""
        place: int | None = after
        while place is not None:
            page = self._get("ledger", after=place, limit=PAGE)
            yield from page["lines"]
            place = page["next"]

    def tokens(self) -> list[Token]:
        """All tokens, with what of their quotas is used. For stewards."""
        return [_token(each) for each in self._get("tokens")["tokens"]]

    def new_token(
        self,
        name: str,
        role: Role = "analyst",
        *,
        days: float | None = None,
        answers: int | None = None,
        budget: float | None = None,
    ) -> Token:
        """A new token, whose ``text`` is known now and never again. For stewards.

        ``name``     whose it is
        ``role``     "analyst", or "steward"
        ``days``     for how long it is accepted; None: without end
        ``answers``  how many answers that cost something it may have within a week; None: no limit
        ``budget``   the part of the promise, in (0, 1], that it may spend within a week; None: 0.05 with ``answers``,
                     otherwise no limit
        """
        lifetime = None if days is None else days * 86400
        body = {"name": name, "role": role, "lifetime": lifetime, "quota": {"answers": answers, "budget": budget}}
        return _token(self._json("POST", "tokens", json=body))

    def revoke(self, token: Token | str) -> None:
        """Accept a token, or the one with this id, no more. For stewards."""
        self._call("DELETE", f"tokens/{token.id if isinstance(token, Token) else token}")

    # -- calls --------------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """Find out whether there is a server that accepts the token."""
        try:
            _token(self._json("GET", "me"))
        except AccessDenied:
            raise
        except (ServiceError, KeyError, TypeError) as error:
            if isinstance(error, ServiceError) and error.__cause__ is not None:
                raise  # Nobody answered.
            raise ServiceError(f"what answers at {self._url} is no treering server of this version ({API})") from None

    def _get(self, path: str, **parameters: Any) -> dict[str, Any]:
        return self._json("GET", path, safe=True, params=parameters)

    def _json(self, method: str, path: str, *, safe: bool = False, **request: Any) -> dict[str, Any]:
        response = self._call(method, path, safe=safe, **request)
        try:
            told: dict[str, Any] = response.json()
        except ValueError:
            raise ServiceError(f"what answers at {self._url} is no treering server: it sent no JSON") from None
        return told

    def _call(self, method: str, path: str, *, safe: bool = False, **request: Any) -> httpx.Response:
        """A reply, after some tries if the call is ``safe`` to repeat; a refusal is raised."""
        for number in range(1, TRIES + 1):
            pause = min(LONGEST, PAUSE * 2**number)
            content = request.get("content")
            given = {**request, "content": content()} if callable(content) else request
            try:
                response = self._http.request(method, f"/{API}/{path}", **given)
            except Exception as error:
                if number == TRIES or not _repeatable(error, safe):
                    raise _broken(error, self._url, safe) from error
            else:
                wait = _wait(response)
                if response.is_success:
                    return response
                if number == TRIES or not safe or wait is None:
                    raise _refusal(response, self._url)
                pause = min(LONGEST, max(pause, wait))
            time.sleep(pause)
        raise AssertionError

    @contextmanager
    def _stream(self, path: str) -> Iterator[httpx.Response]:
        import httpx

        try:
            with self._http.stream("GET", f"/{API}/{path}", headers={"Accept": "text/event-stream"}) as response:
                if not response.is_success:
                    response.read()
                    raise _refusal(response, self._url)
                yield response
        except httpx.TransportError as error:
            raise _broken(error, self._url, safe=True) from error

    # -- closing, showing ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections. The vault goes on."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def _repr_html_(self) -> str:
        """The vault in a notebook: its rows, its budget, its mechanisms."""
        from treering.shown import status_html

        status = self.status()
        return status_html(status, status["spent"], status["total"], status["unit"])


# -- requests ----------------------------------------------------------------------------------------------------------


def _text(query: Question) -> str:
    """The predicate of a query, which is what can be sent."""
    if isinstance(query, str):
        return query
    from treering.domain.language.parse import parse
    from treering.domain.query import Query

    if not isinstance(query, Query):
        raise QueryError(f"a query is asked as a Query or as its text, not as {type(query).__name__}")
    text = str(query)
    try:
        same = parse(text, query.schema) == query
    except QueryError:
        same = False
    if not same:
        raise QueryError("this query cannot be written as a predicate, which is what a server is asked")
    return text


def _texts(queries: Iterable[Question]) -> list[str]:
    if isinstance(queries, str):
        raise QueryError("a batch is a list of queries, not one text")
    return [_text(each) for each in queries]


def _options(**wanted: Unpack[Wanted]) -> dict[str, Any]:
    within = wanted.get("within")
    if within is not None and not (isinstance(within, int | float) and math.isfinite(within)):
        raise ParameterError("within", f"must be a positive number: rows, or a share of them below 1; not {within!r}")
    return {name: value for name, value in wanted.items() if value is not None}


def _key(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    if not isinstance(key, str) or not 1 <= len(key) <= 150 or not key.isascii() or not key.isprintable():
        raise ParameterError("key", "must be a printable ASCII text of 1 to 150 characters")
    return {"Idempotency-Key": key}


Sent: TypeAlias = tuple[dict[str, str], dict[str, str], Callable[[], Any]]
"""The headers, the parameters, and the body of a request with rows; the body is made anew for each try."""


def _file(file: RowFile) -> Sent:
    """A file, sent as it is."""
    if not file.path.is_file():
        raise DataError(f"there is no file {file.path}")
    headers = {"Content-Type": TYPES[file.ending or ""], "Content-Length": str(file.path.stat().st_size)}
    if file.path.name.lower().endswith(".gz"):
        headers["Content-Encoding"] = "gzip"
    given = {"delimiter": file.delimiter, "encoding": file.encoding}
    return headers, {name: value for name, value in given.items() if value is not None}, lambda: _blocks(file.path)


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(2**20):
                yield block
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}") from None


def _frame(frame: Any) -> Sent:
    """A table, sent as an Arrow stream."""
    import pyarrow as pa

    try:
        if isinstance(frame, list):
            table = pa.Table.from_pylist(frame)
        elif isinstance(frame, pa.Table):
            table = frame
        elif type(frame).__module__.partition(".")[0] == "pandas":
            table = pa.Table.from_pandas(frame, preserve_index=False)
        else:
            table = pa.RecordBatchReader.from_stream(frame).read_all()
    except Exception:  # What the library raises may quote a value.
        table = None
    if table is None:
        raise DataError("rows come as an Arrow table, a pandas or polars frame, a list of dicts, or a file")
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {"Content-Type": ARROW}, {}, sink.getvalue


# -- replies -----------------------------------------------------------------------------------------------------------


def _answer(told: Mapping[str, Any]) -> Answer:
    return Answer(*(told[name] for name in ("value", "error", "size", "kind", "margin", "of")))


def _table(content: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()


def _token(told: Mapping[str, Any]) -> Token:
    fields = {name: told[name] for name in ("id", "name", "role", "created", "expires", "revoked")}
    used = {name: told["quota"][name] for name in ("answers", "budget", "answers_used", "budget_used", "frees")}
    return Token(**fields, **used, text=told.get("token"))


def _wait(response: httpx.Response) -> float | None:
    """Seconds to wait before the same call may succeed; None if it will not soon."""
    wait = response.headers.get("Retry-After", "")
    return float(wait) if wait.isdigit() and float(wait) <= LONGEST else None


def _refusal(response: httpx.Response, url: str) -> TreeringError:
    """What the server said against a request, as the error that a vault would raise."""
    try:
        told = response.json()
        return error_of(told)
    except (ValueError, KeyError, TypeError):
        return ServiceError(
            f"what answers at {url} is no treering server: it replied with status {response.status_code}"
        )


def _repeatable(error: Exception, safe: bool) -> bool:
    """Whether a call that failed like this may be made again."""
    import httpx

    return safe and isinstance(error, httpx.TransportError)


def _broken(error: Exception, url: str, safe: bool) -> Exception:
    """The error of a connection that could not be made, or that broke."""
    import httpx

    if not isinstance(error, httpx.TransportError | httpx.InvalidURL):
        return error
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.InvalidURL):
        return ServiceError(f"no server can be reached at {url}: {error or type(error).__name__}")
    late = isinstance(error, httpx.TimeoutException)
    words = f"{url} has not replied in time" if late else f"the connection to {url} broke"
    if safe:
        return ServiceError(f"{words}, {counted(TRIES, 'time')} in a row")
    return ServiceError(f"{words}: whether this was charged is not known. With a `key`, asking again is charged once")
