"""Series of the first rows of each person: distinct persons, and rows or sums with at most so many of each.

*Neighbours* are two worlds in which the rows of one person hold other values. They stay that person's, at their
positions: that a person has rows, how many, and when they came is public. A person has at most k rows, ever.

*What is counted.* Groups are disjoint. Rows are taken in their order; a row counts if fewer than q rows of its person
counted before it in its group, and fewer than C in all groups (``domain/sums.py``: ``each``, ``most``). It counts for
1, or for a number from 0 to R. It counts in the leaf that it came in, and in no other, however many segments the series
has. So a person adds to the numbers x[s, g] of leaf s and group g, with n(g) = Σ_s x[s, g] ≤ qR in each group and
Σ_g n(g) ≤ CR in all.

*Theorem.* Let a release be Σ_s w[s]·x[s, g] plus noise for each group, with w ≥ 0, and for each leaf let its squared
weights sum to at most W over all releases of the segment that it is in. Then the releases of all segments together move
by at most 2qC·R²·W in squared distance when the rows of one person change, and the bound is attained; if its weights
themselves sum to at most V, they move by at most 2C·R·V in all.

*Proof.* Let A be the matrix that makes the releases of a group out of x[·, g]: its columns are the weights of the
leaves. No entry is negative, so no two columns have a negative product, and for x, x′ ≥ 0

    |A(x − x′)|² = |Ax|² + |Ax′|² − 2⟨Ax, Ax′⟩ ≤ |Ax|² + |Ax′|² ≤ W·(n(g)² + n′(g)²),

the last since |Ax| ≤ Σ_s x[s]·√W. Over all groups Σ_g n(g)² ≤ max n·Σ n ≤ qR·CR, in each of the two worlds. In L1, a
column is at most V long, and there are Σ_g (n(g) + n′(g)) ≤ 2CR of them. One person's first row in a group may come in
the first leaf in one world, and in another segment in the other: then both terms are there, so 2 is needed. ∎

Flags are q = 1: with K groups that a person can be in, 2K·W. (Signed values would need 4C²: they count from the lower
bound. Nothing is centred, and a union of groups is not a sum: a person may be in both.)

*The ledger* is that of ``budget/rows.py``, kept by the position of a person's *first* row. A leaf of the rows (a, b] is
charged to these positions; the first leaf of a series begins at 0. A person's rows are counted in leaves from the one
with its first row on, and it paid there, once, for all that follow: in no later leaf, and in no later segment, does it
pay again, though its flags may fall there. Hence the price is one for the whole series (`Capped.price`), which the room
of no segment may exceed, and nothing is given back when a segment ends: a flag of an early person may fall in the last
leaf of the last one. Positions of later rows of a person pay too, without need. So along one transcript a person loses
at most the sum of the prices of the series that its first row paid for, and that is within the budget.

*Its unit.* The price is stated as that of each of k rows: what a person loses is k² (zCDP) or k (pure) times as much.
A mechanism with the share s of a promise has s·ρ/k² (s·ε/k) of it, so here persons lose at most s·ρ (s·ε), as do those
of a mechanism that counts rows, by group privacy. The shares sum to at most 1, hence what a person loses in all
mechanisms together is within the promise.

*What is enforced here*, on public values alone: a segment of a series that goes on has its groups, its measure and its
price, begins where the last one ended, and is cut into leaves only once that is over. So no leaf is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from treering.budget.cost import Cost
from treering.domain.groups import Groups
from treering.domain.sums import Capped
from treering.errors import ParameterError
from treering.gate import Coming, PersonsCounted, SegmentBegun
from treering.trusted import pricing
from treering.trusted.charges import Segment
from treering.trusted.operations import groups as checks
from treering.trusted.operations.base import Desk, Operation, Prepaid
from treering.trusted.operations.firsts import Book, same_groups
from treering.trusted.operations.segment import (
    Advancing,
    Beginning,
    Condensing,
    Ending,
    Leaf,
    Marking,
    Tallies,
    named,
)
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.rows.tally import Numbers
from treering.trusted.sealed import Sealed


def of_persons(limit: int) -> Callable[[type[Any]], Operation[Any, Any]]:
    """The operations of a kernel whose ledger is one of persons, each with at most ``limit`` rows: no others."""
    able = (Marking(), BeginningOfPersons(limit), AdvancingPersons(), Condensing(), Ending(), Numbering())
    by_event: dict[type[Any], Operation[Any, Any]] = {each.event: each for each in able}

    def found(kind: type[Any]) -> Operation[Any, Any]:
        if kind not in by_event:
            raise ParameterError("mechanism", f"of kind 'persons' counts persons and no rows: no {kind.__name__}")
        return by_event[kind]

    return found


class BeginningOfPersons(Beginning):
    """A segment of a series of the first rows of each person. A segment after the first goes on with the series."""

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def check(self, desk: Desk, *request: Any) -> SegmentBegun:
        """Refuse also a segment that is dearer than its series says, or that does not go on where it ends."""
        begun = super().check(desk, *request)
        assert isinstance(begun.sums, Capped)
        unit = desk.charges.budget.amount(pricing.combining(begun.groups.number, 1, begun.noise, begun.sums))
        if begun.room * unit > begun.sums.price:
            raise ParameterError("price", "of a series of persons must cover the room of each of its segments")
        before = segments_of(begun.series, desk)
        if begun.start == 0 and not before:
            return begun
        if len(before) != 1 or not _goes_on(before[0], begun):
            raise ParameterError(
                "start",
                "must be 0 for a new series of persons, or the end of its one segment, with the same groups and price: "
                "whoever was counted before is not counted again",
            )
        return begun

    def _checked_sums(self, sums: Any, desk: Desk) -> Capped:
        """What is counted of each person, of exact types."""
        if type(sums) is not Capped:
            raise ParameterError("sums", "must be Capped: this ledger is one of persons, not of rows")
        if (
            any(type(each) is not int for each in (sums.each, sums.most, sums.limit))
            or type(sums.price) is not Fraction
        ):
            raise ParameterError("sums", "have caps that are integers, and a price that is a fraction")
        if not 1 <= sums.each <= sums.most <= sums.limit or sums.limit != self._limit:
            raise ParameterError(
                "per_person", f"must be from 1 to {self._limit}, the most rows that a person can have here"
            )
        if sums.price <= 0:
            raise ParameterError("price", "must be positive")
        inner = checks.checked_sums(sums.sums, desk.rows.scalars)
        if inner is not None and inner.counts:
            raise ParameterError("sums", "of each person's first rows come without counts")
        return Capped(sums.each, sums.most, sums.limit, sums.price, inner)


def segments_of(series: int, desk: Desk) -> list[Segment]:
    """The segments of a series that are in progress."""
    return [each for each in desk.charges.segments.values() if each.begun.series == series]


def _goes_on(before: Segment, begun: SegmentBegun) -> bool:
    """Whether a segment goes on where another of its series ends."""
    same = before.begun.sums == begun.sums and same_groups(before.begun.groups, begun.groups)
    return same and before.edges[-1] == begun.start


class AdvancingPersons(Advancing):
    """The next leaf of a series of persons. Persons whose first row is in it pay for the whole series."""

    __slots__ = ()

    def check(self, desk: Desk, *request: Any) -> Leaf:
        """Refuse also a leaf of a segment that another goes on from, or that goes on from one that is not over."""
        leaf = super().check(desk, *request)
        if len(segments_of(leaf.segment.begun.series, desk)) > 1:
            raise ParameterError("segment", "waits for the other of its series to be over: no row is counted in both")
        return leaf

    def needs(self, checked: Leaf, desk: Desk) -> list[Need]:
        """The rows that are not looked at yet."""
        begun = checked.segment.begun
        return [
            Need(begun.groups, desk.own(Books).of(begun).uncounted((*checked.segment.edges, desk.size)), begun.sums)
        ]

    def coming(self, leaves: Sequence[Coming], desk: Desk) -> list[Need]:
        """What leaves that are to come read of the rows: a series that begins, all of them."""
        return [self._need(leaf, desk) for leaf in leaves]

    def _need(self, leaf: Coming, desk: Desk) -> Need:
        if leaf.segment is not None:
            return self.needs(Leaf(named(desk, leaf.segment), (), desk.size), desk)[0]
        assert isinstance(leaf.sums, Capped)
        before = desk.own(Books).size_of(leaf.groups, leaf.sums)
        edges = (leaf.start, desk.size) if before == leaf.start or not leaf.start else (0, leaf.start, desk.size)
        return Need(checks.checked_groups(leaf.groups, desk.rows.scalars), edges, leaf.sums)

    def _tallies(self, begun: SegmentBegun, desk: Desk) -> Tallies:
        return desk.own(Books).tallies_of(begun)


class Books(Sealed):
    """PRIVATE: for each series, which rows of whom counted; and the tallies of its segments."""

    __slots__ = ("_books", "_tallies")

    def __init__(self) -> None:
        self._books: dict[int, Book] = {}
        self._tallies: dict[int, PersonTallies] = {}

    def of(self, begun: SegmentBegun) -> Book:
        """The book of a segment's series."""
        if begun.series not in self._books or (begun.start == 0 and begun.segment not in self._tallies):
            assert isinstance(begun.sums, Capped)
            self._books[begun.series] = Book(begun.groups, begun.sums)
        return self._books[begun.series]

    def size_of(self, groups: Groups, capped: Capped) -> int:
        """How many rows were seen for a series of these groups; 0 if none."""
        known = (each for each in self._books.values() if each.counts(groups, capped))
        return next((each.size for each in known), 0)

    def tallies_of(self, begun: SegmentBegun) -> PersonTallies:
        """The tallies of a segment, whose series goes on in one segment at a time."""
        book = self.of(begun)
        if begun.segment not in self._tallies:
            self._tallies = {number: each for number, each in self._tallies.items() if each.series != begun.series} | {
                begun.segment: PersonTallies(begun, book)
            }
        return self._tallies[begun.segment]


