"""What each kind of mechanism is made of: every option goes where it belongs, and has its default otherwise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import treering as tr
from support.vaults import SCHEMA
from treering.boxes.answers import AnswersBox
from treering.boxes.histogram import HistogramBox
from treering.boxes.marginals import MarginalsBox
from treering.boxes.mwem import MWEM
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Promise
from treering.domain.loss import HuberHinge, Logistic, RobustLogistic, Squared
from treering.trusted.ledger.codec.events import codec
from treering.trusted.ledger.shares import Spec, with_shares
from treering.vault import kinds
from treering.vault.kinds import KINDS, NOTES, build, lowered, spec

PROMISE = Promise(Fraction(3, 2), 1e-6, 2)
OWN = Promise(Fraction(3, 2), 1e-6, 2, Fraction(1, 4))
LEARNING = {"target": "late = 'yes'", "features": ["origin"]}
NAMES = {
    "rings": "Rings",
    "persons": "Persons",
    "pmwg": "PMWG",
    "continual": "ContinualHistogram",
    "scheduler": "BBScheduler",
    "improver": "BBImprover",
    "ermg": "ERMG",
    "ermrings": "ERMRings",
}


def built(kind: str, options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a mechanism of a kind is made with, without the database."""
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def made(*arguments: Any, **named: Any) -> None:
        given.append((arguments, named))

    db = tr.GrowingDatabase(SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, NAMES[kind], made)
        build(Spec("name", kind, Fraction(1, 4), options), db, PROMISE)
    ((first, *rest), named) = given[0]
    assert first is db
    return tuple(rest), named


def test_every_kind_is_here() -> None:
    assert tuple(NAMES) == KINDS


@pytest.mark.parametrize(
    ("kind", "usual", "others"),
    [
        ("rings", {"beta": 0.05, "pace": 25}, {"beta": 0.25, "pace": 8}),
        (
            "pmwg",
            {"alpha": 0.05, "beta": 0.05, "measure_first": True},
            {"alpha": 0.125, "beta": 0.25, "measure_first": False},
        ),
        ("continual", {"beta": 0.05}, {"beta": 0.25}),
    ],
)
def test_mechanisms_that_answer(kind: str, usual: dict[str, Any], others: dict[str, Any]) -> None:
    assert built(kind, {}) == ((OWN,), usual)
    assert built(kind, others) == ((OWN,), others)
    for name, value in others.items():
        assert built(kind, {name: value}) == ((OWN,), {**usual, name: value})


def test_mechanisms_that_run_boxes() -> None:
    for options, beta in (({}, 0.05), ({"beta": 0.25}, 0.25)):
        (box, promise), named = built("scheduler", options)
        assert (type(box), promise, named) == (HistogramBox, OWN, {"beta": beta})
        (box, *rest), named = built("improver", options)
        assert (type(box), rest, named) == (HistogramBox, [OWN, 1e-6], {"beta": beta})


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"box": "histogram"}, HistogramBox),
        ({"box": "histogram", "queries": ["late = 'yes'"]}, HistogramBox),
        ({"box": "marginals", "ways": 2}, MarginalsBox),
        ({"box": "answers", "queries": ["late = 'yes'"]}, AnswersBox),
        ({"box": "mwem", "queries": ["late = 'yes'"]}, MWEM),
        ({"box": "smalldb", "queries": ["late = 'yes'"]}, SmallDB),
    ],
)
def test_boxes_by_name(options: dict[str, Any], kind: type[Any]) -> None:
    assert type(built("scheduler", options)[0][0]) is kind


@pytest.mark.parametrize(
    ("options", "parameter", "said"),
    [
        ({"box": "none"}, "box", "must be one of histogram, marginals, answers, mwem, smalldb, not 'none'"),
        ({"box": ["histogram"]}, "box", "must be one of"),
        ({"box": "marginals"}, "ways", "must be given for the box 'marginals'"),
        ({"box": "mwem"}, "queries", "must be given for the box 'mwem'"),
        ({"pace": 1, "alpha": 2}, "alpha", "is no option of 'scheduler'; there are box, queries, ways, beta"),
    ],
)
def test_boxes_that_cannot_be(options: dict[str, Any], parameter: str, said: str) -> None:
    with pytest.raises(tr.ParameterError, match=said) as refusal:
        built("scheduler", options)
    assert refusal.value.parameter == parameter


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(None, Logistic), ("logistic", Logistic), ("robust", RobustLogistic), ("hinge", HuberHinge), ("squared", Squared)],
)
def test_mechanisms_that_learn(loss: str | None, kind: type[Any]) -> None:
    given = {**LEARNING, **({} if loss is None else {"loss": loss})}
    usual: dict[str, dict[str, Any]] = {
        "ermg": {"radius": 4.0, "regularisation": 0.0},
        "ermrings": {"radius": None, "regularisation": 0.0, "every": 2.0, "validation": 0},
    }
    for name, defaults in usual.items():
        (found, *rest), named = built(name, given)
        features = named.pop("features")
        assert (type(found), rest, named) == (kind, [OWN, 1e-6, 0.05], defaults)
        assert (
            features.dimension == tr.domain.problem.CellFeatures.one_hot(SCHEMA, ["origin"], "late = 'yes'").dimension
        )
        others = dict.fromkeys(defaults, 3)
        (_, *rest), named = built(name, {**given, **others, "beta": 0.25})
        assert (rest, {key: value for key, value in named.items() if key != "features"}) == (
            [OWN, 1e-6, 0.25],
            others,
        )


