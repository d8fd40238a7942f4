"""Those that answer in this environment: treering's default, and policies of others over the same exact noise.

Each takes a case and gives the answers to its questions, in rows, batch by batch. None sees the questions of later
batches unless its docstring says that it is told. Where questions repeat, each is asked once a batch: the same question
about the same rows has the same answer, for nothing, from everybody that has a cache.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import treering as tr
from benchmarks.peers.cases import BATCHES, DELTA, EPSILON, RHO, Case, Floats, Ints
from treering.domain.query import evaluate_many
from treering.noise import Gaussian
from treering.trusted.noise import draw

Answerer = Callable[[Case], Iterator[Floats]]


def default(case: Case) -> Iterator[Floats]:
    """`tr.Vault.create(path, schema, epsilon, delta)` and questions: nothing is told, nothing tuned."""
    return _vault(case)


def told(case: Case) -> Iterator[Floats]:
    """The same with ``pace``, about how many groups of questions there will be, as others are told their number: all
    questions where they are asked one by one, the sets of attributes that are not in others where they are lists."""
    sets = {frozenset(query.attributes) for query in case.pool}
    widest = [each for each in sets if not any(each < other for other in sets)]
    return _vault(case, pace=len(widest) if case.together else case.questions)


def _vault(case: Case, **options: Any) -> Iterator[Floats]:
    with (
        tempfile.TemporaryDirectory() as folder,
        tr.Vault.create(Path(folder) / "vault", case.schema, EPSILON, DELTA, **options) as vault,
    ):
        for batch, (places, which) in zip(case.batches, case.different, strict=True):
            vault.append(_frame(case.schema, batch))
            asked = [case.pool[place] for place in places.tolist()]
            answers = vault.ask_many(asked) if case.together else [vault.ask(query) for query in asked]
            yield np.array([answer.value for answer in answers])[which] * vault.size


def _frame(schema: tr.Schema, cells: Ints) -> object:
    import pyarrow as pa

    codes = np.unravel_index(cells, schema.shape)
    return pa.table(dict(zip(schema.names, codes, strict=True)))


def continual(case: Case) -> Iterator[Floats]:
    """ContinualHistogram: every cell kept current; neither told the number of batches nor of questions."""
    db, made = tr.GrowingDatabase(case.schema), None
    for number, batch in enumerate(case.batches):
        db.append_cells(batch)
        made = made or tr.ContinualHistogram(db, tr.Promise(EPSILON, DELTA))
        yield _clipped(case.read(number, made.counts()), db.size)


# -- policies ----------------------------------------------------------------------------------------------------------


def even(number: int) -> Floats:
    """An even part of the budget for each of so many questions."""
    return np.full(number, 1 / number)


def quickly(number: int) -> Floats:
    """1/(j(j+1)) of the budget for question j, which is all of it in the end: for those who do not know the number."""
    places = np.arange(1, number + 1)
    return 1 / (places * (places + 1))


def slowly(number: int) -> Floats:
    """The same with parts that fall more slowly, as 1/(j·log²(j+1)), of which all together are the budget."""
    places = np.arange(1, number + 1)
    parts: Floats = 1 / (places * np.log(places + 1) ** 2) / SLOWLY
    return parts


def _slow_sum() -> float:
    """The sum of 1/(j·log²(j+1)) over all j, from above: the rest is less than the integral of 1/(x·log²x)."""
    last = 10**6
    places = np.arange(1, last + 1)
    return float((1 / (places * np.log(places + 1) ** 2)).sum() + 1 / math.log(last))


SLOWLY: Final = _slow_sum()


def noise(parts: Callable[[int], Floats], *, cache: bool = False) -> Answerer:
    """Gaussian noise for each question; with a cache, one that was asked since the last batch costs nothing."""

    def answer(case: Case) -> Iterator[Floats]:
        asked = [places for places, _ in case.different] if cache else case.places
        prices = RHO * parts(sum(map(len, asked)))
        ends = np.cumsum([0, *map(len, asked)])
        for batch, (_, which) in enumerate(case.different):
            drawn = _gaussians(prices[ends[batch] : ends[batch + 1]])
            yield _clipped(case.truths[batch] + (drawn[which] if cache else drawn), case.sizes[batch])

    return answer


def _gaussians(prices: Floats) -> Floats:
    """A draw for each price: a count with Gaussian noise of variance σ² costs 1/(2σ²), where a row is replaced."""
    different, which = np.unique(prices, return_inverse=True)
    if len(different) == 1:
        return draw(Gaussian(math.sqrt(1 / (2 * different[0]))), 1, len(prices)).astype(np.float64)
    if len(different) <= MOST_SCALES:
        return np.array([draw(Gaussian(math.sqrt(1 / (2 * price))), 1, 1)[0] for price in prices.tolist()], dtype=float)
    # So many scales, all far above a row: rounded normal noise stands for the exact one, which is drawn one by one.
    return np.rint(np.random.default_rng().normal(scale=np.sqrt(1 / (2 * different))[which]))


MOST_SCALES: Final = 1000


def histogram(parts: Callable[[int], Floats]) -> Answerer:
    """Noise in every cell, anew after each batch; the total is set right."""

    def answer(case: Case) -> Iterator[Floats]:
        for batch, (table, price) in enumerate(zip(case.histograms, RHO * parts(BATCHES), strict=True)):
            # A replaced row moves two cells by one each.
            noisy = table + draw(Gaussian(math.sqrt(1 / price)), 1, case.cells)
            size = case.sizes[batch]
            yield _clipped(case.read(batch, noisy - (noisy.sum() - size) / case.cells), size)

    return answer


def cachedp(case: Case) -> Iterator[Floats]:
    """CacheDP's policy, told how many batches there will be, with the best accuracy that its budget lasts for.

    (Mazmudar et al., VLDB 2022.) An analyst states an accuracy, here one deviation for all. A question is answered from
    noisy counts of the joint values of its attributes, its strategy. Cached counts that are sharp enough are free
    (*modified matrix mechanism*); those that are not are refined for the difference (*relax privacy*, which under zCDP
    costs just that); all joint values are measured with those that are needed, at no cost (*strategy expander* and
    *proactive querying*: they are disjoint). The cache is about one table: when rows come it is empty again, and the
    budget is split over batches. The deviation is the least, in hindsight, with which no question is refused.
    """
    for (places, which), table in zip(case.different, case.histograms, strict=True):
        yield _cached(case, table, [case.pool[place] for place in places.tolist()])[which]


def _cached(case: Case, table: Ints, asked: Sequence[tr.Query]) -> Floats:
    """One batch. A count of k joint values has deviation 1 if each has variance 1/k, which costs k."""
    prices: dict[tuple[int, ...], int] = {}
    for query in asked:
        prices[query.attributes] = max(prices.get(query.attributes, 0), _matching(query))
    deviation = math.sqrt(sum(prices.values()) * BATCHES / RHO)
    cube = table.reshape(case.schema.shape)
    kept: dict[tuple[int, ...], Floats] = {}
    for attributes, price in prices.items():
        marginal = cube.sum(axis=tuple(set(range(cube.ndim)) - set(attributes)))
        drawn = draw(Gaussian(deviation / math.sqrt(price)), 1, marginal.size)
        kept[attributes] = (marginal + drawn.reshape(marginal.shape)).astype(np.float64)
    return _clipped(evaluate_many(asked, kept.__getitem__, np.float64), int(table.sum()))


def _matching(query: tr.Query) -> int:
    return math.prod(int(mask.sum()) for mask in query.masks or ())


def _clipped(counts: Floats, size: int) -> Floats:
    clipped: Floats = np.clip(counts, 0, size)
    return clipped


def from_tables(case: Case, tables: Mapping[int, Floats]) -> Floats:
    """The answers of a peer whose tables of all cells were made after some batches; in between, shares stay."""
    return np.concatenate(list(_aged(case, tables)))


def _aged(case: Case, tables: Mapping[int, Floats]) -> Iterator[Floats]:
    for batch, size in enumerate(case.sizes):
        made = max(at for at in tables if at <= batch)
        yield _clipped(case.read(batch, tables[made]) * (size / case.sizes[made]), size)


HERE: Final[dict[str, Answerer]] = {
    "treering": default,
    "treering, told the questions": told,
    "ContinualHistogram": continual,
    "noise per question, told": noise(even),
    "noise per question and a cache, told": noise(even, cache=True),
    "noise per question, untold": noise(quickly),
    "noise per question, slowly less, untold": noise(slowly),
    "noise per question, slowly less, and a cache, untold": noise(slowly, cache=True),
    "noisy histogram, told": histogram(even),
    "noisy histogram, untold": histogram(quickly),
    "CacheDP's policy": cachedp,
}
OURS: Final = ("treering", "treering, told the questions", "ContinualHistogram")


def left_out(name: str, case: Case) -> str:
    """Why one is not run on a case; nothing if it is."""
    if name == OURS[1] and case.repeating:
        return "told its groups it is like the cases of 10,000 questions: not worth the minutes"
    return ""