class PersonTallies(Tallies):
    """PRIVATE: what counted of each person, by group and leaf of a segment."""

    __slots__ = ("_book", "series")

    def __init__(self, begun: SegmentBegun, book: Book) -> None:
        super().__init__(begun.groups, begun.sums)
        self._book, self.series = book, begun.series

    def _tally(self, rows: Rows, edges: tuple[int, ...]) -> Numbers:
        return self._book.count(rows, edges)


# -- how many persons there are ----------------------------------------------------------------------------------------

ALL: Final = Groups((), None)
"""One group of all rows."""
ONCE: Final = Capped(1, 1, 1, Fraction(1))
"""Each person counts once."""


class Numbering(Prepaid[PersonsCounted, PersonsCounted]):
    """How many persons there are: that they have rows is public, and so is their number."""

    __slots__ = ()
    event = PersonsCounted

    def check(self, desk: Desk, *request: Any) -> PersonsCounted:
        """Nothing is refused."""
        return PersonsCounted(desk.size, 0)

    def needs(self, checked: PersonsCounted, desk: Desk) -> list[Need]:
        """The rows that came since they were last counted."""
        book = desk.own(Everyone).book
        return [] if book.size == desk.size else [Need(ALL, (book.size, desk.size), ONCE)]

    def perform(self, checked: PersonsCounted, cost: Cost, desk: Desk) -> PersonsCounted:
        """Count those whose first row came since they were last counted."""
        book = desk.own(Everyone).book
        if book.size < checked.size:
            book.count(desk.rows, (book.size, checked.size))
        return PersonsCounted(checked.size, book.flags)


class Everyone(Sealed):
    """PRIVATE: who has rows."""

    __slots__ = ("book",)

    def __init__(self) -> None:
        self.book = Book(ALL, ONCE)
