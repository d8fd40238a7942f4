"""The desk: one vault, and everything around it that its callers share.

The desk asks the vault in the name of a caller, within the caller's quota: the price is set aside durably before the
question is asked, the vault refuses to charge more than that, and what was not used is given back.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from treering.answer import Answer, Bill, Price
from treering.domain.language.wants import ROWS, Wants
from treering.domain.query import Query
from treering.errors import Dearer
from treering.service.access import Register, Used
from treering.service.auth import Caller, Quota, Sessions
from treering.service.calls import Call, watched
from treering.service.events import Herald
from treering.service.large import Allowances, Large
from treering.service.metrics import Metrics
from treering.service.problems import Problem
from treering.service.shares import Shares
from treering.service.turns import Turns, stopping
from treering.service.wire import dumped, quota_left, stamp, status_dict
from treering.vault.planning import Planned
from treering.vault.vault import Vault
from treering.words import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.random import Generator

    from treering.sql.engine.workers import Workers
    from treering.sql.split import Statement

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
    numbers: int = 5_000
    """Numbers that a statement releases: others wait for some ten thousandths of a second for each."""
    rows: int = 1_000_000
    """Synthetic rows."""
    page: int = 1000
    """Lines of the ledger."""
    silence: float = 30.0
    """Seconds without a byte of a request's body."""
    patience: float = 3600.0
    """Seconds for the whole body."""
    seconds: float = 30.0
    """Seconds that the work of one request may take."""
    statement: float = 10.0
    """Seconds that the second stage of one statement may take."""
    memory: int = 2**30
    """Bytes by which the process that works out a statement may grow, and that large questions may hold here."""
    result_rows: int = 500_000
    result_bytes: int = 2**24
    """Rows and bytes of the table that a statement is worked out to."""
    processes: int = 2
    """Statements that are worked out at the same time; one token has half of them at most."""
    kept: int = 100_000
    """Numbers that one token puts on record under keys within a day."""
    connections: int = 256
    """Connections at the same time."""
    heads: float = 10.0
    """Seconds for the head of a request."""
    threads: int = 32
    waiting: int = 64
    """Requests of one token that wait for a thread."""
    uploads: int = 4
    """Files of rows that come at the same time."""


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
        workers: Workers | None = None,
    ) -> None:
        """``generator`` makes public random numbers from a seed, for synthetic rows; ``secure``: cookies need TLS.
        ``workers`` work out statements, and are closed in the end; None: this process does."""
        self.vault, self.register, self.generator = vault, register, generator
        self.limits = limits or Limits()
        self.secure = secure
        self.sessions = Sessions()
        self.metrics = Metrics()
        self.began = time.time()
        self._turns = Turns(self.limits.threads, self.limits.waiting)
        self._large = Large(self.limits.memory)
        self._kept = Allowances(self.limits.kept)
        self._shares = None if workers is None else Shares(workers)
        self._calls: set[Call] = set()
        self._appending = ThreadPoolExecutor(1, "treering-rows")
        self.herald = Herald(self._news)
        self.uploads = register.folder / "uploads"
        shutil.rmtree(self.uploads, ignore_errors=True)  # What a crash has left.

    # -- threads ------------------------------------------------------------------------------------------------------

    async def work(self, caller: Caller, work: Callable[[], Result]) -> Result:
        """The result of ``work``, which may block, in its turn: it ends with the request's time, or its caller."""
        who = caller.token.id
        with self._large.question(who) as take:
            call = Call(self.limits.seconds, take)
            self._calls.add(call)
            try:
                async with watched(call):
                    return await self._turns.run(who, lambda: call.run(lambda: self._worked(caller, work)))
            finally:
                self._calls.discard(call)

    def _worked(self, caller: Caller, work: Callable[[], Result]) -> Result:
        """The result of ``work``, whose statements are worked out by the caller's share of the processes."""
        if self._shares is None:
            return work()
        from treering.sql.engine.current import using

        with using(self._shares.of(caller.token.id)):
            return work()

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
        """End what is still under way, and close the vault."""
        for call in list(self._calls):
            call.leave()
        self._turns.close()
        if self._shares is not None:
            self._shares.close()
        self._appending.shutdown(wait=True)
        self.vault.close()
        self.register.close()

    async def _news(self) -> bytes:
        status = await asyncio.get_running_loop().run_in_executor(None, lambda: status_dict(self.vault))
        return dumped(status)

    # -- questions ----------------------------------------------------------------------------------------------------

    def answers(
        self,
        caller: Caller,
        texts: Sequence[str],
        mechanism: str | None,
        key: str | None,
        within: float | None,
        wants: Wants = ROWS,
    ) -> tuple[Sequence[Query], list[Answer], Bill]:
        """The queries of these texts, their answers, and what they have cost."""
        queries = self.vault.queries(texts, mechanism)
        self._record(caller, key, len(queries))

        def ask(bill: Bill, plan: Planned | None) -> list[Answer]:
            count, cap = wants.count, wants.per_person
            return self.vault.ask_many(queries, mechanism, key, within, bill, plan, count=count, per_person=cap)

        answers, bill = self._paid(caller, len(queries), ask)
        self.metrics.asked(Counter(each.kind for each in answers), bill.cost)
        return queries, answers, bill

    def estimates(self, texts: Sequence[str], mechanism: str | None) -> tuple[Sequence[Query], list[Answer], Bill]:
        """The queries of these texts, and what earlier answers make them out to be: free."""
        queries = self.vault.queries(texts, mechanism)
        vault = self.vault
        answers = vault.estimates(queries, mechanism)
        self.metrics.asked(Counter(each.kind for each in answers), 0.0)
        return queries, answers, Bill(unit=vault.unit, remaining=max(0.0, vault.total - vault.spent))

    def table(
        self,
        caller: Caller,
        text: str,
        mechanism: str | None,
        within: float | None,
        key: str | None = None,
        per_person: int | None = None,
    ) -> tuple[pa.Table, Bill]:
        """The table that answers a statement, and what it has cost."""
        statement = self._statement(text, mechanism, per_person)
        self._record(caller, key, len(statement.items))
        table, bill = self._paid(
            caller, 1, lambda bill, plan: self.vault.sql(statement, within, mechanism, bill, key, plan)
        )
        self.metrics.asked({"sql": 1}, bill.cost)
        return table, bill

    def _statement(self, text: str, mechanism: str | None, per_person: int | None) -> Statement:
        """A statement, read; refused if it releases too much at once."""
        statement = self.vault.statement(text, mechanism, per_person)
        number, most = len(statement.items), self.limits.numbers
        if number > most:
            words = f"a statement releases at most {most:,} numbers here, and this one {number:,}: group by less"
            raise Problem(422, "too_many_numbers", words)
        return statement

    def _record(self, caller: Caller, key: str | None, numbers: int) -> None:
        """Refuse a new key under which a token would put more on record than it may."""
        if key is not None and not self.vault.knows(key):
            self._kept.take(caller.token.id, numbers)

    def price(
        self,
        texts: Sequence[str],
        sql: str | None,
        mechanism: str | None,
        within: float | None,
        wants: Wants = ROWS,
    ) -> Price:
        """What a question could cost: free."""
        count, cap = wants.count, wants.per_person
        if sql is not None:
            return self.vault.price_sql(self._statement(sql, mechanism, cap), within, mechanism)
        queries = self.vault.queries(texts, mechanism)
        return self.vault.price_many(queries, mechanism, within, count=count, per_person=cap)

    def left(self, caller: Caller) -> dict[str, Any] | None:
        """What is left of the caller's quota; None if it has none."""
        if not caller.token.quota.limited:
            return None
        return quota_left(caller.token.quota, self.register.used(caller.token.id), self.vault.total)

    def _paid(self, caller: Caller, answers: int, ask: Callable[[Bill, Planned | None], Result]) -> tuple[Result, Bill]:
        """What ``ask`` gives, and what it has cost. Of a quota nothing is needed for what is free."""
        quota = caller.token.quota
        bill = Bill(most=0.0) if quota.limited else Bill()
        try:
            return ask(bill, None), bill
        except Dearer as dearer:
            price, plan = dearer.price, plan_of(dearer)
        for _ in range(TRIES):
            reserved = self.register.reserve(caller.token.id, quota, answers, price, self.vault.total)
            if reserved is None:
                raise self._exceeded(caller, answers, price)
            bill = Bill(most=price)
            try:
                return ask(bill, plan), bill
            except Dearer as dearer:  # Rows have come since.
                price, plan = dearer.price, plan_of(dearer)
            finally:
                reserved.settle(bill.cost)
        raise Problem(503, "price_changed", "rows come too fast to price this: try again", {"Retry-After": "1"})

    def _exceeded(self, caller: Caller, answers: int, price: float) -> Problem:
        """The refusal of what a quota does not cover."""
        used, quota, total = self.register.used(caller.token.id), caller.token.quota, self.vault.total
        words = (
            f"this could cost {price / total:.3g} of the budget and counts as {counted(answers, 'charged answer')}; "
            f"of this token's quota for the week is left: {left_of(quota, used, total)}; what is known stays free"
        )
        lacking = quota.answers is not None and used.answers + answers > quota.answers
        left = (quota.answers or 0) - used.answers if lacking else (quota.budget or 0.0) * total - used.budget
        wait = 3600 if used.until is None else max(1, math.ceil(used.until - time.time()))
        amounts = {"requested": float(answers) if lacking else price, "left": float(max(0, left))}
        more = {"unit": "answers" if lacking else self.vault.unit, **amounts, "frees": stamp(used.until)}
        return Problem(429, "quota_exceeded", words, {"Retry-After": str(wait)}, **more)


def plan_of(dearer: Dearer) -> Planned | None:
    """The plan of a question that may not cost so much."""
    return dearer.plan if isinstance(dearer.plan, Planned) else None


def left_of(quota: Quota, used: Used, total: float) -> str:
    """What is left of a quota, in words."""
    parts = [] if quota.answers is None else [counted(max(0, quota.answers - used.answers), "charged answer")]
    if quota.budget is not None:
        parts.append(f"{max(0.0, quota.budget - used.budget / total):.3g} of the budget")
    return " and ".join(parts)