@pytest.mark.parametrize(
    ("options", "parameter"),
    [({}, "target"), ({"target": "late = 'yes'"}, "target"), ({"features": ["origin"]}, "target")]
    + [({**LEARNING, "loss": each}, "loss") for each in ("none", ["logistic"])],
)
def test_learners_that_cannot_be(options: dict[str, Any], parameter: str) -> None:
    for kind in ("ermg", "ermrings"):
        with pytest.raises(tr.ParameterError) as refusal:
            built(kind, options)
        assert refusal.value.parameter == parameter


def test_a_name_is_the_kind_or_the_first_that_is_free() -> None:
    taken: list[Spec] = []
    for expected in ("pmwg", "pmwg2", "pmwg3"):
        taken.append(spec("pmwg", 0.25, {"alpha": 0.5, "beta": None}, taken))
        assert taken[-1] == Spec(expected, "pmwg", Fraction(1, 4), {"alpha": 0.5})
    assert spec("pmwg", 0.25, {"name": "mine"}, taken) == Spec("mine", "pmwg", Fraction(1, 4), {})
    several: Any = ["pmwg"]
    refused: list[tuple[Callable[[], Spec], str, str]] = [
        (lambda: spec("pmwg", 0.25, {"name": "pmwg2"}, taken), "name", "'pmwg2' is taken by another mechanism"),
        (lambda: spec("pmwg", 0.25, {"name": "a b"}, taken), "name", "must be a word of letters"),
        (lambda: spec("pmwg", 0.25, {"name": 7}, taken), "name", "must be a word of letters"),
        (lambda: spec("none", 0.25, {}, taken), "kind", "must be one of rings, persons, pmwg, .*, not 'none'"),
        (lambda: spec(several, 0.25, {}, taken), "kind", "must be one of rings"),
        (lambda: spec("pmwg", 0.26, {}, taken), "share", "must be at most 0.25, what the other .*, not 0.26$"),
    ]
    for make, parameter, said in refused:
        with pytest.raises(tr.ParameterError, match=said) as refusal:
            make()
        assert refusal.value.parameter == parameter
    whole = [*taken, spec("pmwg", 0.25, {}, taken)]
    with pytest.raises(tr.ParameterError, match="cannot be had: the others have the whole promise"):
        spec("pmwg", 1e-9, {}, whole)
    thirds = [Spec("a", "pmwg", Fraction(1, 3), {})]
    with pytest.raises(tr.ParameterError, match="must be at most 0.666666, what"):
        spec("pmwg", 0.7, {}, thirds)


def test_shares_are_lowered_only_as_far_as_they_are_missing() -> None:
    specs = [Spec(name, "rings", Fraction(2, 5), {}) for name in ("a", "b")]
    spare = [Fraction(1, 10), Fraction(2, 5)]
    cases: list[tuple[Fraction, dict[str, Fraction]]] = [
        (Fraction(1, 5), {}),
        (Fraction(1, 4), {"a": Fraction(7, 20)}),
        (Fraction(3, 10), {"a": Fraction(3, 10)}),
        (Fraction(2, 5), {"a": Fraction(3, 10), "b": Fraction(3, 10)}),
        # Each keeps a hundredth of what it had.
        (Fraction(1), {"a": Fraction(3, 10), "b": Fraction(2, 500)}),
    ]
    for wanted, shares in cases:
        assert lowered(specs, spare, wanted) == shares
        found = with_shares(specs, shares)
        assert [each.share for each in found] == [shares.get(name, Fraction(2, 5)) for name in ("a", "b")]


def test_codecs_are_made_once() -> None:
    assert codec(SCHEMA, NOTES) is codec(SCHEMA, NOTES)
