"""What an idempotency key stands for: one question, by a digest that every ledger there is has kept."""

from __future__ import annotations

import pytest

import treering as tr
from support.vaults import SCHEMA
from treering.vault.record import question

BOTH = tr.parse("origin = 'JFK' AND late = 'yes'", SCHEMA)
WEIGHTED = tr.Query.weighted(SCHEMA, [0.25, 1], attributes=["late"])


@pytest.mark.parametrize(
    ("queries", "mechanism", "digest"),
    [
        ([BOTH], "pmwg", "aea5bd863e1c43b8d06c28ef0ed7fc15366ecae4da8f6caddd6eea40ac530634"),
        ([BOTH, WEIGHTED], "rings", "3e736e47802f0227a149d9c3b49fd6f3a492f8b8b19e939ae2bc6bf7633feef8"),
    ],
)
def test_a_question_has_the_digest_that_it_has_in_all_vaults(
    queries: list[tr.Query], mechanism: str, digest: str
) -> None:
    """With another one, a question asked again with its key would be refused, as if it were another."""
    assert question(queries, mechanism) == digest


def test_another_question_has_another_digest() -> None:
    asked = [([BOTH], "pmwg"), ([BOTH], "rings"), ([WEIGHTED], "pmwg"), ([BOTH, WEIGHTED], "pmwg")]
    asked += [([WEIGHTED, BOTH], "pmwg"), ([BOTH, BOTH], "pmwg"), ([], "pmwg")]
    assert len({question(*each) for each in asked}) == len(asked)
