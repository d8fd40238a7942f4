"""Convex losses of one entry, and the constants that private learning rests on.

An entry is a feature vector x in the unit L2 ball and a label y; a model θ lies in an L2 ball of a public radius R. For
such x and θ each loss states

- its *Lipschitz* constant L: ‖∇ℓ‖ ≤ L;
- its *smoothness* M: ‖∇²ℓ‖ ≤ M (infinite where there is none);
- its *flatness* m ≤ ∂²ℓ/∂p², for a loss of the prediction p = ⟨θ, x⟩ alone, so that m·xxᵀ ⪯ ∇²ℓ ⪯ M·xxᵀ;
- its *range* for models of a given norm: bounds on ℓ(θ; z) − ℓ(0; z) over all entries z.

Constants are rounded up (the flatness down) by 2^-40 of their size, far beyond the rounding of the few operations that
make them. Ranges are not rounded: callers leave room for rounding.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.errors import ParameterError
from treering.params import exact

Labels: TypeAlias = Literal["signs", "numbers", "none"]
"""The labels that a loss takes: −1 and 1 ("signs"), numbers in [−1, 1] ("numbers"), or "none"."""

LARGEST_RADIUS: Final = 256.0
"""The largest radius of a ball of models: up to it no exponential overflows."""

_UP: Final = 1 + 2.0**-40
_DOWN: Final = 1 - 2.0**-40


class Loss(ABC):
    """A convex loss of one entry."""

    labels: ClassVar[Labels]
    linear: ClassVar[bool] = True
    """Whether the loss sees θ through the prediction p = ⟨θ, x⟩ only: its gradient is then slope·x."""

    @abstractmethod
    def lipschitz(self, radius: float) -> float:
        """L, for models of norm at most ``radius``."""

    @abstractmethod
    def smoothness(self, radius: float) -> float:
        """M, for models of norm at most ``radius``; infinite if the loss is not smooth."""

    @abstractmethod
    def flatness(self, radius: float) -> float:
        """m, a lower bound on the second derivative in the prediction; 0 where nothing better is known."""

    @abstractmethod
    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        """Bounds (low, high) on ℓ(θ; z) − ℓ(0; z) over all entries z, for models θ of each of these norms.

        The difference of the two never falls as the norm grows.
        """

    @abstractmethod
    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        """The loss of each entry, a row of ``features``; ``theta`` may be several models, one per column."""

    def slopes(self, predictions: Floats, labels: Floats) -> Floats:
        """The derivative of each entry's loss in its prediction; linear losses only."""
        raise ParameterError("loss", f"{type(self).__name__} is no loss of a prediction")

    def gradients(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        """The gradient of each entry's loss, one per row."""
        return self.slopes(features @ theta, labels)[:, None] * features


@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """log(1 + e^{−yp}), y = ±1: logistic regression.

    φ(u) = log(1 + e^{−u}) has −φ′ = 1/(1+e^u), at most 1/(1+e^{−R}) for u ≥ −R, and φ″ = 1/(4·cosh²(u/2)), which lies
    in [1/(4·cosh²(R/2)), 1/4].

    >>> round(Logistic().lipschitz(1.0), 3), round(Logistic().flatness(1.0), 3)
    (0.731, 0.197)
    """

    labels: ClassVar[Labels] = "signs"

    def lipschitz(self, radius: float) -> float:
        return _UP / (1 + math.exp(-radius))

    def smoothness(self, radius: float) -> float:
        return 0.25

    def flatness(self, radius: float) -> float:
        return _DOWN / (4 * math.cosh(radius / 2) ** 2)

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return np.logaddexp(0, -norms) - math.log(2), np.logaddexp(0, norms) - math.log(2)

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, -_margins(theta, features, labels)))

    def slopes(self, predictions: Floats, labels: Floats) -> Floats:
        # In place: a pass spends most of its time here.
        slopes = np.asarray(labels * predictions)
        np.exp(slopes, out=slopes)
        slopes += 1
        return np.negative(np.divide(labels, slopes, out=slopes), out=slopes)


