"""Workloads: how many queries, which, and what is refused."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from support.schemas import cell_weights
from treering.domain.attribute import MAX_VALUES, bins, categories, integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.workload import MAX_QUERIES, marginals, prefixes, random_conjunctions, ranges
from treering.errors import ParameterError, SchemaError

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", other=True),
        "month": integers(1, 4),
        "only": categories("one"),
        "delay": bins([-1440, 0, 15, 60], missing=True),
    }
)


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
def test_marginals_are_all_joint_values_of_all_choices(ways: int) -> None:
    wanted = [
        Query.where(SCHEMA, **dict(zip(names, values, strict=True)))
        for names in itertools.combinations(SCHEMA.names, ways)
        for values in itertools.product(
            *([SCHEMA.attributes[name].value(code) for code in range(SCHEMA.attributes[name].size)] for name in names)
        )
    ]
    assert marginals(SCHEMA, ways) == wanted


def test_the_marginals_of_one_choice_add_up_to_everything() -> None:
    weights = np.stack([cell_weights(query) for query in marginals(SCHEMA, 4)])
    assert weights.sum(axis=0).tolist() == [1] * SCHEMA.cells


def test_ranges_are_all_intervals_once() -> None:
    found = ranges(SCHEMA, "month")
    wanted = [Query.where(SCHEMA, month=range(low, high + 1)) for low in range(1, 5) for high in range(low, 5)]
    assert len(found) == 10
    assert set(found) == set(wanted)
    assert Query.all(SCHEMA) in found


def test_ranges_leave_out_the_optional_cells() -> None:
    found = ranges(SCHEMA, "delay")
    assert len(found) == 6
    assert not any(query.masks is None or query.masks[0][-1] for query in found)
    assert Query.where(SCHEMA, delay=[-1, 0, 15]) in found


def test_prefixes_start_at_the_lowest_value() -> None:
    assert prefixes(SCHEMA, "month") == [Query.where(SCHEMA, month=range(1, high + 1)) for high in range(1, 5)]
    assert [str(query) for query in prefixes(SCHEMA, "delay")] == ["delay < 0", "delay < 15", "delay IS NOT NULL"]


def test_queries_cannot_be_changed_through_what_they_share() -> None:
    for query in [*marginals(SCHEMA, 2), *ranges(SCHEMA, "month"), *prefixes(SCHEMA, "delay")]:
        assert query.masks is not None
        assert not any(mask.flags.writeable for mask in query.masks)


# -- random conjunctions -----------------------------------------------------------------------------------------------


def test_random_conjunctions_are_what_they_say() -> None:
    found = random_conjunctions(SCHEMA, 2000, np.random.default_rng(1))
    assert len(found) == 2000
    assert {len(query.names) for query in found} == {1, 2, 3}
    assert {name for query in found for name in query.names} == {"origin", "month", "delay"}
    for query in found:
        assert query.masks is not None
        assert all(mask.any() and not mask.all() for mask in query.masks)
        assert query == Query.conjunction(SCHEMA, dict(zip(query.attributes, query.masks, strict=True)))
    single = {query for query in found if query.names == ("month",)}
    assert len(single) == 2**4 - 2


def test_random_conjunctions_depend_on_the_generator_alone() -> None:
    one, two, three = (random_conjunctions(SCHEMA, 50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == two
    assert one != three


def test_the_number_of_attributes_can_be_chosen() -> None:
    found = random_conjunctions(SCHEMA, 200, np.random.default_rng(1), ways=(2, 2))
    assert {len(query.names) for query in found} == {2}
    small = Schema({"a": integers(1, 2)})
    assert {len(query.names) for query in random_conjunctions(small, 20, np.random.default_rng(1))} == {1}
    assert random_conjunctions(SCHEMA, 0, np.random.default_rng(1)) == []


def test_a_large_workload_takes_little_time() -> None:
    schema = Schema({f"a{index}": integers(1, 10 + index) for index in range(6)})
    started = time.monotonic()
    assert len(random_conjunctions(schema, 20_000, np.random.default_rng(1))) == 20_000
    assert time.monotonic() - started < 10


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ways", [0, 5, -1, True, 1.0, None])
def test_ways_outside_are_refused(ways: Any) -> None:
    with pytest.raises(ParameterError, match="ways must lie within 1 to 4, the number of attributes"):
        marginals(SCHEMA, ways)


@pytest.mark.parametrize(
    ("ways", "problem"),
    [
        ((0, 2), "within 1 to 3"),
        ((1, 4), "within 1 to 3"),
        ((2, 1), "must not decrease"),
        ((1, 2.0), "within 1 to 3"),
        (2, "two integers"),
        ((1, 2, 3), "two integers"),
    ],
)
def test_ways_of_random_conjunctions_outside_are_refused(ways: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=f"ways .*{problem}"):
        random_conjunctions(SCHEMA, 5, np.random.default_rng(1), ways=ways)


@pytest.mark.parametrize("count", [-1, 2.0, None, True])
def test_a_count_that_cannot_be_is_refused(count: Any) -> None:
    with pytest.raises(ParameterError, match="count must be an integer, at least 0"):
        random_conjunctions(SCHEMA, count, np.random.default_rng(1))


def test_only_a_generator_is_a_source_of_randomness() -> None:
    for generator in (None, 1, np.random.RandomState(1)):
        strange: Any = generator
        with pytest.raises(ParameterError, match="generator must be a numpy.random.Generator"):
            random_conjunctions(SCHEMA, 5, strange)


@pytest.mark.parametrize("family", [ranges, prefixes])
def test_an_attribute_without_order_is_refused(family: Any) -> None:
    with pytest.raises(
        ParameterError, match="name must be an attribute of integers or bins; the categories of 'origin'"
    ):
        family(SCHEMA, "origin")
    with pytest.raises(SchemaError, match="no attribute 'x'"):
        family(SCHEMA, "x")


def test_a_workload_beyond_reason_is_refused_at_once_with_its_size() -> None:
    wide = Schema({f"a{index}": integers(0, 1) for index in range(60)})
    with pytest.raises(ParameterError, match=f"asks for 126,98.* queries; at most {MAX_QUERIES:,}"):
        marginals(wide, 30)
    with pytest.raises(ParameterError, match="asks for 549,756,338,176 queries"):
        ranges(Schema({"a": integers(1, MAX_VALUES)}), "a")
    with pytest.raises(ParameterError, match="asks for 10,000,001 queries"):
        random_conjunctions(SCHEMA, MAX_QUERIES + 1, np.random.default_rng(1))
    with pytest.raises(ParameterError, match="schema must have an attribute of more than one value"):
        random_conjunctions(Schema({"only": categories("one")}), 5, np.random.default_rng(1))
