"""The desk: one vault, and everything around it that its callers share.

The desk asks the vault in the name of a caller, within the caller's quota: the price is set aside durably before the
question is asked, the vault refuses to charge more than that, and what was not used is given back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from treering.answer import Answer
from treering.domain.language.parse import understand_all
from treering.errors import Dearer
from treering.service.access import Register
from treering.service.auth import Caller, Sessions
from treering.service.events import Herald
from treering.service.metrics import Metrics
from treering.service.problems import Problem
from treering.service.turns import Turns, stopping
from treering.service.wire import dumped, stamp, status_dict
from treering.vault.asking import Bill, Price
from treering.vault.vault import Vault

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.random import Generator

Result = TypeVar("Result")

TRIES: Final = 5
"""How often a question is priced anew, when others make it dearer in between."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may be."""

    body: int = 2**20
    """Bytes of a request in JSON."""
    upload: int = 2**32
    """Bytes of a file of rows."""
    queries: int = 1000
    """Queries in a batch."""
    rows: int = 1_000_000
    """Synthetic rows."""
    page: int = 1000
    """Lines of the ledger."""
    silence: float = 30.0
    """Seconds without a byte of a request's body."""
    patience: float = 3600.0
    """Seconds for the whole body."""
    threads: int = 32
    waiting: int = 64
    """Requests of one token that wait for a thread."""


class Desk:
    """One vault, for many callers."""

    def __init__(
        self,
        vault: Vault,
        register: Register,
        generator: Callable[[int | None], Generator],
        limits: Limits | None = None,
        *,
        secure: bool = False,
    ) -> None:
        """``generator`` makes public random numbers from a seed, for synthetic rows; ``secure``: cookies need TLS."""
        self.vault, self.register, self.generator = vault, register, generator
        self.limits = limits or Limits()
        self.secure = secure
        self.sessions = Sessions()
        self.metrics = Metrics()
        self.began = time.time()
        self._turns = Turns(self.limits.threads, self.limits.waiting)
        self._appending = ThreadPoolExecutor(1, "treering-rows")
        self.herald = Herald(self._news)

    # -- threads ------------------------------------------------------------------------------------------------------

    async def work(self, caller: Caller, work: Callable[[], Result]) -> Result:
        """The result of ``work``, which may block, in its turn."""
        return await self._turns.run(caller.token.id, work)

    async def append(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, which takes in rows: one at a time, in a thread that questions do not need."""
        if self.stopped:
            raise stopping()
        return await asyncio.get_running_loop().run_in_executor(self._appending, work)

    @property
    def stopped(self) -> bool:
        """Whether the server is stopping."""
        return self._turns.stopped

    async def stop(self) -> None:
        """Accept nothing more, and end the streams of events."""
        self._turns.stop()
        await self.herald.stop()

    def close(self) -> None:
        """Wait for what is under way, and close the vault."""
        self._turns.close()
        self._appending.shutdown(wait=True)
        self.vault.close()
        self.register.close()

    async def _news(self) -> bytes:
        status = await asyncio.get_running_loop().run_in_executor(None, lambda: status_dict(self.vault))
        return dumped(status)

    # -- questions ----------------------------------------------------------------------------------------------------

    def answers(
        self, caller: Caller, texts: list[str], mechanism: str | None, key: str | None, within: float | None
    ) -> tuple[list[Any], list[Answer], Bill]:
        """The queries of these texts, their answers, and what they have cost."""
        queries = understand_all(texts, self.vault.schema)
        answers, bill = self._paid(
            caller, len(queries), lambda bill: self.vault.ask_many(queries, mechanism, key, within, bill)
        )
        self._told(Counter(each.kind for each in answers), bill)
        return list(queries), answers, bill

    def table(
        self, caller: Caller, text: str, mechanism: str | None, key: str | None, within: float | None
    ) -> tuple[pa.Table, Bill]:
        """The table that answers a statement, and what it has cost."""
        statement = self.vault.statement(text, mechanism)
        table, bill = self._paid(caller, 1, lambda bill: self.vault.sql(statement, within, mechanism, key, bill))
        self._told({"sql": 1}, bill)
        return table, bill

    def price(self, texts: list[str] | None, sql: str | None, mechanism: str | None, within: float | None) -> Price:
        """What a question could cost: free."""
        if sql is not None:
            return self.vault.price_sql(sql, within, mechanism)
        return self.vault.price_many(texts or [], mechanism, within)

    def _told(self, kinds: dict[str, int], bill: Bill) -> None:
        self.metrics.asked(kinds, bill.cost)

    def _paid(self, caller: Caller, answers: int, ask: Callable[[Bill], Result]) -> tuple[Result, Bill]:
        """What ``ask`` gives, and what it has cost. Of a quota nothing is needed for what is free."""
        quota = caller.token.quota
        bill = Bill(most=0.0) if quota.limited else Bill()
        try:
            return ask(bill), bill
        except Dearer as dearer:
            price = dearer.price
        for _ in range(TRIES):
            reserved = self.register.reserve(caller.token.id, quota, answers, price, self.vault.total)
            if reserved is None:
                raise self._exceeded(caller, answers, price)
            bill = Bill(most=price)
            try:
                return ask(bill), bill
            except Dearer as dearer:  # Rows have come since.
                price = dearer.price
            finally:
                reserved.settle(bill.cost)
        raise Problem(503, "price_changed", "rows come too fast to price this: try again", {"Retry-After": "1"})

    def _exceeded(self, caller: Caller, answers: int, price: float) -> Problem:
        """The refusal of what a quota does not cover."""
        used, quota, total = self.register.used(caller.token.id), caller.token.quota, self.vault.total
        words = (
            f"this costs {price / total:.3g} of the budget and counts as {answers:,}; the quota of this token is "
            f"{_limit(quota.budget)} of the budget and {_limit(quota.answers)} charged answers a week, of which "
            f"{used.budget / total:.3g} and {used.answers:,} are used. What is known already stays free"
        )
        wait = 3600 if used.until is None else max(1, int(used.until - time.time()))
        more = {"price": price / total, "frees": stamp(used.until)}
        return Problem(429, "quota_exceeded", words, {"Retry-After": str(wait)}, **more)


def _limit(value: float | None) -> str:
    return "any part" if value is None else f"{value:g}"
