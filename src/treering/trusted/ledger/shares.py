"""The shares of one promise: each mechanism of a vault has one, and may give up what it has not used for another.

*Formal guarantee.* All mechanisms of a vault together keep its promise, whatever shares move. *Proof.* Let B be the
promise's budget, and at every moment let the shares sum to at most 1. A mechanism's ledger keeps what each row has paid
in it within its share of B. When a share is lowered, it stays at least what any row has paid by then, so that holds for
the new share, too, before and after; no share is ever raised, and a new mechanism starts with nothing paid. So at every
moment, and for every row, the sum over all mechanisms of what the row has paid is at most B. What moves, and when,
follows from public values and from what the steward asks for. Hence the sums are a ledger as Theorem 1 of
docs/theory/rings.md has it, for all mechanisms together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from treering.trusted.sealed import Sealed


@dataclass(frozen=True, slots=True)
class Spec:
    """A mechanism as the ledger specifies it: ``share`` is its share of the promise's budget."""

    name: str
    kind: str
    share: Fraction
    options: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The specification as JSON values, as the ledger keeps it."""
        return {"name": self.name, "kind": self.kind, "share": str(self.share), "options": self.options}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Spec:
        """The specification that `to_dict` wrote."""
        return cls(plain["name"], plain["kind"], Fraction(plain["share"]), dict(plain["options"]))


def with_shares(specs: Sequence[Spec], shares: Mapping[str, Fraction]) -> list[Spec]:
    """The specifications, some of them with other shares."""
    return [replace(each, share=shares.get(each.name, each.share)) for each in specs]


class Shares(Sealed):
    """The mechanisms on record, in their order, each with its share."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: tuple[Spec, ...] = ()

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The mechanisms, with the shares that they have now."""
        return self._specs

    def problem(self, new: Spec, lowered: Mapping[str, Fraction]) -> str:
        """What keeps a mechanism from being added, with shares lowered for it; "" if nothing does."""
        known = {each.name: each.share for each in self._specs}
        if any(name not in known or not 0 < share < known[name] for name, share in lowered.items()):
            return "a share on record was lowered that is not there, or was raised"
        if new.name in known:
            return f"two mechanisms on record are called {new.name!r}"
        if new.share <= 0 or sum({**known, **lowered}.values()) + new.share > 1:
            return "the shares of the mechanisms on record exceed the whole promise"
        return ""

    def add(self, new: Spec, lowered: Mapping[str, Fraction]) -> None:
        """Add a mechanism, with shares lowered for it, of which `problem` said nothing."""
        self._specs = (*with_shares(self._specs, lowered), new)
