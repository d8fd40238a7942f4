"""The kinds of mechanisms that a vault can hold, each built from options that a line of the ledger can keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, TypeAlias

from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box
from treering.boxes.histogram import HistogramBox
from treering.boxes.marginals import MarginalsBox
from treering.boxes.mwem import MWEM
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Promise
from treering.domain.loss import HuberHinge, Logistic, Loss, RobustLogistic, Squared
from treering.domain.problem import CellFeatures
from treering.errors import ParameterError
from treering.mechanisms.base import Answering
from treering.mechanisms.continual import ContinualHistogram
from treering.mechanisms.persons import Persons
from treering.mechanisms.pmwg import PMWG
from treering.mechanisms.rings import Rings
from treering.params import Number, share_of
from treering.protocols import Database
from treering.schedulers.ermg import ERMG
from treering.schedulers.ermrings import ERMRings
from treering.schedulers.improver import BBImprover
from treering.schedulers.scheduler import BBScheduler
from treering.theory.plan import plan
from treering.trusted.store import Spec

Options: TypeAlias = Mapping[str, Any]

EXPECTED_ROWS: Final = 1_000_000
"""The number of rows that ``mechanism="auto"`` plans for, unless ``rows`` says otherwise."""


def build(spec: Spec, db: Database, promise: Promise) -> Answering:
    """Build a mechanism over a database that opens its gate, with its share of the promise."""
    own = replace(promise, share=spec.share)
    builder, known = _BUILDERS[spec.kind]
    unknown = sorted(set(spec.options) - set(known))
    if unknown:
        raise ParameterError(unknown[0], f"is no option of {spec.kind!r}; there are {', '.join(known)}")
    return builder(db, own, spec.options)


def spec(kind: str, share: Number, options: Options, taken: Sequence[Spec]) -> Spec:
    """The specification of a new mechanism beside those in ``taken``, which must leave its share and its name free."""
    if not isinstance(kind, str) or kind not in _BUILDERS:
        raise ParameterError("kind", f"must be one of {', '.join(_BUILDERS)}, not {kind!r}")
    name = options.get("name") or next(
        candidate
        for candidate in (kind, *(f"{kind}{number}" for number in range(2, 1000)))
        if candidate not in {each.name for each in taken}
    )
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError("name", f"must be a word of letters, digits and underscores, not {name!r}")
    if name in {each.name for each in taken}:
        raise ParameterError("name", f"{name!r} is taken by another mechanism of this vault")
    part = share_of(share, "share")
    left = 1 - sum(each.share for each in taken)
    if left == 0:
        raise ParameterError(
            "share", "cannot be had: the others have the whole promise. A vault made with share=0.7 leaves 0.3 for more"
        )
    if part > left:
        raise ParameterError(
            "share",
            f"must be at most {math.floor(left * 10**6) / 10**6:.6g}, what the other mechanisms leave of the promise, "
            f"not {float(part):.6g}{'' if left else ' (give the first of them a smaller share when a vault is made)'}",
        )
    return Spec(name, kind, part, {key: value for key, value in options.items() if key != "name" and value is not None})


def _rings(db: Database, promise: Promise, options: Options) -> Rings:
    return Rings(db, promise, beta=options.get("beta", 0.05), pace=options.get("pace", 25))


def _persons(db: Database, promise: Promise, options: Options) -> Persons:
    return Persons(db, promise, beta=options.get("beta", 0.05), pace=options.get("pace", 25))


def choose(cells: int, promise: Promise, alpha: float, beta: float, rows: int) -> str:
    """The kind that ``mechanism="auto"`` stands for if one ``alpha`` is wanted for all answers: the planner's choice
    among those that promise it for any query, for ever.

    "continual", a noisy histogram of all cells, where it keeps every answer within ``alpha``; "pmwg" otherwise.
    """
    own = promise.budget.total / Promise(promise.epsilon, promise.delta).budget.total
    epsilon = float(promise.epsilon) * float(own) ** (1.0 if promise.delta == 0 else 0.5)
    planned = {row.name: row.alpha for row in plan(cells, rows, epsilon, float(promise.delta), beta).rows}
    return "continual" if planned.get("ContinualHistogram", 1.0) <= alpha else "pmwg"


# -- a builder for each kind -------------------------------------------------------------------------------------------


def _pmwg(db: Database, promise: Promise, options: Options) -> PMWG:
    return PMWG(
        db,
        promise,
        alpha=options.get("alpha", 0.05),
        beta=options.get("beta", 0.05),
        measure_first=options.get("measure_first", True),
    )


def _continual(db: Database, promise: Promise, options: Options) -> ContinualHistogram:
    return ContinualHistogram(db, promise, beta=options.get("beta", 0.05))


def _scheduler(db: Database, promise: Promise, options: Options) -> BBScheduler:
    return BBScheduler(db, _box(options), promise, beta=options.get("beta", 0.05))


def _improver(db: Database, promise: Promise, options: Options) -> BBImprover:
    return BBImprover(db, _box(options), promise, promise.delta, beta=options.get("beta", 0.05))


def _ermg(db: Database, promise: Promise, options: Options) -> ERMG:
    loss, features = _learning(db, options)
    return ERMG(
        *(db, loss, promise, promise.delta, options.get("beta", 0.05)),
        radius=options.get("radius", 4.0),
        regularisation=options.get("regularisation", 0.0),
        features=features,
    )


def _ermrings(db: Database, promise: Promise, options: Options) -> ERMRings:
    loss, features = _learning(db, options)
    return ERMRings(
        *(db, loss, promise, promise.delta, options.get("beta", 0.05)),
        every=options.get("every", 2.0),
        validation=options.get("validation", 0),
        radius=options.get("radius"),
        regularisation=options.get("regularisation", 0.0),
        features=features,
    )


def _learning(db: Database, options: Options) -> tuple[Loss, CellFeatures]:
    """The loss and the features of a learner."""
    if "target" not in options or "features" not in options:
        raise ParameterError("target", "and features must be given: a predicate to learn, and attributes to learn from")
    name = options.get("loss", "logistic")
    if not isinstance(name, str) or name not in _LOSSES:
        raise ParameterError("loss", f"must be one of {', '.join(_LOSSES)}, not {name!r}")
    return _LOSSES[name](), CellFeatures.one_hot(db.schema, options["features"], options["target"])


def _box(options: Options) -> Box:
    name = options.get("box", "histogram")
    if not isinstance(name, str) or name not in _BOXES:
        raise ParameterError("box", f"must be one of {', '.join(_BOXES)}, not {name!r}")
    make, needed = _BOXES[name]
    if needed and needed not in options:
        raise ParameterError(needed, f"must be given for the box {name!r}")
    return make(options)


_BOXES: Final[dict[str, tuple[Callable[[Options], Box], str]]] = {
    "histogram": (lambda options: HistogramBox(options.get("queries")), ""),
    "marginals": (lambda options: MarginalsBox(options["ways"]), "ways"),
    "answers": (lambda options: AnswersBox(options["queries"]), "queries"),
    "mwem": (lambda options: MWEM(options["queries"]), "queries"),
    "smalldb": (lambda options: SmallDB(options["queries"]), "queries"),
}
_LOSSES: Final[dict[str, Callable[[], Loss]]] = {
    "logistic": Logistic,
    "robust": RobustLogistic,
    "hinge": HuberHinge,
    "squared": Squared,
}
_BOXED: Final = ("box", "queries", "ways", "beta")
_LEARNT: Final = ("target", "features", "loss", "radius", "regularisation", "beta")
_BUILDERS: Final[dict[str, tuple[Callable[[Database, Promise, Options], Answering], tuple[str, ...]]]] = {
    "rings": (_rings, ("beta", "pace")),
    "persons": (_persons, ("beta", "pace")),
    "pmwg": (_pmwg, ("alpha", "beta", "measure_first")),
    "continual": (_continual, ("beta",)),
    "scheduler": (_scheduler, _BOXED),
    "improver": (_improver, _BOXED),
    "ermg": (_ermg, _LEARNT),
    "ermrings": (_ermrings, (*_LEARNT, "every", "validation")),
}
KINDS: Final = tuple(_BUILDERS)
"""The kinds of mechanisms that can be added."""

_MECHANISMS: Final = (Rings, Persons, PMWG, ContinualHistogram, BBScheduler, BBImprover, ERMG, ERMRings)
NOTES: Final = tuple(dict.fromkeys(note for mechanism in _MECHANISMS for note in mechanism.notes))
"""The classes of the mechanisms' notes, and of what notes hold: the only ones that a line may name beside the gate's
events and their parts."""


# -- shares of one promise ---------------------------------------------------------------------------------------------


LEAST_KEPT: Final = Fraction(1, 100)
"""The part of its share that a mechanism keeps."""


def lowered(specs: Sequence[Spec], spare: Sequence[Fraction], wanted: Fraction) -> dict[str, Fraction]:
    """The shares to lower so that a new mechanism can have the share ``wanted``; all that can be, if it cannot.

    ``spare`` is the share that each mechanism can do without. What nobody has is taken first, then what mechanisms can
    spare, in their order; each keeps at least a hundredth of its share, so that it still answers. What a mechanism
    gives is rounded down to a short fraction: shares are lowered again and again, and denominators must stay bounded.
    """
    missing = wanted - (1 - sum((each.share for each in specs), Fraction(0)))
    shares: dict[str, Fraction] = {}
    for each, free in zip(specs, spare, strict=True):
        given = min(missing, _short(min(free, each.share * (1 - LEAST_KEPT))))
        if given > 0:
            shares[each.name] = each.share - given
            missing -= given
    return shares


def _short(share: Fraction) -> Fraction:
    """A share, rounded down to a multiple of 2^-96 if its denominator has more than 128 bits."""
    return share if share.denominator.bit_length() <= 128 else Fraction(math.floor(share * 2**96), 2**96)
