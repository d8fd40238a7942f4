"""The bound for queries that name few attributes: lower than that for any query, and still for all of them at once."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

import treering as tr
from treering.domain.workload import random_conjunctions
from treering.noise import Laplace
from treering.theory.cells import CellNoise, GaussianCell, LaplaceCell, SubGaussianCell, exact
from treering.theory.continual import CentredBound, StructuredBound, form

SCHEMA = tr.Schema({"a": tr.integers(0, 7), "b": tr.integers(0, 3), "one": tr.integers(1, 1), "c": tr.integers(0, 15)})
LAWS: list[CellNoise] = [LaplaceCell(3.0), GaussianCell(3.0), SubGaussianCell(3.0)]


def bound(noise: CellNoise, beta: float = 0.01, schema: tr.Schema = SCHEMA) -> StructuredBound:
    return StructuredBound(CentredBound(noise, schema.cells, beta / 2), schema.shape, beta / 2)


@pytest.mark.parametrize("noise", LAWS)
def test_it_is_never_above_the_bound_for_any_query_and_far_below_for_marginals(noise: CellNoise) -> None:
    structured = bound(noise)
    queries = random_conjunctions(SCHEMA, 300, np.random.default_rng(1))
    queries += [~query for query in queries[:50]]
    masses = [float(query.weights().sum()) / query.joint * SCHEMA.cells for query in queries]
    radii, any_query = structured.radius(queries), structured.every.radius(masses)
    assert np.all(radii <= any_query)
    assert np.all(radii <= structured.worst)
    marginal = tr.Query.where(SCHEMA, b=[0, 1])
    assert structured.radius([marginal])[0] < 0.3 * structured.every.radius(SCHEMA.cells / 2)


@pytest.mark.parametrize("noise", LAWS)
def test_queries_and_their_complements_have_the_same_bound(noise: CellNoise) -> None:
    structured = bound(noise)
    weighted = tr.Query.weighted(SCHEMA, [0.1, 0.9, 0.3, 0.7, 0.2, 0.5, 0.5, 0.0], attributes=["a"], resolution=10)
    several = tr.parse("a = 1 OR b = 2", SCHEMA)
    for query in (tr.Query.where(SCHEMA, a=3), weighted, several):
        one, other = structured.radius([query, ~query])
        assert one == pytest.approx(other)


def test_constants_have_no_error() -> None:
    assert bound(LaplaceCell(3.0)).radius([tr.Query.all(SCHEMA), tr.Query.none(SCHEMA)]).tolist() == [0, 0]


def test_more_attributes_and_more_values_have_larger_bounds() -> None:
    """For the same number of cells: more is named, more queries are alike, and one of them may have met bad luck."""
    structured = bound(SubGaussianCell(3.0))
    half = [tr.Query.where(SCHEMA, a=range(4)), tr.Query.where(SCHEMA, c=range(8))]
    few, many = structured.radius(half)
    assert few < many
    quarter = [tr.Query.where(SCHEMA, b=0), tr.Query.where(SCHEMA, a=range(4), b=[0, 1])]
    one, two = structured.radius(quarter)
    assert one < two


def test_a_weighted_query_lies_between_the_sets_around_it() -> None:
    structured = bound(LaplaceCell(3.0))
    low, between, high = (
        tr.Query.weighted(SCHEMA, [1, 1, extra, 0, 0, 0, 0, 0.0], attributes=["a"], resolution=4)
        for extra in (0.0, 0.25, 1.0)
    )
    # Two values that are no interval: as a table they would be a table's, so ask for the table's bound of both ends.
    ends = structured._named([((0,), 2.0), ((0,), 3.0)])
    assert structured._named([form(between)])[0] == pytest.approx(0.75 * ends[0] + 0.25 * ends[1])
    assert form(low) == ((0,), (2,))
    assert form(high) == ((0,), (3,))


def test_it_is_right_where_all_can_be_enumerated() -> None:
    """Two attributes of two values, narrow noise: the exact probability that any query at all is beyond its bound."""
    schema = tr.Schema({"a": tr.integers(0, 1), "b": tr.integers(0, 1)})
    scale, beta, reach = 0.6, 0.4, 8
    structured = bound(exact(Laplace(scale)), beta, schema)
    sets = [list(chosen) for number in (1, 2) for chosen in combinations(range(4), number)]
    queries = [tr.Query.weighted(schema, np.isin(np.arange(4), chosen).astype(float)) for chosen in sets]
    radii = structured.radius(queries)
    p = math.exp(-1 / scale)
    masses = np.array([(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)])
    noise = np.array(list(product(range(-reach, reach + 1), repeat=4)))
    chance = np.prod(masses[noise + reach], axis=1)
    centred = noise - noise.mean(axis=1, keepdims=True)
    errors = np.stack([np.abs(centred[:, chosen].sum(axis=1)) for chosen in sets], axis=1)
    failed = float(chance[(errors > radii).any(axis=1)].sum())
    assert failed <= beta
    # It is no idle bound: a fifth of it fails nearly always.
    assert float(chance[(errors > radii / 5).any(axis=1)].sum()) > beta


@pytest.mark.parametrize("beta", [0, 1, -0.1, float("nan")])
def test_bad_parameters_are_refused(beta: float) -> None:
    with pytest.raises(tr.ParameterError, match="beta"):
        StructuredBound(CentredBound(LaplaceCell(3.0), SCHEMA.cells, 0.1), SCHEMA.shape, beta)
