"""Which mechanism of a vault answers a question, and its plan: public, nothing is asked and nothing private is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treering.answer import Price
from treering.domain.language.items import Item
from treering.errors import ParameterError, TreeringError
from treering.mechanisms.plan import Outcome, Plan
from treering.mechanisms.rings import Rings
from treering.vault.members import Member, chosen


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan for a question, and the mechanism of a vault that would carry it out: public.

    Whoever has shown its price hands it on with the question, which is then not planned again.
    """

    items: Sequence[Item]
    """What is asked. (The plan has it as the mechanism sees it.)"""
    number: int
    """The mechanism's number in the vault."""
    member: Member
    plan: Plan
    unit: str
    """The promise's unit: "epsilon" or "rho"."""

    def check(self, items: Sequence[Item], mechanism: str | None, within: float | None) -> None:
        """Refuse another question, or another margin, than this plan was made for."""
        named = mechanism in (None, self.member.spec.name)
        if not named or self.plan.within != within or list(self.items) != list(items):
            raise ParameterError("plan", "must be one for this question, this margin and this mechanism")

    @property
    def most(self) -> float:
        """The most that it could cost, in the promise's unit."""
        return float(self.plan.most)

    @property
    def price(self) -> Price:
        """The plan as its price."""
        plan = self.plan
        return Price(
            self.member.spec.name, self.most, self.member.mechanism.remaining, self.unit, plan.enough, plan.exact
        )


def planned(
    members: Sequence[Member], unit: str, name: str | None, items: Sequence[Item], within: float | None
) -> Planned:
    """The mechanism that answers some items, with its plan: the one of this name; for None, of those that know the
    answers already the one with the smallest margins; or else one in which the question is paid for already; or else
    rings, or else the first. With a wish: of those that know the answers well enough the one with the smallest margins;
    or else, of those whose answers will be sharp enough, the cheapest.
    """
    able = candidates(members, name, items)
    if len(able) == 1:
        ((number, member),) = able
        return Planned(items, number, member, _plan(member, items, within), unit)
    tried = [_tried(member, items, within) for _, member in able]
    best = min(range(len(able)), key=lambda place: tried[place][0])
    plan = tried[best][1]
    if isinstance(plan, TreeringError):
        raise plan
    return Planned(items, *able[best], plan, unit)


def candidates(members: Sequence[Member], name: str | None, items: Sequence[Item]) -> list[tuple[int, Member]]:
    """The mechanisms that could answer: only rings know more than counts."""
    if name is None:
        able = [(number, member) for number, member in enumerate(members) if member.mechanism.answers]
    else:
        able = [chosen(members, name)]
    if not able:
        return [chosen(members, None)]  # Says that there is none.
    if all(item.kind == "count" for item in items):
        return able
    return [(number, member) for number, member in able if isinstance(member.mechanism, Rings)] or [lacking()]


def lacking() -> tuple[int, Member]:
    """Refuse a question about more than counts where no mechanism keeps sums."""
    raise ParameterError("mechanism", "must be of kind 'rings', which keeps sums; add one: vault.add('rings', share)")


def keeps_sums(members: Sequence[Member], name: str | None) -> bool:
    """Whether the mechanism of this name, or any, keeps sums."""
    return any(isinstance(member.mechanism, Rings) and name in (None, member.spec.name) for member in members)


def measuring(members: Sequence[Member], name: str | None) -> tuple[int, Member, Rings]:
    """The rings that answer a request, and their number: those of this name, or the first."""
    for number, member in enumerate(members):
        if isinstance(member.mechanism, Rings) and name in (None, member.spec.name):
            return number, member, member.mechanism
    if name is not None:
        chosen(members, name)  # Says which mechanisms there are.
    lacking()
    raise AssertionError


def _plan(member: Member, items: Sequence[Item], within: float | None) -> Plan:
    return member.mechanism.plan(member.seen(items), within)


def _tried(
    member: Member, items: Sequence[Item], within: float | None
) -> tuple[tuple[int, float, bool], Plan | TreeringError]:
    """How well a mechanism suits a question, smaller is better, and its plan; last comes one that cannot answer it now,
    or not sharply enough."""
    other = member.spec.kind != "rings"
    try:
        plan = _plan(member, items, within)
        return (*_suits(plan), other), plan
    except TreeringError as refusal:
        return (3, 0.0, other), refusal


def _widest(plan: Plan, known: Outcome) -> float:
    """The largest margin of what is known."""
    if all(item.kind == "count" for item in plan.items):
        return max((each.margin for each in known.answers()), default=0.0)
    return max((each.margin or 0.0 for each in known.estimates()), default=0.0)


def _suits(plan: Plan) -> tuple[int, float]:
    if plan.known is not None:
        return 0, _widest(plan, plan.known)
    if plan.within is not None:
        return 1, float(plan.price)
    return (1, 0.0) if plan.price == 0 and len(plan.items) == 1 else (2, 0.0)
