"""Shares of one promise: each mechanism has one, and may give up what it has not used for another.

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
from dataclasses import replace
from fractions import Fraction

from treering.errors import DamagedVault
from treering.vault.kinds import Spec


def lowered(specs: Sequence[Spec], spare: Sequence[Fraction], wanted: Fraction) -> dict[str, Fraction]:
    """The shares to lower so that a new mechanism can have the share ``wanted``; all that can be, if it cannot.

    ``spare`` is the share that each mechanism can do without. What nobody has is taken first, then what mechanisms can
    spare, in their order.
    """
    missing = wanted - (1 - sum((each.share for each in specs), Fraction(0)))
    shares: dict[str, Fraction] = {}
    for each, free in zip(specs, spare, strict=True):
        given = min(missing, free)
        if given > 0:
            shares[each.name] = each.share - given
            missing -= given
    return shares


def with_shares(specs: Sequence[Spec], shares: Mapping[str, Fraction]) -> list[Spec]:
    """The specifications with some shares lowered; `DamagedVault` if one would be raised, or is of no mechanism."""
    known = {each.name: each.share for each in specs}
    if any(name not in known or not 0 < share < known[name] for name, share in shares.items()):
        raise DamagedVault("a share on record was lowered that is not there, or was raised: restore a backup")
    return [replace(each, share=shares.get(each.name, each.share)) for each in specs]
