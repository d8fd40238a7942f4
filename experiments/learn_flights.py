"""Learning by rings on the flights of 2013: each month's model is tested on the next month, before that is taken in.

    python -m experiments.learn_flights [--quick] [--seed N]

Will a flight leave 15 minutes late or more? Features are those of the demonstration: origin, carrier, month and the
four hours it is due in. Flights come day by day (in short: month by month, up to April), ε = 1, δ = 10^-6. At the end
of each month but the last, models are tested on all flights of the next. Claimed, for the mean AUC over the year:

- the newest ring's model, at doublings, the default, is within 1 point of no privacy (trained on all flights so far);
- so is the average of all rings' models, with ``every=1.25``;
- both are above ERMG's.

Seasons are the trap: the newest ring has not seen every month. What was chosen, and why:

- *Features that carry over.* The weight of a month that no ring has seen is 0, or noise; it moves all flights of that
  month alike and not their order, so the AUC rests on origin, carrier and hour, which carry over. A model without the
  month does as well, with privacy and without.
- *Rings combined.* A model of one ring follows the season of its rows. Models are public, so their average is free, and
  it has seen the whole year. Each is weighted by the square of its ring's number of rows, as the variance of its noise
  falls with that. With more rings than doublings make (``every=1.25``) the average is nearer to no privacy: nearly
  every month has a ring of its own. The newest model alone is then noisier.

A newest ring that follows the season can be ahead of no privacy, too: in some months it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np
from sklearn.linear_model import LogisticRegression

import treering as tr
from experiments.claims import Claims
from experiments.erm_flights import BETA, DELTA, EPSILON, FEATURES, RADIUS as OF_ALL, quality
from experiments.options import options
from treering.arrays import Floats, Ints
from treering.demo.flights import SCHEMA, cells_of, days, flights
from treering.domain.loss import Logistic
from treering.domain.problem import FEATURE_UNIT, CellFeatures

WITHIN, QUICK_WITHIN = 0.01, 0.03
OFTEN = 1.25
QUICK_MONTHS = 4
MAPPED = CellFeatures.one_hot(SCHEMA, FEATURES, "delay >= 15")
VECTORS, LABELS = MAPPED.grid / FEATURE_UNIT, MAPPED.labels

Month: TypeAlias = list[Ints]
"""The cells of a month's flights, a day at a time."""
Learner: TypeAlias = tr.ERMRings | tr.ERMG
Kind: TypeAlias = tuple[str, Callable[[tr.GrowingDatabase], Learner], Callable[[Learner], Floats]]
"""What a learner is called, how it is made, and the model to test."""


def months() -> list[Month]:
    """The year."""
    daily = days(flights(), SCHEMA.names)
    return [[cells_of(day) for day in same] for _, same in groupby(daily, lambda day: int(day["month"][0].as_py()))]


def counts(month: Month) -> Ints:
    """How many flights of a month each cell has."""
    return np.bincount(np.concatenate(month), minlength=SCHEMA.cells)


def newest(learner: Learner) -> Floats:
    """The latest model."""
    return np.array(learner.model.theta)


def combined(learner: Learner) -> Floats:
    """The average of all rings' models, by the squares of their numbers of rows: public, hence free."""
    assert isinstance(learner, tr.ERMRings)
    weights = [float(model.rows[1] - model.rows[0]) ** 2 for model in learner.models]
    return np.average([model.theta for model in learner.models], axis=0, weights=weights)


def rings(every: float) -> Callable[[tr.GrowingDatabase], Learner]:
    """Learning by rings, with all else as it comes."""
    return lambda db: tr.ERMRings(db, Logistic(), EPSILON, DELTA, BETA, every=every, features=MAPPED)


def of_all(db: tr.GrowingDatabase) -> Learner:
    """ERMG as `experiments.erm_flights` has it."""
    return tr.ERMG(db, Logistic(), EPSILON, DELTA, BETA, radius=OF_ALL, features=MAPPED)


KINDS: tuple[Kind, ...] = (
    ("rings, at doublings", rings(2.0), newest),
    (f"rings, every={OFTEN}", rings(OFTEN), newest),
    (f"rings, every={OFTEN}, combined", rings(OFTEN), combined),
    ("ERMG", of_all, newest),
)
"""What is compared."""


def tested(year: Sequence[Month], kind: Kind, between: int) -> Floats:
    """The AUC on each month but the first; flights come so many days at a time."""
    _, make, chosen = kind
    db, learner, found = tr.GrowingDatabase(SCHEMA), None, []
    for month, following in pairwise(year):
        for begin in range(0, len(month), between):
            db.append_cells(np.concatenate(month[begin : begin + between]))
            if learner is not None:
                learner.update()
        if learner is None:
            learner = make(db)
            learner.update()
        found.append(quality(VECTORS @ chosen(learner), LABELS, counts(following)).auc)
    return np.array(found)


def plain(year: Sequence[Month]) -> Floats:
    """The same without privacy, from all flights so far."""
    seen, found = np.zeros(SCHEMA.cells, dtype=np.int64), []
    for month, following in pairwise(year):
        seen = seen + counts(month)
        some = seen > 0
        model = LogisticRegression(C=1e6, max_iter=2_000, fit_intercept=False)
        model.fit(VECTORS[some], LABELS[some], sample_weight=seen[some])
        found.append(quality(VECTORS @ model.coef_[0], LABELS, counts(following)).auc)
    return np.array(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Live through the year with each learner, and check the claims."""
    given = options(__doc__, arguments)
    claims = Claims()
    year = months()[: QUICK_MONTHS if given.quick else 12]
    without = plain(year)
    print(f"  {'month':<32}{' '.join(f'{month:>6}' for month in range(2, len(year) + 1))}    mean")
    found = {"without privacy": without}
    found |= {kind[0]: tested(year, kind, 31 if given.quick else 7 if kind[1] is of_all else 1) for kind in KINDS}
    for name, each in found.items():
        print(f"  {name:<32}{' '.join(f'{auc:.4f}' for auc in each)}  {each.mean():.4f}")
    for name in (KINDS[0][0], KINDS[2][0]):
        ours, within = float(found[name].mean()), QUICK_WITHIN if given.quick else WITHIN
        claims.at_most(f"{name}: AUC less than without privacy by", float(without.mean()) - ours, within)
        claims.at_most(f"{name}: AUC less than ERMG's by", float(found["ERMG"].mean()) - ours, 0.0)
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
