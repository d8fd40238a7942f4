"""Private minimisers of an empirical risk (``learning/minimisers.py``), and counts of rows that were held out of one
(``learning/holding.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from treering.budget.cost import Cost
from treering.domain.groups import Groups
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, RobustLogistic, Squared
from treering.domain.problem import Descent, Method, Minimise, Net, NoisyMoments, Perturbation, Problem, Refinement
from treering.domain.tally import Tally
from treering.errors import Halted
from treering.gate import Minimised, Tallied, Told
from treering.noise import Noise
from treering.trusted import pricing
from treering.trusted.charges import Charges
from treering.trusted.learning import minimisers
from treering.trusted.learning.holding import Held, check_held, room_of, split
from treering.trusted.noise import check_noise
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.rows.kept import Need
from treering.trusted.sealed import Sealed


class HeldOut(Sealed):
    """PRIVATE: the rows that the last model did not learn from, if any."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: Held | None = None


class Learning(NamedTuple):
    """A request to minimise, about the rows of an interval, or all of them."""

    request: Minimise
    rows: tuple[int, int] | None
    held: int
    progress: Told | None


class Minimising(Operation[Learning, Minimised]):
    """A private minimiser of an empirical risk, on all rows or on those of an interval.

    Cost: derived from the problem's constants, the method's noise and the number of rows, by
    ``budget/minimising.py``. The rows of the interval pay it, and no other row is read. Those that are held out pay the
    same.
    """

    __slots__ = ()
    event = Minimised

    parts = (
        *(Problem, Logistic, HuberHinge, Squared, Distance, HuberDistance, Perturbation, Descent, Net, NoisyMoments),
        *(Refinement, RobustLogistic),
    )
    names: ClassVar = {"Problem": Problem, "Method": Method}

    def check(self, desk: Desk, *request: Any) -> Learning:
        """Refuse rows that cannot be told apart, and too many to hold out. What the last run held out is forgotten."""
        desk.own(HeldOut).rows = None
        checked = Learning(*request)
        if checked.rows is not None:
            desk.check_unreserved()
            desk.check_interval(checked.rows)
        check_held(checked.held, 0 if checked.rows is None else checked.rows[1] - checked.rows[0])
        return checked

    def price(self, checked: Learning, desk: Desk) -> Cost:
        """By the problem's constants."""
        return minimisers.price(checked.request, desk.rows, checked.rows, checked.held)

    def needs(self, checked: Learning, desk: Desk) -> Sequence[Need]:
        """The joint values of the features, in the interval or in all rows."""
        features = checked.request.features
        if features is None:
            return ()
        if checked.rows is None:
            return desk.rows.need_of_cells(features.schema)
        return [Need(Groups.cells(features.schema, features.joint), checked.rows)]

    def charge(self, checked: Learning, cost: Cost, desk: Desk) -> None:
        """Charge the rows of the interval, or all."""
        _charge(desk.charges, cost, desk.size, checked.rows)

    def perform(self, checked: Learning, cost: Cost, desk: Desk) -> Minimised:
        """The noisy minimiser."""
        request, rows, held, progress = checked
        entries = minimisers.entries(request, desk.rows, rows)
        if held:
            entries, others = split(entries, held)
            room = room_of(cost, desk.charges.budget)
            desk.own(HeldOut).rows = Held(others, minimisers.label_kind(request, desk.rows), room)
        theta = minimisers.minimum(request, entries, progress)
        return Minimised(desk.size, cost, request.problem, request.method, theta, rows, held or None)

    def follow(self, event: Minimised, charges: Charges) -> None:
        """Charge the rows of the interval, or all."""
        _charge(charges, event.cost, event.size, event.rows)


def _charge(charges: Charges, cost: Cost, size: int, rows: tuple[int, int] | None) -> None:
    if rows is None:
        charges.charge(cost, size)
    else:
        charges.charge_rows(cost, *rows)


class Counting(NamedTuple):
    """A request to count held-out rows, and the rows (PRIVATE)."""

    request: Tally
    noise: Noise
    held: Held


class Tallying(Operation[Counting, Tallied]):
    """Held-out rows counted by what a public model says of them, plus noise. Cost, out of their room: 2/s pure, 1/σ²
    zCDP."""

    __slots__ = ()
    event = Tallied

    parts = (Tally,)
    names: ClassVar = {"Tally": Tally}

    def check(self, desk: Desk, *request: Any) -> Counting:
        """Refuse what is no count of the rows that are held out."""
        held = desk.own(HeldOut).rows
        if held is None:
            raise Halted("no rows are held out: those of the last model are forgotten when the gate is opened anew")
        tally, noise = request
        held.check(tally)
        check_noise(noise, 1)
        return Counting(tally, noise, held)

    def price(self, checked: Counting, desk: Desk) -> Cost:
        """That of counts of disjoint groups."""
        return pricing.combining(checked.request.groups, 1, checked.noise)

    def charge(self, checked: Counting, cost: Cost, desk: Desk) -> None:
        """Take the cost out of the room: the rows have paid with the model."""
        checked.held.charge(cost)

    def perform(self, checked: Counting, cost: Cost, desk: Desk) -> Tallied:
        """The noisy counts."""
        request, noise, held = checked
        return Tallied(desk.size, cost, request, noise, held.tally(request, noise))

    def follow(self, event: Tallied, charges: Charges) -> None:
        """Nothing: the rows have paid with the model."""
