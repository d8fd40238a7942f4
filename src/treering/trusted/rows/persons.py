"""The limit on the rows of each person, checked as rows come in: a promise per person rests on it.

A person is known by a digest of 16 bytes. How many rows each has is kept in sorted arrays (`People`), and all rows of a
block are looked up together.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Flags, Ints, Words
from treering.errors import DamagedVault, DataError
from treering.trusted.rows.checks import DIGEST as DIGEST, DIGEST_BYTES, PERSON
from treering.trusted.rows.frames import Places
from treering.trusted.rows.views import ends_of, fixed, valid_in
from treering.trusted.sealed import Sealed
from treering.trusted.siphash import KEY_BYTES, siphash
from treering.words import counted

_WHOLE: Final = re.compile(r"(-?[0-9]+)\.0+")
_WHOLE_TEXT: Final = r"^(-?[0-9]+)\.0+\z"
"""The same, for Arrow."""
_NO_LIMIT: Final = 2**62
_LONG: Final = 256
"""Ids of more bytes than this are seldom, and hashed one by one."""
_KEYS: Final = (b"persons", b"long persons")
"""What the keys of the digests of short and long ids are made of, with the vault's."""

NOWHERE: Final = Places()
"""Rows that no others come before."""

Run: TypeAlias = tuple[Words, Ints]
"""Digests, each once, in order, as two rows of words: their first halves, and their second; and the rows of each."""


