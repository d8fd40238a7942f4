"""What requests and responses look like: pydantic checks the first, and OpenAPI is made of both."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from treering.domain.language.wants import ROWS, Wants
from treering.domain.text import MAX_LENGTH

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_LENGTH)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount: TypeAlias = float | None


MOST_NAMES: Final = 64
"""The most names of an object: each that is not known would be an error by itself."""


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, sent: Any) -> Any:
        if isinstance(sent, dict) and len(sent) > MOST_NAMES:
            raise ValueError(f"an object has at most {MOST_NAMES} names")
        return sent


class EraseBody(_Sent):
    """Rows to erase, by their keys or by their persons."""

    keys: Annotated[list[int | str], Field(fail_fast=True)] | None = Field(None, min_length=1)
    persons: Annotated[list[int | str], Field(fail_fast=True)] | None = Field(None, min_length=1)
    dry_run: bool = Field(False, description="Say what would happen; change nothing.")
    end: bool = Field(False, description="End series that have counted these rows.")


class AskBody(_Sent):
    """One question: a predicate, several of them, or an SQL statement."""

    query: Text | None = Field(None, description="A predicate: which rows to count.")
    queries: Annotated[list[Text], Field(fail_fast=True)] | None = Field(
        None, min_length=1, description="Predicates, paid for together."
    )
    sql: Text | None = Field(None, description="A SELECT of counts, sums, averages or quantiles.")
    within: Positive | None = Field(None, description="The margin wanted: rows, or below 1 a share of them.")
    mechanism: str | None = Field(None, min_length=1, max_length=200, description="Which mechanism answers.")
    dry_run: bool = Field(False, description="Only say what it could cost: free.")
    count: Literal["rows", "persons"] = Field(
        "rows", description="What to count: rows, or the persons that they are of."
    )
    per_person: int | None = Field(None, description="The most rows of each person that count.")
    estimate: bool = Field(False, description="Only guess, from earlier answers: free, and without a bound.")

    @model_validator(mode="after")
    def _one(self) -> AskBody:
        if sum(each is not None for each in (self.query, self.queries, self.sql)) != 1:
            raise ValueError("send one of query, queries and sql")
        if self.sql is not None and self.count != "rows":
            raise ValueError("count is for predicates: a statement counts persons by COUNT(DISTINCT person)")
        other = self.sql is not None or self.dry_run or self.within is not None or self.wants != ROWS
        if self.estimate and other:
            raise ValueError("estimate goes with query or queries alone")
        return self

    @property
    def wants(self) -> Wants:
        """What is counted."""
        return Wants(self.count, self.per_person)


class PlanBody(_Sent):
    """What to plan for; what is left out is the vault's own. Of size, epsilon and alpha two are given."""

    cells: Annotated[int, Field(ge=1, le=2**62)] | None = None
    size: Annotated[int, Field(ge=1, le=2**60)] | None = None
    epsilon: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    delta: Annotated[float, Field(ge=0, le=0.5)] | None = None
    beta: Annotated[float, Field(ge=1e-12, le=0.5)] = 0.05
    queries: Annotated[float, Field(ge=1, le=1e18)] | None = Field(100, description="How many; null: without end.")
    horizon: Annotated[float, Field(ge=1, le=2**60)] | None = Field(
        None, description="The largest size; null: for ever."
    )
    grows: bool = Field(True, description="False if the data do not grow.")
    alpha: Annotated[float, Field(ge=1e-6, lt=1)] | None = None


Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Listed: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000)] | bool | int


class RefineBody(_Sent):
    """The next version of the schema: what is new in it."""

    add: dict[Name, Annotated[list[Listed], Field(min_length=1, max_length=10_000)]] = Field(
        default_factory=dict, description="Values to list, by attribute."
    )
    edges: dict[Name, Annotated[list[float], Field(min_length=1, max_length=10_000)]] = Field(
        default_factory=dict, description="More edges of numbers and bins."
    )
    until: dict[Name, Annotated[str, Field(max_length=40)]] = Field(
        default_factory=dict, description="A later last date."
    )
    bounds: dict[Name, Annotated[list[float], Field(min_length=2, max_length=2)]] = Field(
        default_factory=dict, description="A wider range: low and high."
    )
    attributes: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="More attributes, of columns that are kept, as `schema` shows them."
    )
    discovered: Annotated[list[Name], Field(max_length=64)] = Field(
        default_factory=list, description="Attributes that are to list what `discover` has told of them."
    )


class DiscoverBody(_Sent):
    """Which column to look at, in which rows, for which price."""

    column: Name
    share: Annotated[float, Field(gt=0, le=1)] = Field(0.02, description="What the rows pay, of the promise.")
    rows: Annotated[list[Annotated[int, Field(ge=0, le=2**60)]], Field(min_length=2, max_length=2)] | None = Field(
        None, description="The rows after the first of two positions, up to the second; null: all."
    )
    mechanism: Name | None = None


