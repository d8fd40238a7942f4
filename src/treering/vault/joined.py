"""What two mechanisms know of one question: one of its rows, the other of its persons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from treering.answer import Answer, Estimate
from treering.domain.language.items import Item
from treering.mechanisms.plan import Outcome
from treering.mechanisms.series.drawing import Drawing


class Joined:
    """The outcomes of the items of a question, put together in their order: see `treering.mechanisms.plan.Outcome`."""

    def __init__(self, items: Sequence[Item], rows: Outcome, persons: Outcome) -> None:
        self._items, self._rows, self._persons = items, rows, persons

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._rows.size

    def answers(self) -> list[Answer]:
        """See `Outcome.answers`."""
        rows, persons = iter(self._rows.answers()), iter(self._persons.answers())
        return [next(persons if item.personal else rows) for item in self._items]

    def estimates(self) -> list[Estimate]:
        """See `Outcome.estimates`."""
        rows, persons = iter(self._rows.estimates()), iter(self._persons.estimates())
        return [next(persons if item.personal else rows) for item in self._items]

    def drawing(self) -> Drawing | None:
        """See `Outcome.drawing`: the noises of the two are independent."""
        return together(self._items, self._rows.drawing(), self._persons.drawing())


def together(items: Sequence[Item], rows: Drawing | None, persons: Drawing | None) -> Drawing | None:
    """The noise of all items, from that of those about rows and that of those about persons; None if one's law is not
    known."""
    if rows is None or persons is None:
        return None
    listed = [
        (rows, [place for place, item in enumerate(items) if not item.personal]),
        (persons, [place for place, item in enumerate(items) if item.personal]),
    ]
    streams = [
        replace(stream, portions=[each._replace(place=places[each.place]) for each in stream.portions])
        for drawing, places in listed
        for stream in drawing.streams
    ]
    return Drawing(streams, list(_others(listed)))


def _others(listed: Iterable[tuple[Drawing, Sequence[int]]]) -> Iterator[int]:
    for drawing, places in listed:
        yield from (places[place] for place in drawing.others)
