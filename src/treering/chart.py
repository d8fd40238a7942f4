"""A released table as a chart: a bar for each group with its margin, as a picture that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.errors import ParameterError, QueryError
from treering.pictures.svg import page
from treering.shown import MARGIN, number

if TYPE_CHECKING:
    import pyarrow as pa

_COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
_INK: Final = "#1f2937"
_BAR, _LEFT, _WIDTH, _TOP = 18, 180, 460, 34
"""The height of a bar, the room for labels, the length of the longest bar, and the room above, in pixels."""

MOST_BARS: Final = 500
"""The most groups of a chart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One group: its label, the value that colours it, its number and its margin; ``mark`` is another number to compare
    it with."""

    label: str
    colour: str
    value: float
    margin: float
    mark: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars of a released table. It shows itself in a notebook, and `save` writes it to a file.

    ``x`` and ``y`` are the names of the first label and of the number.
    """

    x: str
    y: str
    bars: tuple[Bar, ...]

    @property
    def colours(self) -> tuple[str, ...]:
        """The values of the second label, in the order of their first bars; none if there is no second label."""
        return tuple(dict.fromkeys(bar.colour for bar in self.bars if bar.colour))

    def save(self, path: str | Path) -> None:
        """Write the chart to a file: .svg, or .html, a page that needs nothing else."""
        place = Path(path)
        if place.suffix.lower() not in (".svg", ".html"):
            raise ParameterError("path", f"must end in .svg or .html, not {place.name!r}")
        html = place.suffix.lower() == ".html"
        place.write_text(page(f"{self.y} by {self.x}", self.svg()) if html else self.svg(), encoding="utf-8")

    def svg(self) -> str:
        """The chart as an SVG picture: a bar for each group, its margin a line at its end."""
        low = min(0.0, *(bar.value - bar.margin for bar in self.bars))
        high = max(0.0, *(bar.value + bar.margin for bar in self.bars))
        scale = _WIDTH / ((high - low) or 1.0)
        width, height = _LEFT + _WIDTH + 110, _TOP + _BAR * len(self.bars) + 12
        drawn = "".join(self._drawn(place, bar, low, scale) for place, bar in enumerate(self.bars))
        title = f"{self.y} by {self.x}, with margins that hold with 95%"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="system-ui, sans-serif" font-size="12" fill="{_INK}">'
            f"<title>{escape(title)}</title>"
            f'<text x="0" y="16" font-weight="600">{escape(self.y)} by {escape(self.x)}</text>{drawn}</svg>'
        )

    def _drawn(self, place: int, bar: Bar, low: float, scale: float) -> str:
        """A bar, its margin, its label on the left and its number on the right."""
        middle = _TOP + _BAR * place + _BAR / 2
        zero, end, first, last = (
            _LEFT + (each - low) * scale for each in (0.0, bar.value, bar.value - bar.margin, bar.value + bar.margin)
        )
        fill = _COLOURS[self.colours.index(bar.colour) % len(_COLOURS) if bar.colour else 0]
        label = f"{bar.label}, {bar.colour}" if bar.colour else bar.label
        mark = ""
        if bar.mark is not None:
            across = _LEFT + (bar.mark - low) * scale
            ends = f'x1="{across:.1f}" y1="{middle - 8:.1f}" x2="{across:.1f}" y2="{middle + 8:.1f}"'
            mark = f'<line {ends} stroke="#dc2626"/>'
        return (
            f'<text x="{_LEFT - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{min(zero, end):.1f}" y="{middle - 6:.1f}" width="{abs(end - zero):.1f}" height="12" '
            f'fill="{fill}" fill-opacity="0.75"/>'
            f'<line x1="{first:.1f}" y1="{middle:.1f}" x2="{last:.1f}" y2="{middle:.1f}" stroke="{_INK}"/>'
            f'<text x="{max(last, zero) + 6:.1f}" y="{middle + 4:.1f}">{escape(number(bar.value, bar.margin))}</text>'
            f"{mark}"
        )

    def _repr_html_(self) -> str:
        """The picture, in a notebook."""
        return self.svg()

    def __repr__(self) -> str:
        return f"Chart({self.y} by {self.x}, {len(self.bars)} bars)"


def plot(table: pa.Table) -> Chart:
    """A chart of a released table: of what `Vault.sql` or `Rings.table` gave.

    Bars are the first number that has a margin, over the first column; a second column of labels gives the colours. A
    notebook shows the chart; ``plot(table).save("late.svg")`` writes a picture, and ``.html`` a page.
    """
    names = table.column_names
    pairs = [(name, f"{name}{MARGIN}") for name in names] + list(pairwise(names))
    noisy = [each for each in pairs if each[1] in names and (each[1].endswith(MARGIN) or each == ("count", "margin"))]
    chosen = next(((value, margin) for value, margin in noisy if _numeric(table.column(value).to_pylist())), None)
    labels = names[: names.index(chosen[0])][:2] if chosen else []
    if chosen is None or not labels:
        raise QueryError("a chart takes a label and a number with a margin after it: GROUP BY gives them")
    if table.num_rows > MOST_BARS:
        raise QueryError(f"a chart has at most {MOST_BARS} bars, not {table.num_rows:,}: LIMIT chooses some")
    listed = [bar for row in table.to_pylist() if (bar := _bar(row, labels, *chosen)) is not None]
    return Chart(labels[0], chosen[0], tuple(listed))


def _numeric(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in there)


def _bar(row: dict[str, Any], labels: Sequence[str], value: str, margin: str) -> Bar | None:
    """The bar of a row; None if its number is not known."""
    if row[value] is None:
        return None
    colour = str(row[labels[1]]) if len(labels) == 2 else ""
    return Bar(number(row[labels[0]]), colour, row[value], float(row[margin] or 0.0))
