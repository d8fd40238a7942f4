"""What the paper's theorems ask of a box and of a promise before any schedule is made."""

from __future__ import annotations

from treering.boxes.base import Box, Rate
from treering.budget.promise import Promise
from treering.errors import GuaranteeError
from treering.theory.schedule.paper import covers


def paper_rate(box: Box, promise: Promise) -> Rate:
    """The box's (p, p′, p″, g), under a promise that the theorems cover."""
    check_covered(promise)
    if box.rate is None:
        raise GuaranteeError(
            f'{type(box).__name__} is no (p, g)-black box, which profile="paper" needs; profile="tight" takes any box'
        )
    return box.rate


def check_covered(promise: Promise) -> None:
    """Refuse a promise that the theorems do not cover."""
    if not promise.plain:
        raise GuaranteeError('the paper\'s theorems are for a whole promise, one row a person: use profile="tight"')
    if problems := covers(promise.epsilon, promise.delta):
        raise GuaranteeError(f"the paper's theorem does not cover this promise: {'; '.join(problems)}")