class People(Sealed):
    """PRIVATE: how many rows each of some persons has."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []
        """Each at least twice as long as the next: so there are few, and each row is merged into few of them."""

    def add(self, digests: Words) -> None:
        """Count one more row for each of these digests."""
        order, starts = _grouped(digests)
        self.add_counted(digests[:, order[starts]], np.diff(starts, append=len(order)))

    def add_counted(self, digests: Words, rows: Ints) -> None:
        """Count further rows of these digests, which are in order and differ."""
        if len(rows):
            self._runs.append((digests, rows))
        while len(self._runs) > 1 and len(self._runs[-2][1]) < 2 * len(self._runs[-1][1]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]

    @property
    def known(self) -> bool:
        """Whether there is any of them."""
        return bool(self._runs)

    def rows(self, digests: Words) -> Ints:
        """How many rows each of these digests has."""
        total = np.zeros(digests.shape[1], dtype=np.int64)
        for run in self._runs:
            total += _looked_up(run, digests)
        return total

    def merge(self, other: People) -> None:
        """Count the rows of other people, too."""
        for run in other._runs:
            self.add_counted(*run)

    @property
    def most(self) -> int:
        """The most rows that one of them has."""
        while len(self._runs) > 1:
            self._runs[-2:] = [_merged(*self._runs[-2:])]
        return max((int(rows.max()) for _, rows in self._runs), default=0)


def people_of(tables: Iterable[pa.Table]) -> People:
    """How many rows each person has in tables with a column of digests."""
    found = People()
    for table in tables:
        for chunk in table.column(PERSON).chunks:
            found.add(halves(chunk))
    return found


def _grouped(digests: Words) -> tuple[Ints, Ints]:
    """An order that sorts digests, equal ones as they come; and where in it each digest begins."""
    first, second = digests
    order = np.argsort(first, kind="stable")
    new, other = _changes(first[order]), _changes(second[order])
    if (other & ~new).any():  # Two digests have the same first half, which takes 2^32 persons.
        order = np.lexsort((second, first))
        new, other = _changes(first[order]), _changes(second[order])
    starts = np.flatnonzero(new | other) + 1
    return order, np.concatenate(([0], starts)) if len(order) else starts


def _changes(words: Words) -> Flags:
    return np.asarray(words[1:] != words[:-1])


def _merged(one: Run, other: Run) -> Run:
    digests, rows = np.concatenate((one[0], other[0]), axis=1), np.concatenate((one[1], other[1]))
    order, starts = _grouped(digests)
    return digests[:, order[starts]], np.add.reduceat(rows[order], starts)


def _looked_up(run: Run, digests: Words) -> Ints:
    """How many rows digests have in a run, 0 if they are not there."""
    (first, second), rows = run
    places = np.searchsorted(first, digests[0])
    found = np.zeros(digests.shape[1], dtype=np.int64)
    left = np.flatnonzero(places < len(first))
    while len(left):  # again only where another digest has the same first half
        left = left[first[places[left]] == digests[0, left]]
        same = second[places[left]] == digests[1, left]
        found[left[same]] = rows[places[left[same]]]
        left = left[~same]
        places[left] += 1
        left = left[places[left] < len(first)]
    return found


class Persons(Sealed):
    """PRIVATE: how many rows each person has, by a digest of the person's id with a key that only the vault has.

    Guarantee: rows that `admitted` does not admit are never taken in (`intake.typed_blocks`), so no person has more
    than ``limit`` rows in all, and a promise for streams that differ in ``limit`` rows is one for streams that differ
    in a person. A person is the text in the column ``column``: 7, 7.0, "7" and "7.0" are one person. Rows without a
    person are refused, and so are floats so large that one stands for several integers (`_inexact`).
    """

    __slots__ = ("_key", "_people", "column", "limit", "word")

    def __init__(self, column: str, limit: int, key: bytes, word: str = "person") -> None:
        self.column, self.limit, self.word = column, limit, word
        self._key = key
        self._people = People()

    def take_up(self, rows: Any) -> None:
        """Add rows that were taken in: their column of digests, or the people whose rows they are."""
        if rows is None:  # Nobody's were read.
            return
        if isinstance(rows, People):
            self._people.merge(rows)
        else:
            for chunk in rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]:
                self._people.add(halves(chunk))

    @property
    def field(self) -> str:
        """The name of the column of digests."""
        return f"{self.word}:"

    def check(self) -> None:
        """Refuse rows on record that exceed the limit of a person: the promise would not hold for that person."""
        if self._people.most > self.limit:
            raise DamagedVault(
                f"a person has more than {counted(self.limit, 'row')} on record, which is rows_per_person: "
                "restore a backup"
            )

    def unlimited(self) -> Persons:
        """The same persons without their rows and without a limit, to read rows that are not taken in."""
        return Persons(self.column, _NO_LIMIT, self._key)

    def nobody(self) -> People:
        """Persons without rows."""
        return People()

    def admitted(self, digests: pa.Array, coming: People) -> Flags:
        """For each row, given by its person's digest, whether the limit admits it; earlier rows come first.

        ``coming`` has the rows of each person that this batch has had before; those that are admitted are added.
        """
        words = halves(digests)
        order, starts = _grouped(words)
        persons, sizes = words[:, order[starts]], np.diff(starts, append=len(order))
        before = self._people.rows(persons) + coming.rows(persons)
        place = np.arange(len(order)) - np.repeat(starts, sizes)
        allowed = np.empty(len(order), dtype=np.bool_)
        allowed[order] = np.repeat(before, sizes) + place < self.limit
        coming.add_counted(persons, np.clip(self.limit - before, 0, sizes))
        return allowed

    def beyond(self, where: str, row: int) -> DataError:
        """The error for a row beyond its person's limit."""
        return excess(where, row, self)

    def digests(self, names: Any, places: Places = NOWHERE) -> pa.Array:
        """The digest of each row's person, given by a column or a list of ids; ``places`` names a row in an error."""
        if isinstance(names, list):
            return self._listed(names, places)
        column = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        most = _largest_in(column.type)
        try:
            coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # half floats, lists and others that are seldom ids
            return self._listed(column.to_pylist(), places, most)
        ids, at = coded.dictionary, coded.indices
        texts, inexact, bad = _plain_texts(ids), frozenset[int](), list[int]()
        if texts is None:
            found = [_id(name, most) for name in ids.to_pylist()]
            bad = [place for place, text in enumerate(found) if not isinstance(text, bytes)]
            inexact = frozenset(place for place in bad if found[place] is INEXACT)
            texts = Texts.of([text if isinstance(text, bytes) else b"" for text in found])
        elif ids.null_count:
            bad = np.flatnonzero(~valid_in(ids)).tolist()
        if at.null_count or bad:
            fits = pc.and_(at.is_valid(), pc.invert(pc.is_in(at, pa.array(bad, at.type))))
            if fits.false_count:
                first = pc.index(fits, False).as_py()
                raise self._unfit(INEXACT if at[first].as_py() in inexact else None, first, places)
        return self._hashed(texts).take(at)

    def _listed(self, names: Sequence[Any], places: Places, most: int = 2**53) -> pa.Array:
        texts = []
        for row, name in enumerate(names):
            text = _id(name, most)
            if not isinstance(text, bytes):
                raise self._unfit(text, row, places)
            texts.append(text)
        return self._hashed(Texts.of(texts))

    def _hashed(self, texts: Texts) -> pa.Array:
        """The digest of each text, as a column. Long texts stand for their own digests, under another key."""
        short, long = (hashlib.blake2b(word, key=self._key, digest_size=KEY_BYTES).digest() for word in _KEYS)
        starts, lengths = texts.ends[:-1], np.diff(texts.ends)
        words = siphash(texts.data, starts, np.where(lengths > _LONG, 0, lengths), short)
        for place in np.flatnonzero(lengths > _LONG).tolist():
            whole = hashlib.blake2b(texts.data[starts[place] : texts.ends[place + 1]], key=self._key).digest()
            words[:, place] = siphash(whole, np.array([0]), np.array([len(whole)]), long)[:, 0]
        return pa.Array.from_buffers(DIGEST, len(lengths), [None, pa.py_buffer(words.T.astype("<u8").tobytes())])

    def _unfit(self, text: object, row: int, places: Places) -> DataError:
        problem = f"there is no {self.word}"
        if text is INEXACT:
            problem = (
                f"the {self.word} is a float so large that digits may be lost, and one {self.word} would count as "
                "several: hand over integers or texts, as they were before they became floats (pandas makes floats of "
                "integers where one is missing: use its type Int64)"
            )
        message = f"{places.shown(row)}, column {self.column!r}: {problem}; nothing of the batch was taken"
        return DataError(message, row=places.row(row), column=self.column)

    def column_in(self, table: pa.Table) -> pa.ChunkedArray:
        """The column of a table that says whose the rows are."""
        if table.column_names.count(self.column) != 1:
            says = "whose they are" if self.word == "person" else "which they are"
            raise DataError(f"the rows need one column {self.column!r} that says {says}", column=self.column)
        return table.column(self.column)


