"""Answers under idempotency keys, as the ledger keeps them; and what a key is for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from treering.answer import Answer, Estimate
from treering.domain.language.measures import Release, Request
from treering.domain.language.wants import ROWS, Wants
from treering.domain.query import Query
from treering.errors import KeyUsed, ParameterError
from treering.trusted.store import Kept, write_query


def question(queries: Sequence[Query], mechanism: str, wants: Wants = ROWS) -> str:
    """A digest of the queries, what they count and the mechanism: an idempotency key is for one question."""
    counted = [] if wants == ROWS else [[wants.count, wants.per_person]]
    text = json.dumps([mechanism, [write_query(query) for query in queries], *counted], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def kept_answers(key: str, asked: str, mechanism: int, answers: Sequence[Answer]) -> Kept:
    """What is recorded of the answers given under a key."""
    plain = [[each.value, each.error, each.size, each.kind, each.margin, each.of] for each in answers]
    return Kept(key, mechanism, {"asked": asked, "answers": plain})


def checked(kept: Kept, asked: str) -> Any:
    """What is recorded under a key; refused if the key was used for something else."""
    if kept.plain["asked"] != asked:
        raise KeyUsed(kept.key, "a new question")
    return kept.plain


def recorded_answers(kept: Kept, asked: str) -> list[Answer]:
    """The answers recorded under a key."""
    return [Answer(*each) for each in checked(kept, asked)["answers"]]


def requested(request: Request, mechanism: str) -> str:
    """A digest of a request and the mechanism: an idempotency key is for one request."""
    plain = [mechanism, [repr(each) for each in request.measures], list(request.by), write_query(request.where)]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def kept_release(key: str, asked: str, mechanism: int, release: Release) -> Kept:
    """What is recorded of the estimates given under a key; an end without a bound is null."""
    rows = [[_written(each) for each in row] for row in release.rows]
    return Kept(key, mechanism, {"asked": asked, "size": release.size, "estimates": rows})


def _written(estimate: Estimate) -> list[float | None]:
    ends = [None if math.isinf(end) else end for end in (estimate.low, estimate.high)]
    return [estimate.value, *ends, estimate.error]


def recorded_release(kept: Kept, asked: str, request: Request) -> Release:
    """The estimates recorded under a key."""
    plain = checked(kept, asked)
    rows = tuple(tuple(_estimate(*each) for each in row) for row in plain["estimates"])
    return Release(request, plain["size"], rows)


def _estimate(value: float | None, low: float | None, high: float | None, error: float | None) -> Estimate:
    return Estimate(value, -math.inf if low is None else low, math.inf if high is None else high, error)


def options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism's options as JSON values; refused if they cannot be written as JSON."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError):
        raise ParameterError("options", "must be numbers, texts, and lists of them: the ledger keeps them") from None
    return plain
