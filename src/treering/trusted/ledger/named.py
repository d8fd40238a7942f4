"""Batches and parts by their lines in the ledger: all of it public.

A *batch* is what one append has taken in. A *part* is a file with the rows of some batches that came one after another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from treering.errors import DamagedVault
from treering.trusted.ledger.lines import PART, ROWS, Entry, Line, body

FAN: Final = 8
"""At least this many neighbouring parts are merged at a time."""

MOST: Final = 2**22
"""The most rows of a part that is merged from others."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The ledger's record of one append."""

    number: int
    rows: int
    size: int
    """The size of the database after this batch."""
    dropped: int
    """How many rows were left out of it."""
    commitment: str
    """To its rows; "" if they stay in a table of an engine."""
    watermark: Mapping[str, Any] | None = None
    """The watermark after this batch, if the rows stay in a table of an engine."""
    times: int = 0
    """How often it was written anew, since some of its rows were erased or corrected."""

    @classmethod
    def of(cls, line: Line | Entry) -> Batch:
        """The batch that a line of the ledger tells of."""
        return cls.read(json.loads(line.body), line.commitment)

    @classmethod
    def read(cls, plain: Mapping[str, Any], commitment: str) -> Batch:
        """The batch that a line with this body and commitment tells of."""
        given = (plain["number"], plain["rows"], plain["size"], plain["dropped"])
        return cls(*given, commitment, plain.get("watermark"))

    def line(self, key: str) -> Line:
        """Its line; ``key`` is the caller's idempotency key, or ""."""
        fields: dict[str, Any] = {
            "number": self.number,
            "rows": self.rows,
            "size": self.size,
            "dropped": self.dropped,
        }
        if self.watermark is not None:
            fields["watermark"] = dict(self.watermark)
        return Line(ROWS, body(**fields), key=key, commitment=self.commitment)

    @property
    def secret(self) -> str:
        """The name, among the secrets, of the salt and the keyed digest of its rows."""
        return batch_secret(self.number, self.times)

    def rewritten(self, commitment: str) -> Batch:
        """The batch, written anew."""
        return replace(self, commitment=commitment, times=self.times + 1)

    @property
    def kept(self) -> bool:
        """Whether the store has rows of it: there are some, and they do not stay in an engine."""
        return self.rows > 0 and self.watermark is None


def batch_secret(number: int, times: int = 0) -> str:
    """The name of the secret of batch ``number``, written anew so many times."""
    return f"rows {number}.{times}" if times else f"rows {number}"


class BatchList:
    """The batches that the lines of a ledger tell of, in order.

    A line is parsed when its batch is needed: there are as many as there were appends, and opening a vault needs the
    last ones only.
    """

    def __init__(self) -> None:
        self._listed: list[Batch | Entry] = []

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, place: int) -> Batch:
        found = self._listed[place]
        if not isinstance(found, Batch):
            found = self._listed[place] = Batch.of(found)
        return found

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.after(0))

    @property
    def size(self) -> int:
        """The number of rows in all batches."""
        return self[-1].size if self else 0

    def after(self, number: int) -> list[Batch]:
        """The batches after the first ``number``."""
        lines = {place: each for place, each in enumerate(self._listed[number:], number) if isinstance(each, Entry)}
        bodies = json.loads(f"[{','.join(line.body for line in lines.values())}]")  # all in one call: twice as fast
        for (place, line), plain in zip(lines.items(), bodies, strict=True):
            self._listed[place] = Batch.read(plain, line.commitment)
        return [each for each in self._listed[number:] if isinstance(each, Batch)]

    def beyond(self, size: int) -> list[Batch]:
        """The batches after the first ``size`` rows."""
        start, step = len(self._listed), 1
        while start > 0 and self[start - 1].size > size:
            start, step = max(0, start - step), 2 * step
        return [batch for batch in self.after(start) if batch.size > size]

    def learn(self, line: Entry) -> None:
        """Add the next batch, by its line."""
        self._listed.append(line)

    def append(self, batch: Batch) -> None:
        """Add the next batch."""
        self._listed.append(batch)

    def rewrite(self, number: int, commitment: str) -> None:
        """A batch was written anew."""
        self._listed[number - 1] = self[number - 1].rewritten(commitment)

    def check(self) -> None:
        """Raise `DamagedVault` unless every batch begins where the one before ended."""
        size = 0
        for number, batch in enumerate(self, 1):
            size += batch.rows
            if batch.number != number or batch.rows < 0 or batch.size != size:
                raise DamagedVault(
                    f"batch {number} on record does not go on where the one before ended: restore a backup"
                )


