"""Turbo's Covid workload: the epsilon that treering needs for the same promise, planned before the data are seen.

    python -m experiments.turbo_covid [--quick] [--seed N]

Turbo (SOSP 2023) is a cache of private answers. Its workload, as its authors evaluate it: 128 cells (test result,
gender, age group, ethnicity), blocks of 1,008,532 rows, and a pool of 34,425 conjunctions, every non-empty set of
values of each attribute; errors of at most α = 0.05, with β = 0.001, pure ε. The figures of Turbo and of an exact cache
are those that were measured for them on this workload; Turbo is not run here.

- *Static*: 70,000 questions, drawn uniformly or by Zipf(1), about one block.
- *Streaming*: 50 blocks, one after every 6,000 questions; a question is about the latest 1 to 50 blocks there are.
  The ε is an average per block.

Two choices are made beforehand, from public numbers alone, by `tr.plan`: the row with the least ε among those that
answer what is asked. Static, with the pool declared, that is ``HistogramBox(queries)``. Streaming, it is
``ContinualHistogram(windows=True)``, in which each block's rows pay for one count of their own block; it promises α for
*any* question about any period of whole blocks, and not for the pool alone.

What is promised differs, in Turbo's favour: Turbo promises each answer alone with 1 − β, treering all of them together,
and every other question of the pool. Neighbours: here one row is replaced, at a cost of 2/s for Laplace noise of scale
s. Where one row is added or removed it would cost 1/s, and half of the ε would do.

Claimed: at most 1/50 of Turbo's ε static, at most 1/10 streaming; every error of every question of the pool (streaming:
of every period, after every block) within α in all of 100 repetitions; and what `ask_many` says of a sample of
questions is what was checked. The quick run has one repetition, six blocks, and a smaller beta, for which it plans
another ε.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import treering as tr
from experiments.claims import Claims
from experiments.options import QUICK_BETA, options
from experiments.record import Record, Row, Values, column
from treering.pictures.svg import Dots, Line, Panel
from treering.theory.plan import PlanRow

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DATA: Final = Path(__file__).parent / "data" / "covid_blocks.npz"

SCHEMA: Final = tr.Schema(
    {
        "positive": tr.integers(0, 1),
        "gender": tr.integers(0, 1),
        "age": tr.integers(0, 3),
        "ethnicity": tr.integers(0, 7),
    }
)
ALPHA, BETA = 0.05, 0.001
STATIC_QUESTIONS, STREAM_QUESTIONS = 70_000, 300_000
REPETITIONS, QUICK_BLOCKS, SAMPLE = 100, 6, 200
TURBO: Final = {"static, uniform": 0.254, "static, Zipf": 0.178, "streaming, a block": 0.150}
CACHE: Final = {"static, uniform": 4.10, "static, Zipf": 1.91, "streaming, a block": 1.006}
OURS, RADIUS = "treering", 4.0
PART: Final = {"static, uniform": 1 / 50, "static, Zipf": 1 / 50, "streaming, a block": 1 / 10}


def blocks() -> Ints:
    """The histograms of the blocks."""
    with np.load(DATA) as kept:
        return np.asarray(kept["H"], dtype=np.int64)


# -- the pool ----------------------------------------------------------------------------------------------------------


def subsets(values: int) -> Floats:
    """All non-empty sets of so many values, a row of zeros and ones for each."""
    listed = list(product((0.0, 1.0), repeat=values))
    return np.array(listed[1:])


SETS: Final = tuple(subsets(size) for size in SCHEMA.shape)


def pool_answers(counts: Floats) -> Floats:
    """The sums of the cells of every question of the pool; ``counts`` may have further axes before those of the cells.

    Marginal algebra on what was released: the same as asking one by one, but for rounding.
    """
    found = counts.reshape(-1, *SCHEMA.shape)
    answers: Floats = np.einsum("nabcd,ia,jb,kc,ld->nijkl", found, *SETS, optimize=True)
    return answers.reshape(*counts.shape[: counts.ndim - len(SCHEMA.shape)], -1)


def pool_queries() -> list[tr.Query]:
    """The questions of the pool, in the same order."""
    values = [[np.flatnonzero(row).tolist() for row in sets] for sets in SETS]
    names = SCHEMA.names
    return [tr.Query.where(SCHEMA, **dict(zip(names, chosen, strict=True))) for chosen in product(*values)]


def drawn(number: int, pool: int, zipf: bool, generator: np.random.Generator) -> Ints:
    """Questions of the pool, uniformly or by Zipf(1) over an order drawn at random."""
    if not zipf:
        return generator.integers(pool, size=number)
    weights = 1 / np.arange(1, pool + 1)
    return generator.permutation(pool)[generator.choice(pool, size=number, p=weights / weights.sum())]


# -- the plans ---------------------------------------------------------------------------------------------------------


def static_plan(beta: float) -> PlanRow:
    """The row with the least epsilon for the pool, declared, about one block."""
    rows = int(blocks()[0].sum())  # Public: the size of a block.
    pool = math.prod(len(each) for each in SETS)
    made = tr.plan(SCHEMA.cells, rows, beta=beta, queries=pool, horizon=None, alpha=ALPHA, adaptive=False)
    return min(made.rows, key=lambda row: row.epsilon)


def streaming_plan(beta: float, number: int) -> PlanRow:
    """The row for questions about the latest blocks."""
    rows = int(blocks()[0].sum())
    made = tr.plan(
        SCHEMA.cells, rows, beta=beta, queries=math.inf, horizon=number * rows, alpha=ALPHA, batch=rows, delta=0.0
    )
    return made.row("ContinualHistogram(windows=True)")


# -- the runs ----------------------------------------------------------------------------------------------------------


class Found:
    """The errors of many answers."""

    def __init__(self) -> None:
        self.largest, self.total, self.number, self.differing = 0.0, 0.0, 0, 0.0

    def take(self, errors: Floats) -> None:
        """The errors of all questions of the pool."""
        self.largest = max(self.largest, float(errors.max()))

    def asked(self, errors: Floats) -> None:
        """The errors of questions that were drawn."""
        self.total, self.number = self.total + float(errors.sum()), self.number + errors.size

    def compare(self, answers: Sequence[tr.Answer], checked: Floats) -> None:
        """Answers beside what was checked in their place."""
        off = np.abs(np.array([answer.value for answer in answers]) - checked)
        self.differing = max(self.differing, float(off.max()))

    @property
    def mean(self) -> float:
        """The mean error of the questions that were drawn."""
        return self.total / self.number


def rows_of(block: Ints) -> Ints:
    """The rows of a block, as cells."""
    return np.repeat(np.arange(block.size), block.reshape(-1))


def static(row: PlanRow, beta: float, repetitions: int, zipf: bool, generator: np.random.Generator) -> Found:
    """Release one block again and again; every question of the pool is asked each time."""
    block = blocks()[0]
    size, truth = int(block.sum()), pool_answers(block.astype(np.float64))
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells(rows_of(block))
    queries, found = pool_queries(), Found()
    box = tr.HistogramBox(queries).bind(SCHEMA)
    for _ in range(repetitions):
        release = box.release(db, row.epsilon, 0.0, beta)
        values, stated = release.shares(queries)
        assert float(stated.max()) <= ALPHA
        errors = np.abs(values - truth / size)
        found.take(errors)
        found.asked(errors[drawn(STATIC_QUESTIONS, len(queries), zipf, generator)])
        sample = generator.integers(len(queries), size=SAMPLE)
        found.compare(release.ask_many([queries[each] for each in sample]), np.clip(values[sample], 0, 1))
    return found


def streaming(row: PlanRow, beta: float, repetitions: int, number: int, generator: np.random.Generator) -> Found:
    """All blocks, one by one; after each, every question of the pool about every period up to now."""
    given, queries, found = blocks()[:number], pool_queries(), Found()
    size = int(given[0].sum())
    cells = [rows_of(block) for block in given]
    truths = pool_answers(given.astype(np.float64))
    for repetition in range(repetitions):
        db = tr.GrowingDatabase(SCHEMA)
        histogram = tr.ContinualHistogram(db, row.epsilon, 0.0, beta, windows=True)
        for arrived, block in enumerate(cells, start=1):
            db.append_cells(block)
            since = [size * (arrived - latest) for latest in range(1, arrived + 1)]
            errors, values = _errors_after(histogram, since, truths[:arrived], size)
            found.take(errors)
            many = STREAM_QUESTIONS // number
            places = generator.integers(arrived, size=many), generator.integers(len(queries), size=many)
            found.asked(errors[places])
            if repetition % 10 == 0:
                _sample(histogram, since[0], values, queries, found, generator)
    return found


def _errors_after(
    histogram: tr.ContinualHistogram, since: Sequence[int], truths: Floats, size: int
) -> tuple[Floats, Floats]:
    """The error of every question about every period, and the answers about the latest block alone."""
    rows = size * np.arange(1, len(since) + 1)[:, None]
    counts = np.stack([histogram.counts(start) for start in since]).reshape(-1, *SCHEMA.shape)
    values = np.clip(pool_answers(counts) / rows, 0, 1)
    return np.abs(values - np.cumsum(truths[::-1], axis=0) / rows), values[0]


def _sample(
    histogram: tr.ContinualHistogram,
    since: int,
    values: Floats,
    queries: Sequence[tr.Query],
    found: Found,
    generator: np.random.Generator,
) -> None:
    """Ask some of the questions about the latest block, whose errors are the largest that are stated."""
    sample = generator.integers(len(queries), size=SAMPLE)
    asked = histogram.ask_many([queries[each] for each in sample], since=since)
    assert max(answer.error for answer in asked) <= ALPHA
    found.compare(asked, values[sample])


# -- the report --------------------------------------------------------------------------------------------------------


def measured(name: str, quick: bool, seed: int) -> Values:
    """One setting: the row that was planned for it, and what was found."""
    beta, repetitions = (QUICK_BETA, 1) if quick else (BETA, REPETITIONS)
    number = QUICK_BLOCKS if quick else len(blocks())
    generator = np.random.default_rng([seed, list(TURBO).index(name)])
    if name.startswith("static"):
        row = static_plan(BETA)
        found = static(static_plan(beta), beta, repetitions, name.endswith("Zipf"), generator)
    else:
        row = streaming_plan(BETA, len(blocks()))
        found = streaming(streaming_plan(beta, number), beta, repetitions, number, generator)
    return {
        "mechanism": row.use,
        "epsilon": row.epsilon,
        "turbo": TURBO[name],
        "exact_cache": CACHE[name],
        "ratio": TURBO[name] / row.epsilon,
        "repetitions": repetitions,
        "largest_error": found.largest,
        "mean_error": found.mean,
        "differing": found.differing,
        "alpha": ALPHA,
        "beta": BETA,
    }


def panels(rows: Sequence[Row]) -> list[Panel]:
    """What each needs, and the errors, setting by setting."""
    places = list(map(float, range(1, len(rows) + 1)))
    needs = (("exact_cache", "an exact cache", "#dc2626"), ("turbo", "Turbo", "#d97706"), ("epsilon", OURS, "#2563eb"))
    errors = (("largest_error", "#2563eb"), ("mean_error", "#059669"))
    settings = "1 and 2: static, uniform and Zipf; 3: streaming"
    return [
        Panel(
            "ε for errors within 0.05",
            settings,
            "ε; streaming: a block",
            [Dots(words, places, column(rows, name), colour, RADIUS) for name, words, colour in needs],
            y_log=True,
        ),
        Panel(
            "errors: the largest, blue; mean, green",
            settings,
            "share of the rows; dashes: promised",
            [
                Line("", places, [ALPHA] * len(rows), "#6b7280", "4 3"),
                *(Dots("", places, column(rows, name), colour, RADIUS) for name, colour in errors),
            ],
            y_log=True,
        ),
    ]


def check(rows: Sequence[Row]) -> Claims:
    """The claims."""
    claims = Claims()
    for row in rows:
        name = row["setting"]
        claims.at_most(f"{name}: epsilon, as a part of Turbo's", float(row["epsilon"]) / TURBO[name], PART[name])
        claims.at_most(f"{name}: the largest error", float(row["largest_error"]), ALPHA)
        claims.at_most(f"{name}: what ask_many says, less what was checked", float(row["differing"]), 1e-9)
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all claims hold, else 1."""
    given = options(__doc__, arguments)
    record = Record("turbo_covid", keep=not given.quick, resume=True)
    for name in TURBO:
        row = record.row({"setting": name}, partial(measured, name, given.quick, given.seed))
        print(
            f"{name}: {row['mechanism']}, epsilon {row['epsilon']}; Turbo {TURBO[name]:g}, exact cache {CACHE[name]:g}"
        )
        print(f"  the mean error of the questions drawn is {row['mean_error']}")
    record.finish("Turbo's Covid workload: 128 cells, 34,425 conjunctions", panels(record.rows))
    return check(record.rows).exit_code()


if __name__ == "__main__":
    sys.exit(main())
