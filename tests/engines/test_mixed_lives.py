"""Lives of vaults in which rows come, the schema is refined, mechanisms of groups and of cells are asked and added, and
the vault is opened again, in any order: every answer is that of a plain list of rows, wherever the rows lie.

Budgets are so large that noise hides nothing: a row that is counted twice, or not at all, is seen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.engines import Embedded, Stage
from treering.domain.attribute import Categories
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.trusted.rows.kept import Rows

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", strict=False),
        "cost": tr.numbers(0, 100, step=0.5, edges=[0, 50, 100]),
        "code": tr.integers(0, 3, strict=False),
    }
)
KINDS = {"id": pa.int64(), "ward": pa.string(), "cost": pa.float64(), "code": pa.int64()}
WARDS = ("north", "south", "w2", "w3", "it's", "", None)
COSTS = (
    0.0,
    -0.0,
    12.25,
    37.25,
    37.250000000000004,
    50.0,
    62.125,
    100.0,
    1e9,
    -7.5,
    math.inf,
    -math.inf,
    math.nan,
    None,
)
CODES = (0, 1, 2, 3, -1, 4, 2**40, None)
Row = dict[str, Any]
SURE: dict[str, Any] = {"alpha": 0.3, "beta": 1e-9}
"""Of PMWG: what it promises fails in no run of the tests."""
FIRST = 400
"""The first rows of a life: so many that PMWG can begin."""


@dataclass(frozen=True)
class Question:
    """A predicate, and what it says in Python; ``since`` is the first version that tells it."""

    text: str
    holds: Callable[[Row], bool]
    cells: bool = True
    """Whether it is a union of cells: mechanisms of cells answer it."""
    since: int = 1


QUESTIONS = (
    Question("ward = 'north'", lambda row: row["ward"] == "north"),
    Question("ward IS NULL OR code IS NULL", lambda row: row["ward"] is None or row["code"] is None),
    Question("cost >= 50", lambda row: cost(row) >= 50),
    Question("code >= 2 AND ward <> 'south'", lambda row: above(row, 2) and row["ward"] not in ("south", None)),
    Question("cost <= 37.25", lambda row: cost(row) <= 37.25, cells=False),
    Question("cost < 37.25 AND code = 1", lambda row: cost(row) < 37.25 and row["code"] == 1, cells=False),
    Question("cost > 62.125", lambda row: cost(row) > 62.125, cells=False),
    Question("cost BETWEEN 12.25 AND 62.1", lambda row: 12.25 <= cost(row) <= 62.1, cells=False),
    Question("ward = 'w2'", lambda row: row["ward"] == "w2", since=2),
    Question("ward IN ('w3', 'south')", lambda row: row["ward"] in ("w3", "south"), since=3),
    Question("cost < 12.25", lambda row: cost(row) < 12.25, since=2),
    Question("code < 0", lambda row: row["code"] is not None and row["code"] < 0),
)
CHANGES: tuple[dict[str, Any], ...] = (
    {"add": {"ward": ["w2"]}, "edges": {"cost": [12.25]}},
    {"add": {"ward": ["w3"]}, "bounds": {"code": (-2, 5)}},
    {"edges": {"cost": [37.25, 62.125]}, "attributes": {"dear": tr.bins([0, 90], column="cost", strict=False)}},
)


def cost(row: Row) -> float:
    """The cost; NaN where it is missing."""
    return math.nan if row["cost"] is None else float(row["cost"])


def above(row: Row, least: int) -> bool:
    return row["code"] is not None and row["code"] >= least


def drawn(generator: np.random.Generator, first: int, rows: int) -> list[Row]:
    """Rows of values that are nasty together."""

    def some(values: tuple[Any, ...]) -> Any:
        return values[generator.integers(len(values))]

    return [
        {"id": first + place, "ward": some(WARDS), "cost": some(COSTS), "code": some(CODES)} for place in range(rows)
    ]


def table(rows: list[Row]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in KINDS}
    return pa.table({name: pa.array(columns[name], kind, from_pandas=False) for name, kind in KINDS.items()})


@dataclass
class Life:
    """A vault, and the plain list of its rows."""

    place: Path
    stage: Stage
    generator: np.random.Generator
    plain: list[Row] = field(default_factory=list)
    opened: dict[str, int] = field(default_factory=dict)
    """The version that each mechanism of cells was opened with."""
    version: int = 1

    def __post_init__(self) -> None:
        self.stage.create(table([]))
        given = {} if isinstance(self.stage, Embedded) else {"table": self.stage.source}
        self.vault = tr.Vault.create(self.place, SCHEMA, 10.0**8, 1e-6, share=0.3, mechanism="rings", **given)
        self.grow(FIRST)
        self.add("continual")

    # -- what happens -------------------------------------------------------------------------------------------------

    def grow(self, number: int | None = None) -> None:
        """Rows come, or none."""
        number = int(self.generator.choice([0, 1, 7, 60])) if number is None else number
        rows = drawn(self.generator, len(self.plain), number)
        if isinstance(self.stage, Embedded):
            self.vault.append(table(rows))
        else:
            if rows:
                self.stage.add(table(rows))
            self.vault.refresh()
        self.plain += rows

    def refine(self) -> None:
        """The next version, while there is one."""
        if self.version <= len(CHANGES):
            self.vault.refine(**CHANGES[self.version - 1])
            self.version += 1

    def add(self, kind: str) -> None:
        """A mechanism of cells, opened with the version that there is."""
        if len(self.opened) < 5:
            name = f"{kind}{len(self.opened)}"
            options = SURE if kind == "pmwg" else {}
            self.opened[self.vault.add(kind, 0.1, name=name, **options)] = self.version

    def reopen(self) -> None:
        """The vault is closed, and opened."""
        self.vault.close()
        address = None if isinstance(self.stage, Embedded) or isinstance(self.stage.source, str) else self.stage.source
        self.vault = tr.Vault.open(self.place, table=address)

    def ask(self) -> None:
        """Questions to rings, and to a mechanism of cells."""
        if not self.plain:
            return
        known = [each for each in QUESTIONS if each.since <= self.version]
        for question in [known[place] for place in self.generator.choice(len(known), 3, replace=False)]:
            self.check(question, "rings")
            for name, version in self.opened.items():
                if question.cells and question.since <= version:
                    self.check(question, name)

    def check(self, question: Question, mechanism: str) -> None:
        """An answer is the recount to less than a row; of PMWG, which spends no more than its alpha needs, to its own
        error."""
        answer = self.vault.ask(question.text, mechanism=mechanism)
        expected = sum(map(question.holds, self.plain))
        assert answer.size == len(self.plain)
        most = answer.error * answer.size if mechanism.startswith("pmwg") else 0.5
        assert abs(answer.value * answer.size - expected) <= most, (question.text, mechanism)

    def sums(self) -> None:
        """Counts and sums by group, through SQL."""
        if not self.plain:
            return
        text = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM t WHERE code >= 0 GROUP BY ward"
        found = {row["ward"]: (row["n"], row["s"] or 0) for row in self.vault.sql(text, mechanism="rings").to_pylist()}
        ward = self.vault.schema.attributes["ward"]
        assert isinstance(ward, Categories)
        rows = [row for row in self.plain if above(row, 0)]
        for value in ward.values:
            own = [row for row in rows if row["ward"] == value]
            total = sum(min(max(cost(row), 0.0), 100.0) for row in own if not math.isnan(cost(row)))
            assert found[value][0] == len(own)
            assert abs(found[value][1] - total) <= 0.25 * len(own) + 0.5

    # -- what must be so ----------------------------------------------------------------------------------------------

    def recount(self) -> None:
        """The rows of the vault, under every version that is counted, and in its batches."""
        ends = [batch.size for batch in self.vault._store.record.batches]
        assert self.vault.size == len(self.plain)
        recount(self.vault._store._rows, self.plain, ends, self.generator)


def recount(rows: Rows, plain: list[Row], ends: list[int], generator: np.random.Generator) -> None:
    """Counts of all cells are those of the plain list, and so are those of intervals between ends of batches."""
    assert rows.size == len(plain)
    for lens in {*rows._cells, rows.schema}:
        counted = np.bincount([cell(lens, row) for row in plain], minlength=lens.cells)
        assert (rows.cells_of(lens).marginal(tuple(range(len(lens.shape)))).reshape(-1) == counted).all()
    known = sorted({0, *ends})
    edges = sorted(generator.choice(known, min(len(known), 4), replace=False).tolist())
    if len(edges) > 1:
        leaf, place, number = rows.tally(Groups.cells(rows.schema), edges)
        found = dict(zip(zip(leaf.tolist(), place.tolist(), strict=True), number.tolist(), strict=True))
        expected: Counter[tuple[int, int]] = Counter()
        for part, (start, end) in enumerate(pairwise(edges)):
            expected.update((part, cell(rows.schema, row)) for row in plain[start:end])
        assert found == expected


def cell(lens: Schema, row: Row) -> int:
    """The cell of a row, by the schema's own words for public values."""
    return lens.cell({name: row[attribute.column or name] for name, attribute in lens.attributes.items()})


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def seed() -> int:
    """Of the life; a test may have several."""
    return 99


