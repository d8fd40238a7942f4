"""An error of the journal flies through the kernel's frames, and reporters show the variables of each: no exact count
is among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

from treering.budget.promise import Budget
from treering.domain.attribute import categories, integers
from treering.domain.groups import Groups
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Descent, Minimise, Net as NetMethod, Perturbation, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import VaultError
from treering.gate import Event, Ones, RunRequest, Span
from treering.noise import Gaussian, Laplace
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.rows.kept import Rows
from treering.trusted.sealed import Sealed

SCHEMA = Schema({"late": categories("no", "yes"), "month": integers(1, 3)})
YES = Query.where(SCHEMA, late="yes")
PLANTED = 123_457
"""How many rows match `YES`: they all lie in one cell."""
WIDE = 2.0**40
"""Noise of this scale is 0, so that the noisy count is the exact one, with probability below 1e-12."""


class Failing(MemoryJournal):
    """A journal that takes nothing once it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def write(self, event: Event) -> None:
        if self.full:
            raise VaultError("the disk is full")
        super().write(event)


def opened() -> tuple[Kernel, Failing]:
    rows, journal = Rows(SCHEMA), Failing()
    cells = [SCHEMA.cell({"late": late, "month": 2}) for late in ("no", "yes")]
    rows.add_cells(np.repeat(np.array(cells), [1_000, PLANTED]))
    return Kernel(rows, Budget("zcdp", Fraction(10**6)), journal), journal


def compare(kernel: Kernel, answer: Laplace | None, bar: int, estimates: list[int] | None = None) -> Callable[[], Any]:
    run = kernel.begin_run(RunRequest(10.0, 10.0, answer)).run
    return lambda: kernel.first_exceeding(run, [YES], [bar], estimates)


def foreign(kernel: Kernel) -> Callable[[], Any]:
    enable_features("contrib")
    measurement = make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=WIDE)
    return lambda: kernel.foreign(measurement)


def leaf(kernel: Kernel) -> Callable[[], Any]:
    segment = kernel.begin_segment(Groups.marginal(SCHEMA), Gaussian(WIDE), 2).segment
    return lambda: kernel.advance(segment, [Ones(1), Ones(1)])


def learn(kernel: Kernel, method: Perturbation | Descent | NetMethod) -> Callable[[], Any]:
    features = CellFeatures(SCHEMA, ["month"], np.eye(3) / 2, YES)
    return lambda: kernel.minimise(Minimise(Problem(Logistic(), 3, regularisation=1.0), method, features))


OPERATIONS: dict[str, Callable[[Kernel], Callable[[], Any]]] = {
    "measure": lambda kernel: lambda: kernel.measure([YES], Laplace(WIDE)),
    "measure many": lambda kernel: lambda: kernel.measure([YES] * 3, Gaussian(WIDE)),
    "first_exceeding, above": lambda kernel: compare(kernel, None, -(2**60)),
    "first_exceeding, answered": lambda kernel: compare(kernel, Laplace(WIDE), -(2**60)),
    "first_exceeding, with an estimate": lambda kernel: compare(kernel, Laplace(WIDE), -(2**60), [0]),
    "first_exceeding, below": lambda kernel: compare(kernel, Laplace(WIDE), 2**60),
    "histogram": lambda kernel: lambda: kernel.histogram(Laplace(WIDE)),
    "marginal": lambda kernel: lambda: kernel.histogram(Gaussian(WIDE), [0]),
    "select": lambda kernel: lambda: kernel.select([YES, ~YES], 10.0),
    "select, with estimates": lambda kernel: lambda: kernel.select([YES, ~YES], 10.0, [0, 0]),
    "draw_rows": lambda kernel: lambda: kernel.draw_rows([YES], 2, 10.0),
    "foreign": foreign,
    "combine": lambda kernel: lambda: kernel.combine(Groups.of([YES]), [Span(0, kernel.size, 1)], Gaussian(WIDE)),
    "advance": leaf,
    "minimise by perturbation": lambda kernel: learn(kernel, Perturbation("gaussian", 1e6, 2.0**-20, 60)),
    "minimise by descent": lambda kernel: learn(kernel, Descent("averaged", 2, 1000.0)),
    "minimise over a net": lambda kernel: learn(kernel, NetMethod(0.5, 10.0)),
}


def frames(error: BaseException | None) -> Iterator[dict[str, Any]]:
    """The variables of every frame that an error, and those that led to it, came through, but for the tests' own."""
    while error is not None:
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals["__name__"] != __name__:
                yield trace.tb_frame.f_locals
            trace = trace.tb_next
        error = error.__context__


def numbers(value: Any, seen: set[int]) -> Iterator[float]:
    """Every number within a value; sealed objects stay sealed."""
    if isinstance(value, Sealed) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, int | float | np.number):
        yield float(value)
    elif isinstance(value, np.ndarray):
        yield from (float(each) for each in value.reshape(-1).tolist() if isinstance(each, int | float))
    elif isinstance(value, tuple | list | set | frozenset):
        yield from (number for each in value for number in numbers(each, seen))
    elif isinstance(value, dict):
        yield from (number for each in value.values() for number in numbers(each, seen))
    elif type(value).__module__.startswith("treering."):
        names = [*getattr(value, "__dict__", ()), *(name for kind in type(value).__mro__ for name in slots(kind))]
        yield from (number for name in names for number in numbers(getattr(value, name, None), seen))


def slots(kind: type) -> tuple[str, ...]:
    named = kind.__dict__.get("__slots__", ())
    return (named,) if isinstance(named, str) else tuple(named)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_of_the_journal_shows_no_exact_count(name: str) -> None:
    kernel, journal = opened()
    operation = OPERATIONS[name](kernel)
    journal.full = True
    with pytest.raises(VaultError, match="the disk is full") as caught:
        operation()
    seen = list(frames(caught.value))
    assert len(seen) >= 2, "the kernel's frames are there to be looked at"
    for variables in seen:
        for variable, value in variables.items():
            assert PLANTED not in numbers(value, set()), variable


def test_the_search_finds_what_is_there() -> None:
    """The number is found in a variable, a list, an array and an object, and not within what is sealed."""
    rows = Rows(SCHEMA)
    for value in (PLANTED, [(PLANTED,)], np.array([[1, PLANTED]]), {"a": PLANTED}, Laplace(PLANTED), np.int64(PLANTED)):
        assert PLANTED in numbers(value, set())
    rows.add_cells(np.zeros(PLANTED, dtype=np.int64))
    assert rows.cells.marginal((0,))[0] == PLANTED
    assert PLANTED not in numbers(rows, set())