@dataclass(frozen=True, slots=True)
class RobustLogistic(Loss):
    """The logistic loss with slopes of at most ½: log(1 + e^{−u}) of a margin u = yp ≥ 0, and log 2 − u/2 below.

    A row that is predicted wrongly counts as much as one at 0, however wrong it is: so a row moves a gradient half as
    much as for `Logistic`, and learning needs half the noise. −φ′ = 1/(1 + e^{max(u, 0)}) falls from ½ to 0, so φ is
    convex, L = ½ and M = ¼. Where the label is 1 with probability η > ½, the expected loss is least at the p > 0 with
    (1 − η)/2 = η/(1 + e^p): on the right side of 0, and η = (e^p + 1)/(e^p + 3), which is `chances`.

    >>> RobustLogistic().chances(np.array([0.0, math.log(5)])).round(12).tolist()
    [0.5, 0.75]
    """

    labels: ClassVar[Labels] = "signs"

    def lipschitz(self, radius: float) -> float:
        return 0.5

    def smoothness(self, radius: float) -> float:
        return 0.25

    def flatness(self, radius: float) -> float:
        return 0.0

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return np.logaddexp(0, -norms) - math.log(2), norms / 2

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        margins = _margins(theta, features, labels)
        return np.asarray(np.logaddexp(0.0, -np.maximum(margins, 0.0)) - np.minimum(margins, 0.0) / 2)

    def slopes(self, predictions: Floats, labels: Floats) -> Floats:
        # In place, as for the logistic loss.
        slopes = np.asarray(labels * predictions)
        np.exp(np.maximum(slopes, 0, out=slopes), out=slopes)
        slopes += 1
        return np.negative(np.divide(labels, slopes, out=slopes), out=slopes)

    def chances(self, predictions: Floats) -> Floats:
        """The probability of the label 1 for which each prediction has the least expected loss."""
        apart = np.exp(-np.abs(predictions))
        more = (1 + apart) / (1 + 3 * apart)
        return np.asarray(np.where(predictions >= 0, more, 1 - more))


@dataclass(frozen=True, slots=True)
class HuberHinge(Loss):
    """The hinge loss of a support vector machine, its kink rounded within ``width`` w of the margin 1 (Chapelle 2007).

    φ(u) = 0 for u ≥ 1+w, (1+w−u)²/(4w) between, 1−u for u ≤ 1−w: at most w/4 above the hinge loss and never below it.
    −φ′ is (1+w−u)/(2w) clipped to [0, 1], so L ≤ 1 and M = 1/(2w).
    """

    width: float = 0.5
    labels: ClassVar[Labels] = "signs"

    def __post_init__(self) -> None:
        if exact(self.width, "width") > 1 or self.width < 2**-10:
            raise ParameterError("width", f"must lie within [2^-10, 1], not {self.width}")

    def lipschitz(self, radius: float) -> float:
        return min(1.0, _UP * (1 + self.width + radius) / (2 * self.width))

    def smoothness(self, radius: float) -> float:
        return _UP / (2 * self.width)

    def flatness(self, radius: float) -> float:
        return 0.0

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return self._of(norms) - self._of(np.zeros(1)), self._of(-norms) - self._of(np.zeros(1))

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        return self._of(_margins(theta, features, labels))

    def slopes(self, predictions: Floats, labels: Floats) -> Floats:
        margins = labels * predictions
        return np.asarray(-labels * np.clip((1 + self.width - margins) / (2 * self.width), 0.0, 1.0))

    def _of(self, margins: Floats) -> Floats:
        bent = np.square(np.maximum(1 + self.width - margins, 0.0)) / (4 * self.width)
        return np.where(margins <= 1 - self.width, 1 - margins, bent)