class QuotaBody(_Sent):
    """What an analyst may use within a week; null for no limit."""

    answers: Annotated[int, Field(ge=0, le=10**12)] | None = Field(None, description="Answers that cost something.")
    budget: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="A part of the whole budget; with answers, null is 0.05."
    )


class TokenBody(_Sent):
    """A token to be made."""

    name: str = Field(min_length=1, max_length=100, description="Whose it is, for people.")
    role: Literal["analyst", "steward"] = "analyst"
    lifetime: Annotated[float, Field(ge=1, le=3e8)] | None = Field(
        None, description="Seconds until it expires; null: never."
    )
    quota: QuotaBody = Field(default_factory=lambda: QuotaBody(answers=None, budget=None))


class LoginBody(_Sent):
    """A token that begins a session of the page."""

    token: str = Field(min_length=1, max_length=200)


# -- responses ---------------------------------------------------------------------------------------------------------


class _Told(BaseModel):
    pass


class OneAnswer(_Told):
    """An answer, without its price."""

    value: float
    margin: float
    error: float
    count: int
    count_margin: int
    count_error: int
    size: int
    kind: Literal["easy", "hard", "measured", "cached", "synthetic", "estimate"]
    of: str = Field(description="What is counted; size is the number of all rows, or of all persons.")


class QuotaLeft(_Told):
    """What is left of a quota this week; null where there is no limit."""

    answers_left: int | None
    budget_left: float | None
    frees: str | None


class Costs(_Told):
    """What a question has cost, and what is left."""

    cost: float
    remaining: Amount
    unit: Literal["epsilon", "rho"]
    total: float
    epsilon: float
    settled: bool
    quota: QuotaLeft | None


class AnswerTold(OneAnswer, Costs):
    """The answer to one predicate."""

    question: str


class AnswersTold(Costs):
    """The answers to several predicates, in their order."""

    answers: list[OneAnswer]


class TableTold(Costs):
    """The table that answers a statement: a column ``…_margin`` follows each number with noise."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    margins: str | None
    size: int


class DiscoveredTold(_Told):
    """The values that were found, each with its noisy count and the margin of that."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    margins: str | None
    size: int
    remaining: Amount
    unit: Literal["epsilon", "rho"]


class PriceTold(_Told):
    """What a question could cost."""

    mechanism: str
    most: float
    remaining: float
    unit: Literal["epsilon", "rho"]
    enough: bool
    exact: bool
    total: float
    epsilon: float
    settled: bool


class QuotaTold(_Told):
    """A quota, and what of it is used within the last week."""

    answers: int | None
    budget: float | None
    answers_used: int
    budget_used: float
    frees: str | None


class TokenTold(_Told):
    """A token, without the text that proves it."""

    id: str
    name: str
    role: Literal["analyst", "steward"]
    created: str
    expires: str | None
    revoked: str | None
    quota: QuotaTold


class NewTokenTold(TokenTold):
    """A new token: its text is shown this once."""

    token: str


class TokensTold(_Told):
    """All tokens."""

    tokens: list[TokenTold]


class RowsTold(_Told):
    """What was taken in, and the size now."""

    size: int
    rows: int
    dropped: int
    known: bool = Field(description="Whether these rows came with this key before: then nothing has changed now.")
    columns: dict[str, dict[str, int]] = Field(
        description="For each column, how many values were unlisted, missing or outside: for the steward alone."
    )


class HeldTold(_Told):
    """A series that has counted some of the rows: its margins are wider by as many, or it is ended."""

    mechanism: str
    series: int
    attributes: list[str]
    rows: int
    margin: float = Field(description="Of the count of one of its groups, now, in rows.")


class ChangeTold(_Told):
    """What erasing or correcting rows has done, or would do."""

    rows: int
    size: int
    done: bool = Field(description="False for a dry run.")
    ended: bool
    held: list[HeldTold]


class LedgerTold(_Told):
    """Lines of the ledger, oldest first; ``next`` is what to ask for with ``after``, or null."""

    lines: list[dict[str, Any]]
    next: int | None
    entries: int


class SchemaTold(_Told):
    """The schema, and for each attribute what one may type."""

    schema_: dict[str, Any] = Field(alias="schema")
    fingerprint: str
    cells: int
    attributes: list[dict[str, Any]]


class ProblemTold(_Told):
    """What went wrong (RFC 9457): ``code`` is for programs, ``detail`` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    cost: float | None = Field(None, description="What was charged before it went wrong; absent if nothing was.")
    remaining: Amount = Field(None, description="What was left of the whole promise then.")


EXAMPLES: Final = {
    "predicate": {"summary": "A count", "value": {"query": "origin = 'JFK' AND delay >= 60"}},
    "batch": {"summary": "Several", "value": {"queries": ["delay >= 60", "delay >= 15"], "within": 0.01}},
    "sql": {"summary": "A table", "value": {"sql": "SELECT month, COUNT(*) FROM t GROUP BY month"}},
    "price": {"summary": "What it costs, for free", "value": {"query": "delay >= 60", "dry_run": True}},
}