@pytest.fixture
def life(store: Stage, tmp_path: Path, seed: int) -> Iterator[Life]:
    made = Life(tmp_path / "vault", store, np.random.default_rng(seed))
    yield made
    made.vault.close()


LIVES = [*((store, seed) for store in ("embedded", "duckdb") for seed in range(4)), ("parquet", 0), ("postgres", 1)]


@pytest.mark.parametrize(("store", "seed"), LIVES, indirect=["store"])
def test_any_life_is_that_of_a_plain_list(life: Life) -> None:
    works: list[Callable[[], None]] = [
        life.grow,
        life.refine,
        life.reopen,
        life.ask,
        life.sums,
        lambda: life.add("continual"),
        lambda: life.add("pmwg"),
    ]
    for number in range(30):
        chances = [0.35, 0.08, 0.07, 0.3, 0.1, 0.05, 0.05]
        works[life.generator.choice(len(works), p=chances)]()
        if number % 5 == 4:
            life.recount()
    life.ask()
    life.recount()
    assert life.vault.verify()["size"] == len(life.plain)


def test_each_once_in_every_engine(life: Life) -> None:
    """Thresholds, and a refinement, before and after rows came."""
    for work in (
        life.grow,
        life.grow,
        life.ask,
        life.refine,
        life.sums,
        life.grow,
        life.reopen,
        life.ask,
        life.recount,
    ):
        work()


