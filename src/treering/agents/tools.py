"""The tools of an agent: schema, status, plan, price, ask and sql, as a server of the Model Context Protocol.

Every result ends with what is left to spend, no result is longer than an agent can read, and a refusal says what would
be right: which words the schema has, which margin the quota still covers, what is known already and free.

An agent that asks without end, choosing each question by earlier answers, is the adversary that the promise is made
against: nothing here defends it, and nothing here needs to. A quota keeps one agent from spending what is everybody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from anyio import to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from treering.agents.desk import ROUNDING, Allowance, Desk
from treering.answer import Answer, Bill, Price
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, ParameterError, QueryError, QuotaExceeded, TreeringError
from treering.shown import holding, plain_value, written
from treering.sql.opening import opening
from treering.theory.plan import DEFAULT_QUERIES, plan
from treering.words import counted, readable

if TYPE_CHECKING:
    import pyarrow as pa

MOST_QUERIES: Final = 100
"""The most predicates in one call."""
MOST_ROWS: Final = 200
"""The most rows of a table that are shown."""
MOST_TEXT: Final = 20_000
"""The most characters of a result's text."""
MOST_VALUES: Final = 50
"""The most values of an attribute that are listed."""

UNEXPECTED: Final = "an unexpected error: nothing about it can be shown here, and the steward should be told"

INSTRUCTIONS: Final = """\
A table of private rows that grows. You never see a row: you count, sum and average them, and every number has noise.
Start with `schema`. Each new question costs a part of a privacy budget that is shared and does not come back; `price` \
says how much, for nothing. What was measured once is free to ask again, in any combination. GROUP BY in one statement \
is far cheaper than one question for each group. Pass `within` (the ± you need, in rows, or below 1 as a share of the \
rows): you pay for no more than that.
Each number has a margin: it holds with 95% for that number alone, if you chose the question without looking at the \
noise that answers it. If you pick questions because of earlier answers (the largest group, a surprise), do not trust \
the margin of the one you picked: use `error`, which holds for all answers together, however chosen.
Never repeat a question to average its noise away: the answer is the same."""

Queries = Annotated[
    list[str],
    Field(
        description="Predicates, such as: origin = 'JFK' AND delay >= 60. A batch costs no more than its parts.",
        min_length=1,
        max_length=MOST_QUERIES,
    ),
]
Within = Annotated[
    float | None,
    Field(
        description="The margin wanted, at 95%: rows if 1 or more, else a share of the rows. Smaller costs more.", gt=0
    ),
]
Statement = Annotated[
    str,
    Field(description="SELECT with COUNT, SUM, AVG, MEDIAN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT; FROM any name."),
]


def server(desk: Desk, version: str = "") -> AgentServer:
    """The server with its tools; ``run()`` speaks over standard input and output."""
    made, tools = AgentServer(desk, version), Tools(desk)
    free = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    paid = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    offered: list[tuple[Callable[..., CallToolResult], ToolAnnotations]] = [
        *((tools.schema, free), (tools.status, free), (tools.plan, free), (tools.price, free)),
        *((tools.ask, paid), (tools.sql, paid)),
    ]
    for tool, hints in offered:
        made.add_tool(tool, description=getdoc(tool), annotations=hints, structured_output=False)
    return made


