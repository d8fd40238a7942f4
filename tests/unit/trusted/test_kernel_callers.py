"""Nothing that a caller hands in is taken at its word: it is refused before anything is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
import pytest

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.domain.attribute import categories, integers
from treering.domain.groups import Groups
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Descent, Minimise, Net, OneHot, Perturbation, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError
from treering.gate import RunRequest, Span
from treering.noise import Gaussian, Laplace
from treering.trusted.kernel import Kernel
from treering.trusted.memory.database import GrowingDatabase

SCHEMA = Schema({"late": categories("no", "yes"), "month": integers(1, 3)})
YES = Query.where(SCHEMA, late="yes")


@pytest.fixture
def kernel() -> Kernel:
    database = GrowingDatabase(SCHEMA)
    database.append([{"late": "yes", "month": 1}] * 20 + [{"late": "no", "month": 2}] * 30)
    return database.open_gate(Budget("zcdp", Fraction(100)))


def raw(attributes: Any, masks: Any = None, table: Any = None, scale: Any = 1) -> Query:
    """A query by hand, past what makes queries; its arrays need not be arrays."""
    query = Query(SCHEMA, ())
    query.__dict__.update(attributes=attributes, masks=masks, table=table, scale=scale)
    return query


class Twice(Query):
    """A query that says that it is half as sensitive as it is."""

    @cached_property
    def spread(self) -> int:
        return 0

    def weights(self) -> Ints:
        return np.array([0, 10**6])


class Matrix(np.ndarray[Any, np.dtype[Any]]):
    """An array of another class, which could add up to anything."""


def flags(*values: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array(values)


WEIGHTS = np.array([0, 1])
BAD: dict[str, Query] = {
    "weights outside": Query(SCHEMA, (0,), table=np.array([-5, 100]), scale=1),
    "weight above the scale": Query(SCHEMA, (0,), table=np.array([0, 3]), scale=2),
    "negative weight": Query(SCHEMA, (0,), table=np.array([-1, 1]), scale=2),
    "weights of floats": raw((0,), table=np.array([0.0, 1e9])),
    "weights of short integers": raw((0,), table=np.array([0, 1], dtype=np.int8)),
    "weights of another shape": Query(SCHEMA, (0,), table=np.array([0, 1, 1]), scale=1),
    "weights of another class": raw((0,), table=WEIGHTS.view(Matrix)),
    "weights in a list": raw((0,), table=[0, 1]),
    "sets of integers": raw((0,), masks=(np.array([0, 100]),)),
    "sets of another shape": Query(SCHEMA, (0,), masks=(flags(True, False, True),)),
    "sets of two axes": Query(SCHEMA, (0,), masks=(flags(True, False).reshape(1, 2),)),
    "sets of another class": raw((0,), masks=(flags(True, False).view(Matrix),)),
    "one set too many": Query(SCHEMA, (0,), masks=(flags(True, False), flags(True, False, True))),
    "a list of sets": raw((0,), masks=[flags(True, False)]),
    "sets with a scale": Query(SCHEMA, (0,), masks=(flags(True, False),), scale=2),
    "sets and weights": raw((0,), masks=(flags(True, False),), table=WEIGHTS),
    "neither": raw((0,)),
    "an attribute that is not there": Query(SCHEMA, (2,), table=WEIGHTS),
    "a negative attribute": Query(SCHEMA, (-2,), table=WEIGHTS),
    "one attribute twice": Query(SCHEMA, (0, 0), table=np.eye(2, dtype=np.int64)),
    "attributes in disorder": Query(SCHEMA, (1, 0), table=np.ones((3, 2), dtype=np.int64)),
    "attributes of floats": raw((0.0,), table=WEIGHTS),
    "attributes in a list": raw([0], table=WEIGHTS),
    "scale 0": raw((0,), table=np.zeros(2, dtype=np.int64), scale=0),
    "a scale too large": raw((0,), table=WEIGHTS, scale=2**31 + 1),
    "a scale that is a float": raw((0,), table=WEIGHTS, scale=1.5),
    "a subclass": Twice(SCHEMA, (0,), table=WEIGHTS),
    "no query": cast("Query", "late = 'yes'"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("operation", ["measure", "first_exceeding", "select", "draw_rows", "minimise"])
def test_a_query_made_by_hand_is_checked(kernel: Kernel, name: str, operation: str) -> None:
    query = BAD[name]
    run = kernel.begin_run(RunRequest(10.0, 10.0)).run
    spent, events = kernel.spent, len(kernel.history)
    ask: dict[str, Callable[[], object]] = {
        "measure": lambda: kernel.measure([YES, query], Laplace(1.0)),
        "first_exceeding": lambda: kernel.first_exceeding(run, [YES, query], [100, 100]),
        "select": lambda: kernel.select([YES, query], 1.0),
        "draw_rows": lambda: kernel.draw_rows([YES, query], 2, 10.0),
        "minimise": lambda: kernel.minimise(learning(query)),
    }
    for _ in range(2):  # a refusal is not remembered as anything else
        with pytest.raises(QueryError):
            ask[operation]()
    assert kernel.spent == spent
    assert len(kernel.history) == events


def learning(target: Query) -> Minimise:
    """A request to learn a label; the features were made for another label."""
    features = CellFeatures(SCHEMA, ["month"], np.eye(3) / 2, YES)
    features.target = target
    return Minimise(Problem(Logistic(), 3, regularisation=1.0), Descent("averaged", 2, 1000.0), features)


def test_weights_are_checked_whatever_a_query_says_of_itself(kernel: Kernel) -> None:
    """The spread that the cost is derived from is the kernel's own."""
    query = Query.weighted(SCHEMA, [0.25, 1], attributes=["late"], resolution=4)
    query.__dict__["spread"] = 0
    measured = kernel.measure([query], Gaussian(2.0))
    assert measured.cost.rho == Fraction(9, 16) / 8
    honest = Query.weighted(SCHEMA, [0.25, 1], attributes=["late"], resolution=4)
    assert kernel.measure([honest], Gaussian(2.0)).cost == measured.cost


