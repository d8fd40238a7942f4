"""What an idempotency key stands for, by a digest that all ledgers have kept; and what is recorded under it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA
from treering.answer import Answer, Estimate
from treering.domain.language.measures import Count, Mean, Release, Request
from treering.errors import KeyUsed
from treering.trusted.store import Kept
from treering.vault.record import (
    kept_answers,
    kept_release,
    options_of,
    question,
    recorded_answers,
    recorded_release,
    requested,
)

BOTH = tr.parse("origin = 'JFK' AND late = 'yes'", SCHEMA)
WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 1], attributes=["late"])


def test_a_question_has_the_same_digest_under_every_version_of_a_schema() -> None:
    """With another one, a question asked again with its key would be refused, as if it were another."""
    finer = tr.Schema({**SCHEMA.attributes, "more": tr.integers(0, 1)})
    again = tr.parse("late = 'yes' AND origin = 'JFK'", finer)
    assert question([BOTH], "pmwg") == question([again], "pmwg")
    asked = [
        question([BOTH], "rings"),
        question([BOTH], "pmwg"),
        question([BOTH, WEIGHTED], "rings"),
        question([], "rings"),
    ]
    assert len(set(asked)) == 4


def test_another_question_has_another_digest() -> None:
    asked = [([BOTH], "pmwg"), ([BOTH], "rings"), ([WEIGHTED], "pmwg"), ([BOTH, WEIGHTED], "pmwg")]
    asked += [([WEIGHTED, BOTH], "pmwg"), ([BOTH, BOTH], "pmwg"), ([], "pmwg")]
    assert len({question(*each) for each in asked}) == len(asked)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_another_request_has_another_digest() -> None:
    requests = [
        Request.of(SCHEMA, [Count()]),
        Request.of(SCHEMA, [Mean("month")]),
        Request.of(SCHEMA, [Count(), Mean("month")]),
        Request.of(SCHEMA, [Count()], by=["late"]),
        Request.of(SCHEMA, [Count()], by=["late", "origin"]),
        Request.of(SCHEMA, [Count()], where="late = 'yes'"),
    ]
    asked = [requested(request, name) for request in requests for name in ("rings", "more")]
    assert len(set(asked)) == len(asked)
    assert asked[0] == requested(Request.of(SCHEMA, [Count()]), "rings")


ANSWERS = [Answer(0.25, 0.1, 10, "easy", 0.05), Answer(0.5, 0.2, 10, "measured")]
REQUEST = Request.of(SCHEMA, [Count()], by=["late"])
ROWS = (
    (Estimate(3.0, -math.inf, 4.0, 0.5), Estimate(None, 1.0, math.inf)),
    (Estimate(2.0, -1.0, 2.5), Estimate(1.0, -math.inf, math.inf, 0.0)),
)
KEPT: dict[str, tuple[Kept, Any, Callable[[Kept, str], Any]]] = {
    "answers": (kept_answers("k", "asked", 2, ANSWERS), ANSWERS, recorded_answers),
    "release": (
        kept_release("k", "asked", 1, Release(REQUEST, 9, ROWS)),
        Release(REQUEST, 9, ROWS),
        lambda kept, asked: recorded_release(kept, asked, REQUEST),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_under_a_key_comes_back_for_the_same_question_only(what: str) -> None:
    kept, value, recorded = KEPT[what]
    for each in (kept, kept._replace(plain=json.loads(json.dumps(kept.plain)))):
        assert recorded(each, "asked") == value
        with pytest.raises(KeyUsed, match="'k' was used for something else: use a new key for a new question"):
            recorded(each, "something else")
    assert (kept.key, kept.mechanism) == ("k", {"answers": 2, "release": 1}[what])


def test_options_are_kept_as_json() -> None:
    assert options_of({"a": 1, "b": (2.5, "x")}) == {"a": 1, "b": [2.5, "x"]}
    for wrong in (math.nan, math.inf, {1, 2}, b"x"):
        with pytest.raises(tr.ParameterError, match="must be numbers, texts, and lists of them") as refusal:
            options_of({"a": wrong})
        assert refusal.value.parameter == "options"