@pytest.mark.parametrize(
    ("store", "seed"), [(store, seed) for store in ("embedded", "duckdb") for seed in range(3)], indirect=["store"]
)
def test_any_life_in_memory_is_that_of_a_plain_list(store: Stage, seed: int) -> None:
    """The same without a vault, where what counts cells comes at any time beside what counts groups."""
    generator = np.random.default_rng(seed)
    plain = drawn(generator, 0, FIRST)
    store.create(table(plain))
    db = store.database(SCHEMA)
    ends = [FIRST]
    asked: list[Any] = [tr.Rings(db, 10.0**8)]
    for number in range(25):
        work = generator.choice(["grow", "ask", "open", "recount"], p=[0.4, 0.35, 0.1, 0.15])
        if work == "grow":
            rows = drawn(generator, len(plain), int(generator.choice([1, 7, 60])))
            store.add(table(rows))
            store.refresh(db)
            plain += rows
            ends.append(len(plain))
        elif work == "open" and len(asked) < 5:
            asked.append(tr.ContinualHistogram(db, 10.0**8) if number % 2 else tr.PMWG(db, 10.0**8, **SURE))
        elif work == "ask" and plain:
            question = QUESTIONS[generator.integers(4)]
            for each in asked:
                answer = each.ask(question.text)
                most = answer.error * answer.size if isinstance(each, tr.PMWG) else 0.5
                assert abs(answer.value * len(plain) - sum(map(question.holds, plain))) <= most
        recount(db._rows, plain, ends, generator)
