"""Which mechanism of a vault answers a question, and its plan: public, nothing is asked and nothing private is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treering.answer import Price
from treering.domain.language.items import Item
from treering.errors import ParameterError, TreeringError
from treering.mechanisms.persons import Persons
from treering.mechanisms.plan import Outcome, Plan
from treering.mechanisms.rings import Rings
from treering.vault.joined import Joined
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
    beside: Planned | None = None
    """The plan for those of the items that are about persons, where others are not."""

    def check(self, items: Sequence[Item], mechanism: str | None, within: float | None) -> None:
        """Refuse another question, or another margin, than this plan was made for."""
        names = {self.member.spec.name} | ({self.beside.member.spec.name} if self.beside else set())
        named = mechanism is None or mechanism in names
        if not named or self.plan.within != within or list(self.items) != list(items):
            raise ParameterError("plan", "must be one for this question, this margin and this mechanism")

    @property
    def most(self) -> float:
        """The most that it could cost, in the promise's unit."""
        return float(self.plan.most) + (0.0 if self.beside is None else self.beside.most)

    @property
    def price(self) -> Price:
        """The plan as its price."""
        plan, name, left = self.plan, self.member.spec.name, self.member.mechanism.remaining
        if self.beside is None:
            return Price(name, self.most, left, self.unit, plan.enough, plan.exact)
        other = self.beside.price
        return Price(
            f"{name} and {other.mechanism}",
            self.most,
            min(left, other.remaining),
            self.unit,
            plan.enough and other.enough,
            plan.exact and other.exact,
        )

    def execute(self) -> Outcome:
        """See `Answering.execute`. What is about persons is released last."""
        found = self.member.mechanism.execute(self.plan)
        if self.beside is None:
            return found
        return Joined(self.items, found, self.beside.execute())


def planned(
    members: Sequence[Member], unit: str, name: str | None, items: Sequence[Item], within: float | None
) -> Planned:
    """The mechanism that answers some items, with its plan: the one of this name; for None, of those that know the
    answers already the one with the smallest margins; or else one in which the question is paid for already; or else
    rings, or else the first. With a wish: of those that know the answers well enough the one with the smallest margins;
    or else, of those whose answers will be sharp enough, the cheapest.
    """
    personal = [item for item in items if item.personal]
    if personal and len(personal) < len(items):
        others = [item for item in items if not item.personal]
        own = name is not None and counts_persons(chosen(members, name)[1])
        first = planned(members, unit, None if own else name, others, within)
        beside = planned(members, unit, name if own else None, personal, within)
        return replace(first, beside=beside, items=items)
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
    """The mechanisms that could answer: only rings know more than counts, and only persons are counted by one of kind
    "persons"."""
    persons = any(item.personal for item in items)
    if name is None:
        able = [(number, member) for number, member in enumerate(members) if member.mechanism.answers]
    else:
        able = [chosen(members, name)]
    able = [(number, member) for number, member in able if counts_persons(member) == persons]
    if persons:
        return able or [_missing("'persons'", "which counts persons", "persons")]
    if not able and name is not None:
        _missing("'rings'", "which counts rows", "rings")
    if not able:
        return [chosen([each for each in members if not counts_persons(each)], None)]  # Says that there is none.
    if all(item.kind == "count" for item in items):
        return able
    return [(number, member) for number, member in able if isinstance(member.mechanism, Rings)] or [lacking()]


def counts_persons(member: Member) -> bool:
    """Whether a mechanism counts persons, and no rows."""
    return isinstance(member.mechanism, Persons)


def lacking() -> tuple[int, Member]:
    """Refuse a question about more than counts where no mechanism keeps sums."""
    return _missing("'rings'", "which keeps sums", "rings")


def _missing(kind: str, able: str, name: str) -> tuple[int, Member]:
    raise ParameterError("mechanism", f"must be of kind {kind}, {able}; add one: vault.add('{name}', share)")


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
