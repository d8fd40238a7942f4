"""What an agent may do: an analyst's questions, within an allowance that it can see.

The tools talk to a `Desk`. `VaultDesk` is the one of a vault that this process has open, with a quota of its own;
`ServerDesk` is the one of a server, where the token has the quota.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from treering.answer import Answer, Bill, Price
from treering.domain.schema import Schema
from treering.errors import Dearer, QuotaExceeded
from treering.words import counted, readable

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.client import Client

Told = TypeVar("Told")

ROUNDING: Final = 1e-12
"""Amounts of budget up to this share of the whole are rounding errors."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an agent may still spend: public. Amounts are in the promise's ``unit``."""

    unit: str
    promise: float
    """What each row may be charged in all."""
    promise_left: float
    """What may still be charged on all rows, by anybody. (Newer rows may have more left.)"""
    quota: float | None = None
    """The part of the promise that this agent may spend; None if all of it."""
    quota_left: float | None = None
    answers_left: int | None = None
    """How many more answers that cost something the agent may have; None if there is no limit."""
    resets: str | None = None
    """When more of the quota comes back; None if that is not known."""

    @property
    def left(self) -> float:
        """What the agent can spend now."""
        if self.answers_left == 0:
            return 0.0
        return self.promise_left if self.quota_left is None else min(self.quota_left, self.promise_left)

    def __str__(self) -> str:
        words = []
        if self.quota_left is not None:
            words.append(f"{self.unit} {readable(self.quota_left)} of your quota of {readable(self.quota or 0)}")
        if self.answers_left is not None:
            words.append(counted(self.answers_left, "paid answer"))
        words.append(f"{self.unit} {readable(self.promise_left)} of everybody's {readable(self.promise)}")
        return "; ".join(words) + (f"; more of your quota comes back {self.resets}" if self.resets else "")


class Paid(NamedTuple, Generic[Told]):
    """What was told, of how many rows, and what it has cost the rows that paid most."""

    told: Told
    size: int
    cost: float


class Desk(Protocol):
    """Where an agent asks."""

    @property
    def schema(self) -> Schema:
        """The attributes and their values."""

    def status(self) -> dict[str, Any]:
        """The vault's public state."""

    def allowance(self) -> Allowance:
        """What may still be spent."""

    def price(self, queries: Sequence[str], within: float | None) -> Price:
        """What a batch costs, for nothing."""

    def price_sql(self, text: str, within: float | None) -> Price:
        """What a statement costs, for nothing."""

    def ask(self, queries: Sequence[str], within: float | None) -> Paid[list[Answer]]:
        """Answers to a batch of predicates."""

    def sql(self, text: str, within: float | None) -> Paid[pa.Table]:
        """The result of a statement."""


class Opened(Protocol):
    """What a desk needs of an open vault."""

    @property
    def schema(self) -> Schema:
        """The attributes and their values."""

    @property
    def size(self) -> int:
        """The number of rows."""

    @property
    def unit(self) -> str:
        """The unit of costs."""

    @property
    def total(self) -> float:
        """What each row may be charged."""

    @property
    def spent(self) -> float:
        """The most that any row was charged."""

    def status(self) -> dict[str, Any]:
        """The public state."""

    def price_many(self, queries: Sequence[str], mechanism: str | None, within: float | None) -> Price:
        """What a batch costs."""

    def price_sql(self, text: str, within: float | None) -> Price:
        """What a statement costs."""

    def ask_many(
        self, queries: Sequence[str], mechanism: str | None, key: str | None, within: float | None, bill: Bill
    ) -> list[Answer]:
        """Answers to a batch."""

    def sql(self, text: str, within: float | None, *, bill: Bill) -> pa.Table:
        """The result of a statement."""


