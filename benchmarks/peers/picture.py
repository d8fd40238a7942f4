"""The picture of the map: treering's default, the best peer that is told nothing, and the best that is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.peers.cases import QUESTIONS, SIZES
from benchmarks.peers.means import Errors, Mean, best
from treering.pictures.svg import Dots, Line, Panel, Series, render

TITLE: Final = "Mean error in rows over the life of a growing table, ε = 1, δ = 10⁻⁶; bars: 95% intervals over seeds"
WIDTH, HEIGHT = 320, 380
BESIDE: Final = 2.0
"""The factor between the places of two sizes of a table with the same number of cells."""
APART: Final = 1.15
"""The factor between the places of two that are compared, so that one does not hide the other."""
LIMITS: Final = (20.0, 2e4)
RADIUS: Final = 3.0

Chosen = Callable[[Mapping[str, Mean]], Mean | None]


def _other(told: bool) -> Chosen:
    def choose(peers: Mapping[str, Mean]) -> Mean | None:
        found = best(peers, told=told)
        return None if found is None else found[1]

    return choose


COMPARED: Final[Sequence[tuple[str, str, Chosen]]] = (
    ("treering's default, told nothing", "#2563eb", lambda peers: peers.get("treering")),
    ("best peer, told nothing", "#d97706", _other(told=False)),
    ("best peer, told the number of questions or batches", "#059669", _other(told=True)),
)


def picture(found: Errors) -> str:
    """The text of the SVG file."""
    return render(TITLE, [_panel(found, number) for number in QUESTIONS], size=(WIDTH, HEIGHT))


def _panel(found: Errors, number: int) -> Panel:
    series = [each for place, given in enumerate(COMPARED) for each in _series(found, number, place, *given)]
    first = f"{number:,} questions"
    return Panel(first, "cells; at each 10⁴, 10⁵, 10⁶ rows", "rows", series, y_limits=LIMITS, x_log=True, y_log=True)


def _series(found: Errors, number: int, place: int, label: str, colour: str, chosen: Chosen) -> list[Series]:
    """Dots, and for each a bar from end to end of its interval."""
    x: list[float] = []
    y: list[float] = []
    ends: list[float | None] = []
    for (cells, questions, size), peers in found.items():
        mean = chosen(peers)
        if questions != number or mean is None:
            continue
        x.append(cells * BESIDE ** (SIZES.index(size) - 1) * APART ** (place - 1))
        y.append(mean.value)
        around = mean.radius if math.isfinite(mean.radius) else 0.0
        ends += [max(mean.value - around, LIMITS[0]), mean.value + around, None]
    bars = Line("", [each for each in x for _ in range(3)], ends, colour)
    return [bars, Dots(label, x, y, colour, RADIUS)]
