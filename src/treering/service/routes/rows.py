"""Rows: what stewards send is written to a private file as it comes, and handed to the vault unread."""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from treering.errors import DataError, VaultError
from treering.rowfile import RowFile
from treering.service.desk import Desk
from treering.service.problems import Problem
from treering.service.routes.bodies import ChangeTold, EraseBody, RowsTold
from treering.service.routes.calling import FOR_STEWARDS, Steward, TheDesk, answer_json, refusals
from treering.service.wire import ARROW, CSV, PARQUET
from treering.vault.changing import Change
from treering.vault.vault import Taken
from treering.words import reason

router = APIRouter(prefix="/api/v1", tags=["stewards"], **FOR_STEWARDS)

ENDINGS: Final = {
    CSV: ".csv",
    "text/tab-separated-values": ".tsv",
    PARQUET: ".parquet",
    ARROW: ".arrow",
    "application/vnd.apache.arrow.file": ".arrow",
    "application/x-ndjson": ".ndjson",
    "application/jsonl": ".ndjson",
}
"""What a file of each type is called, so that the vault knows how to read it."""

_ANY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/rows",
    response_model=RowsTold,
    responses=refusals(400, 401, 403, 408, 409, 413, 415, 422, 429, 507),
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(ENDINGS, _ANY)}},
)
async def rows(
    request: Request,
    desk: TheDesk,
    caller: Steward,
    on_invalid: Annotated[Literal["refuse", "drop"], Query(description="Rows that do not fit.")] = "refuse",
    delimiter: Annotated[str | None, Query(min_length=1, max_length=1)] = None,
    encoding: Annotated[str | None, Query(min_length=1, max_length=40)] = None,
    check: Annotated[bool, Query(description="Read the rows and say what they hold; take in nothing.")] = False,
    key: Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=150)] = None,
) -> Response:
    """Take in the rows of the body: CSV, Parquet, an Arrow stream or file, or lines of JSON, by Content-Type; texts
    also with Content-Encoding gzip. All of them, or none. ``columns`` says for each column how many values were
    unlisted, missing or outside: exact counts of private rows, for the steward who sent them."""
    if desk.stopped:
        raise Problem(503, "stopping", "the server is stopping: try again shortly", {"Retry-After": "5"})
    ending = _ending(request)
    named = None if key is None else f"{caller.token.id}:{key}"
    with _private(desk, ending) as (path, descriptor):
        await _written(request, descriptor)
        file = RowFile(path, delimiter, encoding)
        if check:
            return answer_json(await desk.append(lambda: _checked(desk, file, on_invalid)))
        taken, columns = await desk.append(lambda: _appended(desk, file, on_invalid, named))
    return _told(desk, taken, columns)


@router.post("/refresh", response_model=RowsTold, responses=refusals(401, 403, 409, 422, 502, 507))
async def refresh(
    desk: TheDesk,
    on_invalid: Annotated[Literal["refuse", "drop"], Query(description="Rows that do not fit.")] = "refuse",
) -> Response:
    """Take in the new rows of the table that they stay in, for a vault that was made with one."""
    return _told(desk, await desk.append(lambda: _refreshed(desk, on_invalid)))


@router.post("/rows/erase", response_model=ChangeTold, responses=refusals(400, 401, 403, 409, 422, 507))
async def erase(desk: TheDesk, asked: EraseBody) -> Response:
    """Erase rows for good, by their keys or by their persons: all of those named, or none. It costs no row anything.
    With ``dry_run`` nothing happens, and the answer says what would."""
    _check_place(desk, elsewhere=False)
    work = partial(desk.vault.erase, asked.keys, asked.persons, dry_run=asked.dry_run, end=asked.end)
    return _changed(desk, await desk.append(work))


@router.post(
    "/rows/correct",
    response_model=ChangeTold,
    responses=refusals(400, 401, 403, 408, 409, 413, 415, 422, 429, 507),
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(ENDINGS, _ANY)}},
)
async def correct(
    request: Request,
    desk: TheDesk,
    dry_run: Annotated[bool, Query(description="Say what would happen; change nothing.")] = False,
    end: Annotated[bool, Query(description="End series that have counted these rows.")] = False,
) -> Response:
    """Correct rows to what the body says of them, by their keys: all of them, or none. It costs no row anything. The
    body is as for `rows`, with the key column."""
    with _private(desk, _ending(request)) as (path, descriptor):
        await _written(request, descriptor)
        return _changed(desk, await desk.append(lambda: _corrected(desk, RowFile(path), dry_run=dry_run, end=end)))


def _corrected(desk: Desk, file: RowFile, *, dry_run: bool, end: bool) -> Change:
    _check_place(desk, elsewhere=False)
    with _nameless(file):
        return desk.vault.correct(file, dry_run=dry_run, end=end)


