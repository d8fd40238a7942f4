"""The shares of one promise: what the mechanisms of a vault have on record, and the gates that open with them.

*Formal guarantee.* All gates that `Shares` opens together spend no more than the promise's budget on any row. *Proof.*
A kernel keeps what each row has paid within its budget, and its budget is the share on record: a request for another
one is refused. Each mechanism has one gate, because a second one is refused until the share is lowered, which retires
the first: the next continues its journal. The shares sum to at most 1 at every moment, none is raised, and one is
lowered only to what covers all that its gate has charged. So the sums of ``vault/kinds.py`` hold, whatever budget a
mechanism, which is a public program, asks for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from treering.budget.promise import Budget, Promise
from treering.errors import ParameterError
from treering.trusted.journal import Journal
from treering.trusted.kernel import Kernel
from treering.trusted.rows.kept import Rows
from treering.trusted.sealed import Sealed

_ONE: Final = Fraction(1)


class Shares(Sealed):
    """The shares of a vault's mechanisms, by name, and which of them have an open gate."""

    __slots__ = ("_gates", "_shares", "_whole")

    def __init__(self, promise: Promise) -> None:
        self._whole = Promise(promise.epsilon, promise.delta, promise.rows_per_person).budget
        self._shares: dict[str, Fraction] = {}
        self._gates: dict[str, Kernel] = {}

    def record(self, name: str, share: Fraction) -> None:
        """A mechanism has this share from now on. Refused if it has one, or if all shares would sum to more than 1."""
        if name in self._shares:
            raise ParameterError("name", f"{name!r} has a share on record: a share can only be lowered")
        if share <= 0 or sum(self._shares.values()) + share > _ONE:
            raise ParameterError("share", "must be positive, and all shares of a promise sum to at most 1")
        self._shares[name] = share

    def lower(self, name: str, share: Fraction) -> None:
        """Lower a share, to no less than its gate has charged. That gate is retired, and another can be opened."""
        if not 0 < share < self._shares[name]:
            raise ParameterError("share", "can only be lowered, to a positive one")
        gate = self._gates.get(name)
        if gate is not None:
            if gate.spent > self._whole.total * share:
                raise ParameterError("share", "cannot be lowered to less than its mechanism has charged")
            gate.retire()
            del self._gates[name]
        self._shares[name] = share

    def open_gate(self, name: str, budget: Budget, rows: Rows, journal: Journal) -> Kernel:
        """The one gate of a mechanism, which continues where its journal ends. Refused if it is open already, or if the
        budget is not the share on record."""
        if name in self._gates:
            raise ParameterError("budget", f"is spent through one gate: that of {name!r} is open already")
        own = self._whole.share(self._shares[name])
        if type(budget) is not Budget or (budget.kind, budget.total) != (own.kind, own.total):
            raise ParameterError(
                "budget", f"of {name!r} must be its share on record, {own.unit} = {float(own.total):.6g}, and no other"
            )
        self._gates[name] = gate = Kernel(rows, own, journal)
        return gate