def halves(digests: pa.Array) -> Words:
    """A column of digests as two rows of words."""
    return np.ascontiguousarray(fixed(digests, f"V{DIGEST_BYTES}").view("<u8").reshape(len(digests), 2).T)


class Texts(NamedTuple):
    """PRIVATE: texts one after another: text i ends where text i + 1 begins."""

    data: bytes
    ends: Ints
    """Where the first one begins, and where each ends."""

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """Some texts."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return cls(b"".join(texts), np.concatenate(([0], np.cumsum(lengths))))


def _plain_texts(ids: pa.Array) -> Texts | None:
    """Canonical bytes of ids that are texts or integers, all at once; None for other types."""
    kind = ids.type
    if pa.types.is_integer(kind):
        texts = ids.cast(pa.string())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = ids.cast(pa.string())
        if pc.match_substring(texts, ".0").true_count:
            texts = pc.replace_substring_regex(texts, _WHOLE_TEXT, r"\1")
    else:
        return None
    data = texts.buffers()[2]
    return Texts(b"" if data is None else data.to_pybytes(), ends_of(texts).astype(np.int64))


INEXACT: Final = "inexact"
"""Stands for an id that may have lost digits."""


def _id(name: Any, most: int) -> bytes | str | None:
    """Canonical bytes of a person's id; `INEXACT`, or None if it is none."""
    return INEXACT if _inexact(name, most) else _text(name)


def _inexact(name: Any, most: int) -> bool:
    """Whether an id is a float of at least ``most``, or so large that floats of its own type skip integers: from 2^53,
    2^24 or 2^11 on."""
    if isinstance(name, np.floating) and not isinstance(name, float):
        most = min(most, 2 ** (1 + int(np.finfo(name).nmant)))
    return isinstance(name, float | np.floating) and most <= abs(float(name)) < math.inf


def _largest_in(kind: pa.DataType) -> int:
    """From where on the floats of an Arrow column skip integers; as Python's objects they may have become wider."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return 2**11 if pa.types.is_float16(kind) else 2**24 if pa.types.is_float32(kind) else 2**53


def _text(name: Any) -> bytes | None:
    """Canonical bytes of a person's id, or None if it is none. 7, 7.0, "7" and "7.0" are equal, because a column of
    integers becomes one of floats when a value is missing."""
    if isinstance(name, float | np.floating | Decimal):
        if not math.isfinite(name):
            return None
        name = int(name) if name % 1 == 0 else name
    elif isinstance(name, str) and (whole := _WHOLE.fullmatch(name)):
        name = whole[1]
    if not isinstance(name, str | bytes | int | float | np.generic | Decimal | date | time | UUID) or name != name:
        return None  # None, NaT, NA, a list, an object: no id of a person
    return name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogatepass")


def excess(where: str, row: int, persons: Persons) -> DataError:
    """The error for a row beyond its person's limit: names the row, not the person."""
    return DataError(
        f"{where}: its person has {counted(persons.limit, 'row')} already, which is rows_per_person; "
        'nothing of the batch was taken (on_invalid="drop" would leave such rows out)',
        row=row,
        column=persons.column,
    )
