"""The exact counts as they were at earlier sizes, kept for as long as somebody will need them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from weakref import WeakKeyDictionary, WeakValueDictionary

from treering.arrays import Ints
from treering.errors import VaultError
from treering.trusted.sealed import Sealed


class Bookmarks(Sealed):
    """Copies of the counts, one for each size at which a journal's trees have a node that is not over.

    They belong to a journal, as a run's secret does: a kernel that continues the journal finds them, and they go when
    it goes (so a journal must allow weak references). Journals that need the same size share one copy. Size 0 needs
    none: all counts were 0.

    A durable store keeps no copies. When it is opened it takes in its batches in their order of arrival and, before
    the kernel is made, calls `Counts.mark` at each of the sizes that ``trees.sizes_to_mark(journal.events())`` names:
    a cut is made at the size that some batch led to, so each of them is met.
    """

    __slots__ = ("_copies", "_owned")

    def __init__(self) -> None:
        self._copies: WeakValueDictionary[int, Ints] = WeakValueDictionary()
        self._owned: WeakKeyDictionary[object, dict[int, Ints]] = WeakKeyDictionary()

    @property
    def kept(self) -> dict[int, Ints]:
        """PRIVATE: the counts at every size that is kept for somebody."""
        return dict(self._copies)

    def add(self, owner: object, size: int, copy: Callable[[], Ints]) -> None:
        """Keep the counts of this size, the present one."""
        if size == 0:
            return
        kept = self._copies.get(size)
        if kept is None:
            kept = copy()
            kept.setflags(write=False)
            self._copies[size] = kept
        self._owned.setdefault(owner, {})[size] = kept

    def between(self, owner: object, start: int, end: int) -> Ints:
        """PRIVATE: the exact counts, over all cells, of the rows that came after one size and up to another."""
        later = self._at(owner, end)
        return later.copy() if start == 0 else later - self._at(owner, start)

    def check(self, owner: object, size: int) -> None:
        """Refuse if the counts of this size are not kept."""
        if size:
            self._at(owner, size)

    def keep(self, owner: object, sizes: Collection[int]) -> None:
        """Let go of what is kept for all other sizes."""
        owned = self._owned.get(owner, {})
        for size in [size for size in owned if size not in sizes]:
            del owned[size]

    def _at(self, owner: object, size: int) -> Ints:
        try:
            return self._owned[owner][size]
        except KeyError:
            raise VaultError(
                f"a tree goes on from the counts at size {size:,}, and they were not marked: take the batches in "
                "again, in order, and mark at the sizes that sizes_to_mark names"
            ) from None