class AgentServer(MCPServer[Any]):
    """A server whose refusals teach. What is unexpected is named and not shown: its text may quote a private value."""

    def __init__(self, desk: Desk, version: str) -> None:
        super().__init__(
            "treering", instructions=INSTRUCTIONS, version=version, log_level="CRITICAL", subscriptions=False
        )
        self._desk = desk

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """The result of a tool, or what was wrong."""
        takes = {tool.name: list(tool.input_schema.get("properties", {})) for tool in await self.list_tools()}
        if name not in takes:
            return mistake(f"there is no tool {name!r}; there are {', '.join(takes)}")
        unknown = [given for given in arguments if given not in takes[name]]
        if unknown:
            return mistake(f"{name} takes {', '.join(takes[name]) or 'nothing'}; it does not know {', '.join(unknown)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in cause.errors())
                return mistake(f"{name} takes {', '.join(takes[name])}. {'; '.join(wrong)}")
            if isinstance(cause, TreeringError):
                return await to_thread.run_sync(refusal, self._desk, cause, arguments)
            return await to_thread.run_sync(unexpected, cause)


class Tools:
    """What an agent can call. It reads the docstrings."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def schema(self) -> CallToolResult:
        """The attributes of the table and their values, and how to ask about them. Free."""
        schema = self._desk.schema
        listed = [_attribute(schema, name) for name in schema.names]
        predicate = example(schema)
        statement = f"SELECT {_quoted(schema.names[0])}, COUNT(*) FROM t GROUP BY 1"
        text = f"{schema}\nA predicate: {predicate}\nA statement: {statement}"
        return self._said(text, {"attributes": listed, "cells": schema.cells, "examples": [predicate, statement]})

    def status(self) -> CallToolResult:
        """How many rows there are, what is left to spend, and which groups are known already, so free to ask. Free."""
        status = self._desk.status()
        known = free_groups(status)
        lines = [f"{counted(status['size'], 'row')}. The promise: {status['promise']}.", *_free_lines(known)]
        plain = {name: status[name] for name in ("size", "cells", "promise", "guarantee")}
        return self._said("\n".join(lines), {**plain, "free": known})

    def plan(
        self,
        queries: Annotated[
            float, Field(description="How many different questions; a GROUP BY is one.", gt=0)
        ] = DEFAULT_QUERIES,
        horizon: Annotated[
            float | None, Field(description="The most rows that matter; without one, for ever.", gt=0)
        ] = None,
    ) -> CallToolResult:
        """What accuracy each kind of mechanism could guarantee for this table and promise. No data, free."""
        status = self._desk.status()
        size = max(1, status["size"])
        found = plan(
            self._desk.schema.cells,
            size,
            status["epsilon"],
            status["delta"],
            queries=queries,
            horizon=math.inf if horizon is None else max(size, horizon),
        )
        rows = [{name: row.to_dict()[name] for name in ("name", "alpha", "expected", "runs")} for row in found.rows]
        return self._said(str(found), {"rows": rows, "reason": found.reason})

    def price(
        self,
        queries: Annotated[list[str] | None, Field(description="Predicates.", max_length=MOST_QUERIES)] = None,
        sql: Annotated[str | None, Field(description="Or a statement.")] = None,
        within: Within = None,
    ) -> CallToolResult:
        """What asking would cost, and whether what is left covers it. Nothing is asked, nothing is charged. Free."""
        if (queries is None) == (sql is None):
            raise QueryError("price one thing: give `queries`, a list of predicates, or `sql`, a statement")
        price = _priced(self._desk, queries, sql, within)
        allowance = self._desk.allowance()
        share = price.most / allowance.promise
        covered = price.enough and price.most <= allowance.left + ROUNDING * allowance.promise
        most = "nothing" if price.most == 0 else f"{'' if price.exact else 'at most '}{_amount(price.unit, price.most)}"
        lines = [f"It would cost {most}, {share:.2%} of the promise."]
        if not covered:
            lines += ["What is left may not cover it.", *_margin_lines(self._desk, queries, sql)]
        plain = {"most": price.most, "exact": price.exact, "share": share, "covered": covered}
        return self._said("\n".join(lines), plain)

    def ask(self, queries: Queries, within: Within = None) -> CallToolResult:
        """How many rows match each predicate, with margin and error. What is new is charged; see `price`."""
        answers, size, cost = self._desk.ask(queries, within)
        with self._bill(cost).charging():
            lines = [said(query, answer) for query, answer in zip(queries, answers, strict=True)]
            listed = [plain_answer(query, answer) for query, answer in zip(queries, answers, strict=True)]
            return self._said("\n".join(lines), {"answers": listed, "size": size}, cost)

    def sql(self, sql: Statement, within: Within = None) -> CallToolResult:
        """A table of counts, sums, averages or quantiles of groups, each with its margin. One statement has one price,
        which is far below that of a question for each group; ORDER BY, HAVING, LIMIT, shares and the like are free.
        Where rows belong to persons, COUNT(DISTINCT person) counts them, far more sharply than COUNT(*) counts rows;
        SELECT /*+ PER_PERSON(3) */ counts and sums at most 3 rows of each."""
        table, size, cost = self._desk.sql(sql, within)
        with self._bill(cost).charging():
            return self._table(sql, table, size, cost)

    def _bill(self, cost: float) -> Bill:
        return Bill(cost=cost, unit=self._desk.allowance().unit)

    def _table(self, sql: str, table: pa.Table, size: int, cost: float) -> CallToolResult:
        """The table of a statement."""
        shown = table.slice(0, MOST_ROWS)
        heads, rows, _ = written(shown)
        lines = [" | ".join(row) for row in (heads, *rows)]
        lines.append(f"Of {counted(size, 'row')}; ± for {holding(table)}, with 95%.")
        if shown.num_rows < table.num_rows:
            lines.append(_more(table.num_rows))
        columns = [[plain_value(value) for value in column.to_pylist()] for column in shown.columns]
        plain = {
            "columns": table.column_names,
            "rows": [list(row) for row in zip(*columns, strict=True)],
            "all_rows": table.num_rows,
            "margins": holding(table),
            "size": size,
        }
        if opening(sql).explain:
            price = _amount(table["unit"][0].as_py(), table["price"][0].as_py())
            lines[-1] = f"Nothing was asked or charged: asking would cost {price} at most."
            return self._said("\n".join(lines), plain)
        return self._said("\n".join(lines), plain, cost)

    def _said(self, text: str, plain: dict[str, Any], cost: float | None = None) -> CallToolResult:
        """A result, with its cost and the budget at its end."""
        allowance = self._desk.allowance()
        lines = [cut(text)]
        if cost is not None:
            lines.append(f"Cost: {_amount(allowance.unit, cost)}." if cost else "Free.")
            plain = {**plain, "cost": cost}
        lines.append(f"Left: {allowance}.")
        return result("\n".join(lines), {**plain, "budget": plain_budget(allowance)})


# -- refusals that teach -----------------------------------------------------------------------------------------------


def mistake(detail: str) -> CallToolResult:
    """A call of another form than the tools have."""
    return result(f"{detail}\nNothing was charged.", {"error": "bad_call", "detail": detail}, failed=True)


def unexpected(cause: BaseException | None) -> CallToolResult:
    """A failure whose words are not shown; what was charged before it is."""
    plain: dict[str, Any] = {"error": "unexpected", "detail": UNEXPECTED}
    bill = getattr(cause, "bill", None)
    if isinstance(bill, Bill):
        return result(f"{UNEXPECTED}\n{bill.words()}", {**plain, "cost": bill.cost}, failed=True)
    return result(UNEXPECTED, plain, failed=True)


def refusal(desk: Desk, error: TreeringError, given: dict[str, Any]) -> CallToolResult:
    """What was wrong, what would be right, what is left, and what is free."""
    lines = [str(error)]
    plain: dict[str, Any] = {"error": code_of(error), "detail": str(error)}
    if isinstance(error, QueryError | ParameterError):
        right = example(desk.schema)
        lines.append(f"The attributes are {', '.join(desk.schema.names)}. A predicate that is right: {right}")
        plain["right"] = right
    if isinstance(error, BudgetExceeded | QuotaExceeded):
        known = free_groups(desk.status())
        lines += [*_margin_lines(desk, given.get("queries"), given.get("sql")), *_free_lines(known)]
        plain["free"] = known
    if error.answers:
        released = [each for each in error.answers if isinstance(each, Answer)]
        asked = given.get("queries", ())[: len(released)]
        lines += ["Answered before that, and paid for:", *map(said, asked, released)]
        plain["answers"] = [plain_answer(query, each) for query, each in zip(asked, released, strict=True)]
    allowance = desk.allowance()
    text = "\n".join([cut("\n".join(lines)), _charge(error)])
    if error.bill is not None:
        plain["cost"] = error.bill.cost
    return result(f"{text}\nLeft: {allowance}.", {**plain, "budget": plain_budget(allowance)}, failed=True)


def _charge(error: TreeringError) -> str:
    if error.bill is not None:
        return error.bill.words()
    return "Nothing else was charged." if error.answers else "Nothing was charged."


def _margin_lines(desk: Desk, queries: Sequence[str] | None, sql: str | None) -> list[str]:
    """The margin with which the same question would be covered."""
    size, left = desk.status()["size"], desk.allowance().left
    margin = fitting(lambda within: _priced(desk, queries, sql, within).most, left, size)
    words = f"The same with within={margin} rows would be {'covered' if left else 'free'}."
    return [words] if margin else []


def _priced(desk: Desk, queries: Sequence[str] | None, sql: str | None, within: float | None) -> Price:
    return desk.price(queries or (), within) if sql is None else desk.price_sql(sql, within)


def fitting(price: Callable[[float], float], left: float, size: int) -> int | None:
    """The smallest of the margins 1, 2, 5, 10, 20, 50, … rows whose price is covered, if one is.

    >>> fitting(lambda within: 100 / within**2, left=0.5, size=1000)
    20
    """
    margins = [digit * 10**power for power in range(len(str(size))) for digit in (1, 2, 5) if digit * 10**power <= size]
    low, high = 0, len(margins)
    while low < high:
        middle = (low + high) // 2
        try:
            covered = price(margins[middle]) <= left
        except BudgetExceeded:
            covered = False
        low, high = (low, middle) if covered else (middle + 1, high)
    return margins[low] if low < len(margins) else None


def free_groups(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The attributes whose groups are released for the present size, each with the margin of one group in rows."""
    series = [each for mechanism in status["mechanisms"] for each in mechanism.get("series") or ()]
    return [
        {"attributes": each["attributes"], "margin": each["margin"]}
        for each in series
        if each["size"] == status["size"]
    ][:MOST_VALUES]


def _free_lines(known: Sequence[dict[str, Any]]) -> list[str]:
    if not known:
        return ["Nothing is measured yet: every question is new."]
    groups = "; ".join(f"{' × '.join(each['attributes'])} (± {readable(each['margin'], 2)} rows)" for each in known)
    return [f"Measured already, and free to ask again: {groups}; sums of such groups are free within a wider margin."]


def code_of(error: TreeringError) -> str:
    """The name of an error for programs.

    >>> code_of(BudgetExceeded("rho", spent=0, requested=2, total=1))
    'budget_exceeded'
    """
    name = type(error).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


# -- results -----------------------------------------------------------------------------------------------------------


def result(text: str, plain: dict[str, Any], *, failed: bool = False) -> CallToolResult:
    """A result, as text and as plain values."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain, is_error=failed)


def said(query: str, answer: Answer) -> str:
    """An answer in a line."""
    return (
        f"{query}: {counted(answer.count, 'row')} ± {answer.count_margin:,} of {answer.size:,} "
        f"({answer.value:.2%} ± {answer.margin:.2%}, 95%); ± {answer.count_error:,} for all answers together; "
        f"{answer.kind}"
    )


def plain_answer(query: str, answer: Answer) -> dict[str, Any]:
    """An answer as plain values."""
    return {
        "query": query,
        "count": answer.count,
        "count_margin": answer.count_margin,
        "count_error": answer.count_error,
        "value": answer.value,
        "margin": answer.margin,
        "error": answer.error,
        "kind": answer.kind,
        "of": answer.of,
    }


def plain_budget(allowance: Allowance) -> dict[str, Any]:
    """What is left, as plain values."""
    return {
        "unit": allowance.unit,
        "left": allowance.left,
        "quota_left": allowance.quota_left,
        "answers_left": allowance.answers_left,
        "promise_left": allowance.promise_left,
        "promise": allowance.promise,
        "resets": allowance.resets,
    }


def example(schema: Schema) -> str:
    """A predicate that the schema understands: the first value of the first attribute."""
    return str(Query.conjunction(schema, {0: np.arange(schema.shape[0]) == 0}))


def cut(text: str) -> str:
    """A text of at most `MOST_TEXT` characters."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… (cut: {len(text):,} characters)"


def _more(rows: int) -> str:
    return (
        f"These are the first {MOST_ROWS:,} of {rows:,} rows. All of them are released: ask for the others with WHERE, "
        "or with LIMIT and OFFSET, for nothing until rows come."
    )


def _attribute(schema: Schema, name: str) -> dict[str, Any]:
    attribute = schema.attributes[name]
    values = [plain_value(attribute.label(code)) for code in range(min(attribute.size, MOST_VALUES))]
    return {"name": name, "kind": attribute.to_dict()["kind"], "size": attribute.size, "values": values}


def _amount(unit: str, value: float) -> str:
    return f"{unit} {readable(value)}"


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'