class VaultDesk:
    """The desk of an open vault. Its quota is for as long as the desk is there; calls are taken one at a time.

    ``answers``  how many answers that cost something are given; None: no limit
    ``share``    the part of the promise that may be spent, in (0, 1]; None: no limit
    """

    def __init__(self, vault: Opened, answers: int | None = None, share: float | None = None) -> None:
        self._vault = vault
        self._answers = answers
        self._quota = None if share is None else share * vault.total
        self._quota_left = self._quota
        self._lock = Lock()

    @property
    def schema(self) -> Schema:
        """The attributes and their values."""
        return self._vault.schema

    def status(self) -> dict[str, Any]:
        """The vault's public state."""
        return self._vault.status()

    def allowance(self) -> Allowance:
        """What may still be spent."""
        vault = self._vault
        left = max(0.0, vault.total - vault.spent)
        return Allowance(vault.unit, vault.total, left, self._quota, self._quota_left, self._answers)

    def price(self, queries: Sequence[str], within: float | None) -> Price:
        """What a batch costs, for nothing."""
        return self._vault.price_many(queries, None, within)

    def price_sql(self, text: str, within: float | None) -> Price:
        """What a statement costs, for nothing."""
        return self._vault.price_sql(text, within)

    def ask(self, queries: Sequence[str], within: float | None) -> Paid[list[Answer]]:
        """Answers to a batch of predicates, if the quota covers the most that they could cost."""
        return self._paid(len(queries), lambda bill: self._vault.ask_many(queries, None, None, within, bill))

    def sql(self, text: str, within: float | None) -> Paid[pa.Table]:
        """The result of a statement, if the quota covers the most that it could cost."""
        return self._paid(1, lambda bill: self._vault.sql(text, within, bill=bill))

    def _paid(self, answers: int, ask: Callable[[Bill], Told]) -> Paid[Told]:
        with self._lock:
            bill = Bill(most=self._most(answers))
            try:
                return Paid(ask(bill), self._vault.size, bill.cost)
            except Dearer as dearer:
                raise self._exceeded(answers, dearer.price) from None
            finally:  # What a batch released before it failed is paid for.
                self._spend(bill.cost, answers)

    def _most(self, answers: int) -> float:
        """The most that so many answers may cost. (Those that are free need no quota.)"""
        if self._answers is not None and answers > self._answers:
            return 0.0
        return math.inf if self._quota_left is None else self._quota_left * (1 + ROUNDING)

    def _exceeded(self, answers: int, price: float) -> QuotaExceeded:
        words = "your quota does not cover this: it needs"
        if self._answers is not None and answers > self._answers:
            left = f"{self._answers:,} {'is' if self._answers == 1 else 'are'} left"
            asked = counted(answers, "paid answer")
            return QuotaExceeded(f"{words} {asked}, and {left}", unit="answers", requested=answers, left=self._answers)
        unit, rest, quota = self._vault.unit, self._quota_left or 0.0, self._quota or 0.0
        text = f"{words} {unit} {readable(price)}, and {readable(rest)} is left of {readable(quota)}"
        return QuotaExceeded(text, unit=unit, requested=price, left=rest)

    def _spend(self, cost: float, answers: int) -> None:
        if cost and self._answers is not None:
            self._answers = max(0, self._answers - answers)
        if self._quota_left is not None:
            self._quota_left = max(0.0, self._quota_left - cost)


class ServerDesk:
    """The desk of a vault on a server: the rights and the quota are the token's."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def schema(self) -> Schema:
        """The attributes and their values."""
        return self._client.schema

    def status(self) -> dict[str, Any]:
        """The vault's public state."""
        return self._client.status()

    def allowance(self) -> Allowance:
        """What may still be spent."""
        status, token = self._client.status(), self._client.me()
        total, answers = status["total"], token.answers
        return Allowance(
            status["unit"],
            total,
            status["remaining"],
            None if token.budget is None else token.budget * total,
            None if token.budget is None else max(0.0, token.budget - token.budget_used) * total,
            None if answers is None else max(0, answers - token.answers_used),
            token.frees,
        )

    def price(self, queries: Sequence[str], within: float | None) -> Price:
        """What a batch costs, for nothing."""
        return self._client.price_many(queries, within=within)

    def price_sql(self, text: str, within: float | None) -> Price:
        """What a statement costs, for nothing."""
        return self._client.price_sql(text, within)

    def ask(self, queries: Sequence[str], within: float | None) -> Paid[list[Answer]]:
        """Answers to a batch of predicates."""
        answers, cost = self._client.ask_for(queries, within=within)
        return Paid(answers, answers[0].size, cost)

    def sql(self, text: str, within: float | None) -> Paid[pa.Table]:
        """The result of a statement."""
        table, size, cost = self._client.sql_for(text, within)
        return Paid(table, size, cost)
