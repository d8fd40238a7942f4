"""Atoms: against the partition by brute force over all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.schemas import cell_weights, conjunctions, queries, schemas, weighted_queries
from treering.domain import candidates as module
from treering.domain.candidates import collapse
from treering.domain.query import Query
from treering.domain.workload import marginals, prefixes

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "month": tr.integers(1, 12)})


@st.composite
def classes(draw: st.DrawFn) -> list[Query]:
    schema = draw(schemas(most_attributes=3, most_values=4))
    kinds = st.one_of(queries(schema), conjunctions(schema), weighted_queries(schema))
    return draw(st.lists(kinds, min_size=1, max_size=6))


@settings(deadline=None)
@given(classes())
def test_atoms_are_the_coarsest_partition_that_no_query_cuts(class_: list[Query]) -> None:
    atoms = collapse(class_)
    schema = class_[0].schema
    weights = np.array([cell_weights(query) for query in class_])
    patterns = [tuple(column) for column in weights.T]
    labels = atoms.of(range(schema.cells))
    # The same partition, numbered by first cells, and each atom's first cell stands for it.
    first: dict[tuple[Any, ...], int] = {}
    for cell, pattern in enumerate(patterns):
        first.setdefault(pattern, cell)
    assert atoms.cells == tuple(first.values())
    assert labels.tolist() == [list(first).index(pattern) for pattern in patterns]
    assert len(atoms.queries) == len({query for query in class_ if not query.constant})
    for row, query in zip(atoms.weights, atoms.queries, strict=True):
        assert row.tolist() == cell_weights(query)[list(atoms.cells)].tolist()


def test_constant_and_repeated_queries_do_not_count() -> None:
    jfk = Query.where(SCHEMA, origin="JFK")
    assert collapse([Query.all(SCHEMA), Query.none(SCHEMA)]).number == 1
    assert collapse([Query.all(SCHEMA)]).cells == (0,)
    assert collapse([jfk, jfk, Query.all(SCHEMA)]).queries == (jfk,)


def test_many_queries_are_renumbered_on_the_way() -> None:
    """Two hundred flags do not fit into 64 bits."""
    schema = tr.Schema({"v": tr.integers(0, 200)})
    atoms = collapse(prefixes(schema, "v"))
    assert atoms.number == 201
    assert atoms.cells == tuple(range(201))
    generator = np.random.default_rng(5)
    weights = [Query.weighted(schema, generator.random(201)) for _ in range(9)]
    assert collapse(weights).number == 201


def test_a_huge_universe_has_few_atoms() -> None:
    schema = tr.Schema(HUGE)
    class_ = [Query.where(schema, a0=range(500)), Query.where(schema, a5=3)]
    atoms = collapse(class_)
    assert atoms.number == 4
    assert schema.cells > 2**58
    assert atoms.of(atoms.cells).tolist() == [0, 1, 2, 3]
    assert atoms.of([schema.cells - 1]).tolist() == [2]


HUGE = {f"a{i}": tr.integers(0, 999) for i in range(6)}


def test_too_many_joint_values_are_refused() -> None:
    schema = tr.Schema(HUGE)
    with pytest.raises(tr.ParameterError, match="a0, a1, a2, with 1,000,000,000 joint values; at most 1,048,576"):
        collapse([Query.where(schema, a0=1), Query.where(schema, a1=1), Query.where(schema, a2=1)])


def test_too_many_queries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class_ = marginals(SCHEMA, 1)
    assert collapse(class_).number == 36
    monkeypatch.setattr(module, "MOST_WEIGHTS", 36 * 15 - 1)
    with pytest.raises(tr.ParameterError, match="15 over 36 joint values of origin, month"):
        collapse(class_)
    monkeypatch.setattr(module, "MOST_WEIGHTS", 36 * 15)
    monkeypatch.setattr(module, "MOST_KEPT", 36 * 15 - 1)
    with pytest.raises(tr.ParameterError, match="make 36 atoms .* for 15 queries"):
        collapse(class_)


@pytest.mark.parametrize(
    ("class_", "match"),
    [
        ([], "at least one"),
        (["month = 1"], "must be queries, not str"),
        ([Query.all(SCHEMA), Query.all(tr.Schema(HUGE))], "about one schema"),
    ],
)
def test_what_is_no_class_is_refused(class_: Any, match: str) -> None:
    with pytest.raises(tr.ParameterError, match=match) as caught:
        collapse(class_)
    assert caught.value.parameter == "queries"
