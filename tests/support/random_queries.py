"""A schema with every kind of attribute, and queries of every kind drawn at random; none of them constant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from support.dense_histogram import values_per_cell
from treering.domain.attribute import bins, categories, integers
from treering.domain.query import Query
from treering.domain.schema import Schema

Generator: TypeAlias = np.random.Generator

SCHEMA = Schema(
    {
        "origin": categories("EWR", "JFK", other=True, missing=True),
        "country": categories("US"),
        "month": integers(1, 5),
        "delay": bins([-10, 0, 10, 20], missing=True),
    }
)


def conjunction(generator: Generator, schema: Schema) -> Query:
    while True:
        masks = {p: generator.random(s) < 0.5 for p, s in enumerate(schema.shape) if generator.random() < 0.6}
        query = Query.conjunction(schema, masks)
        if not query.constant:
            return query


def union(generator: Generator, schema: Schema) -> Query:
    while True:
        query = conjunction(generator, schema) | conjunction(generator, schema)
        if query.table is not None and not query.constant:
            return query


def weighted(generator: Generator, schema: Schema) -> Query:
    names = [name for name in schema.names if generator.random() < 0.6] or list(schema.names)
    size = math.prod(schema.attributes[name].size for name in names)
    weights = generator.choice([0.1, 0.25, 0.5, 0.9], size) if generator.random() < 0.5 else generator.random(size)
    query = Query.weighted(schema, weights, attributes=names)
    return weighted(generator, schema) if query.constant or query.counting else query


def any_query(generator: Generator, schema: Schema) -> Query:
    makers: list[Callable[[Generator, Schema], Query]] = [conjunction, conjunction, union, weighted]
    return makers[generator.integers(len(makers))](generator, schema)


def target_within(query: Query, share: float) -> float:
    values = values_per_cell(query)
    return float(values.min() + share * (values.max() - values.min()))