def _changed(desk: Desk, told: Change) -> Response:
    if told.done:
        desk.herald.ring()
    return answer_json(told.to_dict())


def _told(desk: Desk, taken: Taken, columns: dict[str, Any] | None = None) -> Response:
    if not taken.known:
        desk.metrics.took(taken.rows)
        desk.herald.ring()
    return answer_json({**taken._asdict(), "columns": columns or {}})


def _ending(request: Request) -> str:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if kind not in ENDINGS:
        raise Problem(415, "unsupported_media_type", f"Content-Type must be one of {', '.join(ENDINGS)}")
    zipped = {"identity": "", "gzip": ".gz"}.get(coding)
    if zipped is None or (zipped and ENDINGS[kind] not in (".csv", ".tsv", ".ndjson")):
        raise Problem(415, "unsupported_media_type", "Content-Encoding is identity, or for texts gzip")
    return ENDINGS[kind] + zipped


@contextmanager
def _private(desk: Desk, ending: str) -> Iterator[tuple[Path, int]]:
    """A new file that nobody else can read, which is gone at the end."""
    try:
        desk.uploads.mkdir(mode=0o700, exist_ok=True)
        if sum(1 for _ in desk.uploads.iterdir()) >= desk.limits.uploads:
            raise Problem(429, "too_many_uploads", "other files are being taken in: wait", {"Retry-After": "5"})
        descriptor, name = tempfile.mkstemp(ending, "rows-", desk.uploads)  # 0600
    except OSError as error:
        raise VaultError(f"cannot take in a file: {reason(error)}") from None
    try:
        yield Path(name), descriptor
    finally:
        os.close(descriptor)
        with suppress(OSError):
            Path(name).unlink()


async def _written(request: Request, descriptor: int) -> None:
    """Write the body to the file, as it comes."""
    loop = asyncio.get_running_loop()
    try:
        async for block in _blocks(request):
            await loop.run_in_executor(None, _write, descriptor, block)
    except OSError as error:
        raise VaultError(f"cannot take in a file: {reason(error)}; nothing was taken in") from None
    except ClientDisconnect:
        raise Problem(400, "body_incomplete", "the body ended before its end") from None


async def _blocks(request: Request) -> AsyncIterator[bytes]:
    gathered = bytearray()
    async for chunk in request.stream():
        gathered += chunk
        if len(gathered) >= 2**20:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _write(descriptor: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(descriptor, view) :]


def _check_place(desk: Desk, elsewhere: bool) -> None:
    """Refuse rows of a vault whose rows are not where the caller thinks."""
    if (desk.vault.status()["source"] is not None) != elsewhere:
        words = "come in by POST rows" if elsewhere else "stay in their own engine: add them there, then POST refresh"
        raise Problem(409, "rows_elsewhere", f"the rows of this vault {words}")


def _refreshed(desk: Desk, on_invalid: Literal["refuse", "drop"]) -> Taken:
    """Take in new rows from where they stay. (One at a time: see `Desk.append`.)"""
    _check_place(desk, elsewhere=True)
    before = desk.vault.status()
    with warnings.catch_warnings():  # How many were left out is in the response.
        warnings.simplefilter("ignore")
        size = desk.vault.refresh(on_invalid)
    after = desk.vault.status()
    rows, dropped = (after[name] - before[name] for name in ("size", "dropped"))
    return Taken(size, rows, dropped, known=False)


def _appended(
    desk: Desk, file: RowFile, on_invalid: Literal["refuse", "drop"], key: str | None
) -> tuple[Taken, dict[str, Any]]:
    """Hand the file to the vault; what was taken in, and what was read in each column."""
    _check_place(desk, elsewhere=False)
    with _nameless(file), warnings.catch_warnings():  # How many were left out is in the response.
        warnings.simplefilter("ignore")
        taken = desk.vault.take_in(file, on_invalid, key)
        intake = None if taken.known else desk.vault.intake  # of this append: there is one at a time
        return taken, {} if intake is None else intake.to_dict()["columns"]


def _checked(desk: Desk, file: RowFile, on_invalid: Literal["refuse", "drop"]) -> dict[str, Any]:
    """What would be read of a file, of which nothing is taken in."""
    _check_place(desk, elsewhere=False)
    with _nameless(file):
        read = desk.vault.check(file, on_invalid).to_dict()
    return {"size": desk.vault.size, "known": False, **read}


@contextmanager
def _nameless(file: RowFile) -> Iterator[None]:
    """Errors without the name of our file, which means nothing to the caller."""
    try:
        yield
    except DataError as error:
        told = str(error).replace(str(file.path), "the body")
        raise DataError(told, row=error.row, column=error.column) from None