@dataclass(frozen=True, slots=True)
class Squared(Loss):
    """½(p − y)², y in [−1, 1]: ridge regression. L = R + 1, M = m = 1.

    For |p| ≤ r, p²/2 − py is at most r²/2 + r and at least s²/2 − s, s the smaller of r and 1.
    """

    labels: ClassVar[Labels] = "numbers"

    def lipschitz(self, radius: float) -> float:
        return (radius + 1) * _UP

    def smoothness(self, radius: float) -> float:
        return 1.0

    def flatness(self, radius: float) -> float:
        return 1.0

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        near = np.minimum(norms, 1.0)
        return np.square(near) / 2 - near, np.square(norms) / 2 + norms

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        return np.asarray(np.square(features @ theta - _beside(labels, theta)) / 2)

    def slopes(self, predictions: Floats, labels: Floats) -> Floats:
        return np.asarray(predictions - labels)


@dataclass(frozen=True, slots=True)
class Distance(Loss):
    """‖θ − x‖: the minimiser is the geometric median of the points x. No labels.

    L = 1 by the triangle inequality; the kink at θ = x leaves no smoothness (the subgradient taken there is 0). For
    ‖θ‖ = r, ‖θ − x‖ − ‖x‖ is at most r, and at least −r and r − 2‖x‖ ≥ r − 2.
    """

    labels: ClassVar[Labels] = "none"
    linear: ClassVar[bool] = False

    def lipschitz(self, radius: float) -> float:
        return 1.0

    def smoothness(self, radius: float) -> float:
        return math.inf

    def flatness(self, radius: float) -> float:
        return 0.0

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return np.maximum(-norms, norms - 2), norms

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        if theta.ndim == 1:
            return np.asarray(np.linalg.norm(features - theta, axis=1))
        squares = np.zeros((len(features), theta.shape[1]))
        for axis, each in zip(features.T, theta, strict=True):
            squares += np.square(axis[:, None] - each)
        return np.sqrt(squares)

    def gradients(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        apart = theta - features
        lengths = np.linalg.norm(apart, axis=1, keepdims=True)
        return np.asarray(apart / np.where(lengths > 0, lengths, 1.0))


@dataclass(frozen=True, slots=True)
class HuberDistance(Loss):
    """The distance ‖θ − x‖ with its kink rounded within ``width`` w of the point (Huber 1964): a smooth `Distance`.

    r²/(2w) for a distance r ≤ w, r − w/2 beyond: at most w/2 below the distance, and never above it. The gradient is
    (θ − x)/max(r, w), so L = 1. It is (θ − x)/w projected onto the unit ball, which moves it no further: M = 1/w.

    For ‖θ‖ = t, ℓ(θ) − ℓ(0) is at most t and at least −t, as L = 1; and at least t − 2 − w/2, as r ≥ t − ‖x‖ ≥ t − 1,
    ℓ(θ) ≥ r − w/2 and ℓ(0) ≤ ‖x‖ ≤ 1.
    """

    width: float = 2.0**-6
    labels: ClassVar[Labels] = "none"
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if exact(self.width, "width") > 1 or self.width < 2**-10:
            raise ParameterError("width", f"must lie within [2^-10, 1], not {self.width}")

    def lipschitz(self, radius: float) -> float:
        return 1.0

    def smoothness(self, radius: float) -> float:
        return _UP / self.width

    def flatness(self, radius: float) -> float:
        return 0.0

    def range(self, norms: Floats) -> tuple[Floats, Floats]:
        return np.maximum(-norms, norms - 2 - self.width / 2), norms

    def values(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        lengths = Distance().values(theta, features, labels)
        return np.where(lengths <= self.width, np.square(lengths) / (2 * self.width), lengths - self.width / 2)

    def gradients(self, theta: Floats, features: Floats, labels: Floats) -> Floats:
        apart = theta - features
        return np.asarray(apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), self.width))


def _beside(labels: Floats, theta: Floats) -> Floats:
    """The labels, broadcastable against the predictions of one model or of several."""
    return labels if theta.ndim == 1 else labels[:, None]


def _margins(theta: Floats, features: Floats, labels: Floats) -> Floats:
    return np.asarray(_beside(labels, theta) * (features @ theta))