# -- parts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """The ledger's record of one file of rows."""

    number: int
    first: int
    """How many rows came before its own."""
    rows: int
    commitment: str

    @classmethod
    def of(cls, line: Line | Entry) -> Part:
        """The part that a line of the ledger names."""
        plain = json.loads(line.body)
        return cls(plain["number"], plain["first"], plain["rows"], line.commitment)

    def line(self) -> Line:
        """Its line."""
        return Line(PART, body(number=self.number, first=self.first, rows=self.rows), commitment=self.commitment)

    @property
    def last(self) -> int:
        """The position of its last row."""
        return self.first + self.rows

    @property
    def name(self) -> str:
        """The name of its file."""
        return part_name(self.number)

    @property
    def secret(self) -> str:
        """The name, among the secrets, of what its file must be."""
        return part_secret(self.number)


def part_name(number: int) -> str:
    """The name of the file of part ``number``."""
    return f"{number:08d}.parquet"


def part_secret(number: int) -> str:
    """The name of the secret of part ``number``."""
    return f"part {number}"


class PartList:
    """The parts in use, in the order of their rows. A part replaces those whose rows it has."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self.last = 0
        """The number of the last part that was named, in use or not."""

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(tuple(self._parts))

    @property
    def rows(self) -> int:
        """How many rows, counted from the first, lie in parts. Those after them are the tail."""
        return self._parts[-1].last if self._parts else 0

    @property
    def names(self) -> set[str]:
        """The names of the files in use."""
        return {part.name for part in self._parts}

    def within(self, part: Part) -> list[Part]:
        """The parts that ``part`` replaces; `DamagedVault` unless it has all rows of each, or follows the last."""
        found = [each for each in self._parts if part.first < each.last and each.first < part.last]
        edges = (found[0].first, found[-1].last) if found else (self.rows, part.last)
        if part.rows < 1 or part.number != self.last + 1 or (part.first, part.last) != edges:
            raise DamagedVault(f"part {part.name} on record does not go on where others end: restore a backup")
        return found

    def add(self, part: Part) -> list[Part]:
        """Add the next part; returns those that it replaces."""
        replaced = self.within(part)
        kept = [each for each in self._parts if each not in replaced]
        self._parts = sorted([*kept, part], key=lambda each: each.first)
        self.last = part.number
        return replaced

    def mergeable(self, weights: Sequence[int]) -> list[Part]:
        """The neighbouring parts to merge next, given how large each is; none if no merging is due.

        At least `FAN` of them, at most `MOST` together, none larger than the others together: so each merging at least
        doubles the part that a row lies in, and a row is merged at most log2(`MOST`) times. The longest run is taken.
        """
        best = range(0)
        for start in range(len(weights)):
            total = most = 0
            for end in range(start, len(weights)):
                total, most = total + weights[end], max(most, weights[end])
                if total > MOST:
                    break
                if end + 1 - start >= max(FAN, len(best) + 1) and 2 * most <= total:
                    best = range(start, end + 1)
        return self._parts[best.start : best.stop]


class Taken(NamedTuple):
    """What an append has taken in: public."""

    size: int
    """The size after it."""
    rows: int
    dropped: int
    known: bool
    """Whether an earlier append with the same key had taken in these rows: nothing has changed now."""


class Kept(NamedTuple):
    """What was answered under an idempotency key: public."""

    key: str
    mechanism: int
    """The number of the mechanism that answered; -1 for none."""
    plain: Any
