"""Those that answer in this environment: treering's default, and policies of others over the same exact noise.

Each takes a case and returns the answers to its questions, in rows, in the order in which they are asked. None sees the
questions of later batches unless its docstring says that it is told.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import treering as tr
from benchmarks.peers.cases import BATCHES, DELTA, EPSILON, RHO, Case, Floats, read
from treering.noise import Gaussian
from treering.trusted.noise import draw

Answerer = Callable[[Case], Floats | str]
"""Answers, or why there are none."""

EXACT_CELLS: Final = 2**12


def default(case: Case) -> Floats:
    """`tr.Vault.create(path, schema, epsilon, delta)` and questions: nothing is told, nothing tuned."""
    return _vault(case)


def told(case: Case) -> Floats:
    """The same with ``pace``, about how many groups of questions there will be, as others are told their number: all
    questions where they are asked one by one, the sets of attributes that are not in others where they are lists."""
    sets = {frozenset(query.attributes) for asked in case.asked for query in asked}
    widest = [each for each in sets if not any(each < other for other in sets)]
    return _vault(case, pace=len(widest) if case.together else case.questions)


def _vault(case: Case, **options: Any) -> Floats:
    found: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        tr.Vault.create(Path(folder) / "vault", case.schema, EPSILON, DELTA, **options) as vault,
    ):
        for batch, asked in zip(case.batches, case.asked, strict=True):
            vault.append(_frame(case.schema, batch))
            answers = vault.ask_many(asked) if case.together else [vault.ask(query) for query in asked]
            found += [answer.value * vault.size for answer in answers]
    return np.array(found)


def _frame(schema: tr.Schema, cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> object:
    import pyarrow as pa

    codes = np.unravel_index(cells, schema.shape)
    return pa.table(dict(zip(schema.names, codes, strict=True)))


def continual(case: Case) -> Floats | str:
    """ContinualHistogram: every cell kept current; neither told the number of batches nor of questions."""
    if case.cells > EXACT_CELLS:
        return f"not run above {EXACT_CELLS:,} cells: to draw its exact noise would take minutes"
    db, made, found = tr.GrowingDatabase(case.schema), None, []
    for batch, asked in zip(case.batches, case.asked, strict=True):
        db.append_cells(batch)
        made = made or tr.ContinualHistogram(db, tr.Promise(EPSILON, DELTA))
        found.append(_clipped(read(case.schema, made.counts(), asked), db.size))
    return np.concatenate(found)


# -- policies ----------------------------------------------------------------------------------------------------------


def noise_told(case: Case) -> Floats:
    """Gaussian noise for each question, told how many there will be: an even part of the budget each."""
    return _noisy(case, np.full(case.questions, RHO / case.questions))


def noise_untold(case: Case) -> Floats:
    """The same, not told: question j gets 1/(j(j+1)) of the budget, which is all of it in the end."""
    places = np.arange(1, case.questions + 1)
    return _noisy(case, RHO / (places * (places + 1)))


def _noisy(case: Case, prices: Floats) -> Floats:
    """A count with Gaussian noise of variance σ² costs 1/(2σ²), where a row is replaced."""
    truths, sizes = np.concatenate(case.truths), _sizes(case)
    noise = np.array([draw(Gaussian(math.sqrt(1 / (2 * price))), 1, 1)[0] for price in prices.tolist()])
    told: Floats = np.clip(truths + noise, 0, sizes)
    return told


def histogram_told(case: Case) -> Floats:
    """Noise in every cell, anew after each batch, told their number; the total is set right."""
    return _from_tables(case, [math.sqrt(BATCHES / RHO)] * BATCHES)


def histogram_untold(case: Case) -> Floats:
    """The same, not told: batch j gets 1/(j(j+1)) of the budget."""
    return _from_tables(case, [math.sqrt(j * (j + 1) / RHO) for j in range(1, BATCHES + 1)])


def _from_tables(case: Case, scales: Sequence[float]) -> Floats:
    found = []
    for table, scale, asked in zip(case.histograms, scales, case.asked, strict=True):
        noisy = table + _drawn(scale, case.cells)
        size = int(table.sum())
        centred = noisy - (noisy.sum() - size) / case.cells
        found.append(_clipped(read(case.schema, centred, asked), size))
    return np.concatenate(found)


def _drawn(scale: float, number: int) -> Floats:
    """Exact noise; for very many cells, where scales are of thirty rows and more, normal noise stands for it."""
    if number <= EXACT_CELLS:
        return draw(Gaussian(scale), 1, number).astype(np.float64)
    return np.random.default_rng().normal(scale=scale, size=number)


def cachedp(case: Case) -> Floats:
    """CacheDP's policy, told how many batches there will be, with the best accuracy that its budget lasts for.

    (Mazmudar et al., VLDB 2022.) An analyst states an accuracy, here one deviation for all. A question is answered from
    noisy counts of the joint values of its attributes, its strategy. Cached counts that are sharp enough are free
    (*modified matrix mechanism*); those that are not are refined for the difference (*relax privacy*, which under zCDP
    costs just that); all joint values are measured with those that are needed, at no cost (*strategy expander* and
    *proactive querying*: they are disjoint). The cache is about one table: when rows come it is empty again, and the
    budget is split over batches. The deviation is the least, in hindsight, with which no question is refused.
    """
    found = []
    for table, asked in zip(case.histograms, case.asked, strict=True):
        found.append(_cached(case, table, asked))
    return np.concatenate(found)


def _cached(case: Case, table: np.ndarray[tuple[int, ...], np.dtype[np.int64]], asked: Sequence[tr.Query]) -> Floats:
    """One batch. A count of k joint values has deviation 1 if each has variance 1/k, which costs k."""
    prices: dict[tuple[int, ...], int] = {}
    for query in asked:
        prices[query.attributes] = max(prices.get(query.attributes, 0), _matching(query))
    deviation = math.sqrt(sum(prices.values()) * BATCHES / RHO)
    cube = table.reshape(case.schema.shape)
    kept: dict[tuple[int, ...], Floats] = {}
    for attributes, price in prices.items():
        marginal = cube.sum(axis=tuple(set(range(cube.ndim)) - set(attributes)))
        kept[attributes] = marginal + draw(Gaussian(deviation / math.sqrt(price)), 1, marginal.size).reshape(
            marginal.shape
        )
    counts = [float((kept[query.attributes] * query.weights()).sum()) for query in asked]
    return _clipped(np.array(counts), int(table.sum()))


def _matching(query: tr.Query) -> int:
    return int(query.weights().sum())


def _clipped(counts: Floats, size: int) -> Floats:
    clipped: Floats = np.clip(counts, 0, size)
    return clipped


def _sizes(case: Case) -> Floats:
    return np.repeat(np.array(case.sizes, dtype=np.float64), [len(asked) for asked in case.asked])


def from_tables(case: Case, tables: Mapping[int, Floats]) -> Floats:
    """The answers of a peer whose tables of all cells were made after some batches; in between, shares stay."""
    return np.concatenate(list(_aged(case, tables)))


def _aged(case: Case, tables: Mapping[int, Floats]) -> Iterator[Floats]:
    for batch, (asked, size) in enumerate(zip(case.asked, case.sizes, strict=True)):
        made = max(at for at in tables if at <= batch)
        counts = read(case.schema, tables[made], list(asked)) * (size / case.sizes[made])
        yield _clipped(counts, size)


HERE: Final[dict[str, Answerer]] = {
    "treering": default,
    "treering, told the questions": told,
    "ContinualHistogram": continual,
    "noise per question, told": noise_told,
    "noise per question, untold": noise_untold,
    "noisy histogram, told": histogram_told,
    "noisy histogram, untold": histogram_untold,
    "CacheDP's policy": cachedp,
}
OURS: Final = ("treering", "treering, told the questions", "ContinualHistogram")