def test_a_query_that_was_checked_does_not_change(kernel: Kernel) -> None:
    query = Query.where(SCHEMA, late="yes")
    kernel.measure([query], Laplace(1.0))
    for name in ("table", "masks", "scale", "spread", "attributes", "schema", "_checked"):
        with pytest.raises(AttributeError, match="a query does not change"):
            setattr(query, name, None)
    table = Query.weighted(SCHEMA, [0.25, 1], attributes=["late"])
    assert table.table is not None
    with pytest.raises(ValueError, match="read-only"):
        table.table[0] = 100


def test_queries_of_all_forms_are_taken(kernel: Kernel) -> None:
    queries = [
        *(Query.all(SCHEMA), Query.none(SCHEMA), YES, ~YES, YES & Query.where(SCHEMA, month=[1, 2])),
        *(YES | Query.where(SCHEMA, month=3), Query.weighted(SCHEMA, np.linspace(0, 1, 6))),
        Query.weighted(SCHEMA, [0.5, 0.5], attributes=["late"], resolution=2**31),
    ]
    again = Schema(dict(SCHEMA.attributes))
    queries.append(Query.where(again, late="yes"))
    for _ in range(2):
        assert len(kernel.measure(queries, Laplace(100.0)).values) == len(queries)


class Changing(Sequence[Query]):
    """Queries that are others each time they are looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Query]:
        self.looks += 1
        yield YES if self.looks == 1 else BAD["weights outside"]

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | Sequence[Query]:
        return BAD["weights outside"]


def test_the_queries_that_were_checked_are_those_that_are_asked(kernel: Kernel) -> None:
    assert kernel.measure(Changing(), Laplace(1.0)).queries == (YES,)


# -- noise, losses and the rest: by exact type -------------------------------------------------------------------------


class Quiet(Laplace):
    """Noise that equals any other, and so would take what was drawn for that."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Cheap(Budget):
    """A budget."""


class Asked(RunRequest):
    """A request."""


def test_noise_and_requests_are_taken_by_exact_type(kernel: Kernel) -> None:
    noise, before = Quiet(5.0), kernel.spent
    asked: list[Callable[[], object]] = [
        lambda: kernel.measure([YES], noise),
        lambda: kernel.histogram(noise),
        lambda: kernel.combine(Groups.marginal(SCHEMA), [Span(0, 50, 1)], noise),
        lambda: kernel.begin_segment(Groups.marginal(SCHEMA), noise, 1),
        lambda: kernel.begin_run(RunRequest(1.0, 1.0, noise)),
        lambda: kernel.begin_run(Asked(1.0, 1.0)),
        lambda: kernel.reserve(Cheap("zcdp", Fraction(1))).__enter__(),
    ]
    for ask in asked:
        with pytest.raises(ParameterError, match="must be"):
            ask()
    assert kernel.spent == before
    assert not kernel.history


class Gentle(Logistic):
    """Logistic loss that claims to be less steep than it is."""

    def lipschitz(self, radius: float) -> float:
        return 1e-9

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return norms * 0, norms * 1e-9


@dataclass(frozen=True)
class Small(Problem):
    """A problem with another constant."""

    @property
    def lipschitz(self) -> float:
        return 1e-9


class Free(Net):
    """A method."""


class Long(CellFeatures):
    """Features of any length."""


class Hot(OneHot):
    """Vectors of any length."""


def test_what_to_learn_is_taken_by_exact_type(kernel: Kernel) -> None:
    features = CellFeatures(SCHEMA, ["month"], np.eye(3) / 2, YES)
    long = Long(SCHEMA, ["month"], np.eye(3) / 2, YES)
    known = Problem(Logistic(), 3, regularisation=1.0)
    bent = Problem(Gentle(), 3, regularisation=1.0)
    small = Small(Logistic(), 3, regularisation=1.0)
    methods = (Perturbation("gaussian", 1e6, 2.0**-20, 60), Descent("averaged", 2, 1000.0), Net(0.5, 10.0))
    requests = [
        *((Minimise(bent, method, features), "loss") for method in methods),
        *((Minimise(small, method, features), "problem") for method in methods),
        (Minimise(known, Free(0.5, 10.0), features), "method"),
        (Minimise(known, methods[1], long), "features"),
    ]
    for request, name in requests:
        with pytest.raises(ParameterError, match=f"^{name} must be .* no subclass"):
            kernel.minimise(request)
    with pytest.raises(ParameterError, match="vectors must be numbers or a OneHot"):
        CellFeatures(SCHEMA, ["month"], Hot((3,), True), YES)
    assert kernel.spent == 0
    assert not kernel.history
    assert len(kernel.minimise(Minimise(known, methods[1], features)).theta) == 3


def test_a_foreign_query_is_one_of_another_schema(kernel: Kernel) -> None:
    other = Schema({"late": categories("no", "yes")})
    with pytest.raises(QueryError, match="another schema"):
        kernel.measure([Query.where(other, late="yes")], Laplace(1.0))
