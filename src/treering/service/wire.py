"""What goes over the wire: answers, tables, prices and the public state as JSON, and released tables as Arrow, CSV or
Parquet."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from treering.answer import Answer, Bill, Price
from treering.deadline import check
from treering.domain.schema import Schema
from treering.service.problems import Problem
from treering.shown import HOLDING, MARK, harmless, holding, plain_value

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.service.access import Used
    from treering.service.auth import Quota, Token
    from treering.vault.vault import Vault

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"

MOST_LABELS: Final = 1000
"""The most values of an attribute that the schema lists one by one."""


BLOCK: Final = 1000
"""Rows of a table that are written at a time."""


def dumped(plain: Any) -> bytes:
    """JSON."""
    return json.dumps(plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def stamp(seconds: float | None) -> str | None:
    """A time in ISO 8601 and UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def finite(plain: Any) -> Any:
    """Plain values with null for what is infinite, or no number."""
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, dict):
        return {str(name): finite(value) for name, value in plain.items()}
    return [finite(each) for each in plain] if isinstance(plain, list | tuple) else plain


# -- answers -----------------------------------------------------------------------------------------------------------


def answer_of(plain: dict[str, Any]) -> Answer:
    """The answer that `Answer.to_dict` wrote."""
    return Answer(*(plain[name] for name in ("value", "error", "size", "kind", "margin", "of")))


def answers_list(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """A batch of answers."""
    return [each.to_dict() for each in answers]


def costs_dict(bill: Bill, vault: Vault) -> dict[str, Any]:
    """What a question has cost, and what is left of the promise."""
    return {"cost": bill.cost, "remaining": finite(bill.remaining), **promise_dict(vault), "settled": bill.settled}


def promise_dict(vault: Vault) -> dict[str, Any]:
    """What costs are measured by. (Fixed for ever: no lock is needed.)"""
    return {"unit": vault.unit, "total": vault.total, "epsilon": float(vault.promise.epsilon)}


def price_dict(price: Price, vault: Vault) -> dict[str, Any]:
    """What a question could cost."""
    return {**price._asdict(), **promise_dict(vault), "settled": vault.settled}


# -- tables ------------------------------------------------------------------------------------------------------------


def table_dict(table: pa.Table) -> dict[str, Any]:
    """A released table as plain values: dates are texts, a margin follows each number with noise."""
    columns = [[plain_value(value) for value in column.to_pylist()] for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    types = [str(each) for each in table.schema.types]
    margins = holding(table) if HOLDING in (table.schema.metadata or {}) else None
    return {"columns": table.column_names, "types": types, "rows": rows, "margins": margins}


def table_json(table: pa.Table, more: dict[str, Any]) -> bytes:
    """`table_dict` and ``more`` as JSON, some rows at a time: others work in between, and the deadline is kept."""
    about = {**table_dict(table.slice(0, 0)), **more}
    del about["rows"]
    blocks = []
    for start in range(0, table.num_rows, BLOCK):
        check()
        blocks.append(dumped(table_dict(table.slice(start, BLOCK))["rows"])[1:-1])
    return b"".join([dumped(about)[:-1], b',"rows":[', b",".join(blocks), b"]}"])


def size_of(table: pa.Table, size: int) -> int:
    """The size that a released table is about; ``size`` if it does not say."""
    return int((table.schema.metadata or {}).get(MARK, size))


def table_bytes(table: pa.Table, media_type: str) -> bytes:
    """A table in one of the forms that the header Accept can ask for."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    sink = io.BytesIO()
    if media_type == ARROW:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    elif media_type == CSV:
        csv.write_csv(harmless(table), sink)
    else:
        parquet.write_table(table, sink)
    return sink.getvalue()


def accepted(header: str | None, offered: Sequence[str]) -> str:
    """The media type that the header Accept likes best of those ``offered``; the first if it does not mind."""
    wishes: list[tuple[float, int, str]] = []
    for part in (header or "*/*").split(","):
        name, *parameters = [each.strip().lower() for each in part.split(";")]
        quality = next((_number(each[2:]) for each in parameters if each.startswith("q=")), 1.0)
        found = next((each for each in offered if name in (each, "*/*", each.split("/")[0] + "/*")), None)
        if found is not None and quality > 0:
            wishes.append((-quality, name.count("*"), found))
    if not wishes:
        raise Problem(406, "not_acceptable", f"the header Accept must allow one of {', '.join(offered)}")
    return min(wishes)[2]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


# -- public state ------------------------------------------------------------------------------------------------------


def schema_dict(schema: Schema) -> dict[str, Any]:
    """The schema: what makes it again (`Schema.from_dict`), and for each attribute what people may type."""
    return {
        "schema": schema.to_dict(),
        "fingerprint": schema.fingerprint,
        "cells": schema.cells,
        "attributes": [_attribute(name, schema) for name in schema.names],
    }


def _attribute(name: str, schema: Schema) -> dict[str, Any]:
    attribute = schema.attributes[name]
    listed = range(attribute.size) if attribute.size <= MOST_LABELS else range(0)
    return {
        "name": name,
        "kind": type(attribute).__name__.lower(),
        "size": attribute.size,
        "describes": attribute.describe(),
        "missing": attribute.missing,
        "labels": [str(attribute.label(code)) for code in listed],
    }


def status_dict(vault: Vault) -> dict[str, Any]:
    """The public state."""
    plain: dict[str, Any] = finite({**vault.status(), "settled": vault.settled})
    return plain


def quota_left(quota: Quota, used: Used, total: float) -> dict[str, Any]:
    """What is left of a quota: None where there is no limit; of the budget, as a part of the whole."""
    answers = None if quota.answers is None else max(0, quota.answers - used.answers)
    budget = None if quota.budget is None else max(0.0, quota.budget - used.budget / total)
    return {"answers_left": answers, "budget_left": budget, "frees": stamp(used.until)}


def token_dict(token: Token, used: Used, total: float) -> dict[str, Any]:
    """A token as its steward sees it: never its text, nor the hash of that."""
    quota = token.quota
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created": stamp(token.created),
        "expires": stamp(token.expires),
        "revoked": stamp(token.revoked),
        "quota": {
            **quota.to_dict(),
            "answers_used": used.answers,
            "budget_used": used.budget / total,
            "frees": stamp(used.until),
        },
    }
