"""Line charts as SVG for HTML pages: no script, no request, light and dark by the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from doctor.report.html_page import esc

Point = tuple[float, float]
_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 44, 14, 44
_TICKS = 5
# Lines differ by dash and by the shape of their points too: not by colour alone.
_SHAPES = ("circle", "square", "diamond", "triangle")
_APART = 13


@dataclass(frozen=True)
class Line:
    """A named line through points, in the units of the axes."""

    name: str
    points: tuple[Point, ...]
    with_marks: bool = True


@dataclass(frozen=True)
class Chart:
    """A chart: what it shows, its axes, its lines.

    `ticks` are places on the x axis with their labels; `show` words a value of the y axis.
    `mark` is a place on the x axis that is pointed out, with its word.
    """

    title: str
    x_label: str
    ticks: tuple[tuple[float, str], ...]
    lines: tuple[Line, ...]
    show: Callable[[float], str]
    mark: tuple[float, str] | None = None
    top: float = 0.0


def draw(chart: Chart) -> str:
    """The chart as a figure; "" if it has no points."""
    points = [point for line in chart.lines for point in line.points]
    if not points or not chart.ticks:
        return ""
    area = _Area(chart, points)
    inside = "".join([*area.grid(), *area.mark(), *area.lines(), *area.names()])
    return (
        f'<figure class="chart"><figcaption>{esc(chart.title)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{esc(_said(chart))}">'
        f"{inside}</svg></figure>"
    )


def _said(chart: Chart) -> str:
    """The chart in words: the last value of each line."""
    ends = (f"{line.name} {chart.show(line.points[-1][1])}" for line in chart.lines if line.points)
    return f"{chart.title}; at the right end: {', '.join(ends)}"


def nice_step(span: float, count: int = _TICKS) -> float:
    """A round step (1, 2 or 5 times a power of ten) that divides a span about so often."""
    rough = span / count
    if not math.isfinite(rough) or rough <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


class _Area:
    """Places the parts of one chart."""

    def __init__(self, chart: Chart, points: Sequence[Point]) -> None:
        self._chart = chart
        xs = [x for x, _ in (*points, *chart.ticks)]
        self._x0, self._x1 = min(xs), max(xs)
        self._step = nice_step(chart.top or max(y for _, y in points) or 1.0)
        highest = max([y for _, y in points] + [self._step])
        self._y1 = chart.top or math.ceil(highest / self._step - 1e-9) * self._step

    def x(self, value: float) -> float:
        span = self._x1 - self._x0
        share = (value - self._x0) / span if span > 0 else 0.5
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = min(value / self._y1, 1.0)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    def grid(self) -> Iterator[str]:
        right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        for n in range(round(self._y1 / self._step) + 1):
            y = self.y(n * self._step)
            yield f'<path class="grid" d="M{_LEFT} {y}H{right}"/>'
            label = esc(self._chart.show(n * self._step))
            yield f'<text class="tick" x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{label}</text>'
        for place, label in self._chart.ticks:
            x = self.x(place)
            yield f'<path class="grid" d="M{x} {floor}v5"/>'
            yield (
                f'<text class="tick" x="{x}" y="{floor + 18}" '
                f'text-anchor="middle">{esc(label)}</text>'
            )
        middle = (_LEFT + right) / 2
        yield (
            f'<text class="tick" x="{middle}" y="{_HEIGHT - 6}" '
            f'text-anchor="middle">{esc(self._chart.x_label)}</text>'
        )

    def mark(self) -> Iterator[str]:
        if self._chart.mark is None:
            return
        place, word = self._chart.mark
        x = self.x(place)
        yield f'<path class="mark" d="M{x} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
        yield f'<text class="marked" x="{x + 5}" y="{_TOP + 10}">{esc(word)}</text>'

    def lines(self) -> Iterator[str]:
        for number, line in enumerate(self._chart.lines):
            tone = f"line-{number % 4 + 1}"
            places = [(self.x(x), self.y(y)) for x, y in line.points]
            path = "L".join(f"{x} {y}" for x, y in places)
            yield f'<path class="line {tone}" d="M{path}"/>'
            if line.with_marks:
                for (x, y), point in zip(places, line.points, strict=True):
                    said = esc(f"{line.name}: {self._chart.show(point[1])}")
                    shape = _shape(_SHAPES[number % 4], x, y)
                    yield f'<g class="dot {tone}"><title>{said}</title>{shape}</g>'

    def names(self) -> Iterator[str]:
        """Each line's name at its right end, moved apart where ends lie close."""
        ends = [(self.y(line.points[-1][1]), n) for n, line in enumerate(self._chart.lines)
                if line.points]  # fmt: skip
        last = -math.inf
        for y, number in sorted(ends):
            last = max(y, last + _APART)
            name = esc(self._chart.lines[number].name)
            place = f'x="{_WIDTH - _RIGHT + 9}" y="{last + 4}"'
            yield f'<text class="name line-{number % 4 + 1}" {place}>{name}</text>'


def _shape(kind: str, x: float, y: float) -> str:
    if kind == "circle":
        return f'<circle cx="{x}" cy="{y}" r="4"/>'
    outlines = {
        "square": f"M{x - 4} {y - 4}h8v8h-8z",
        "diamond": f"M{x} {y - 5}l5 5l-5 5l-5 -5z",
        "triangle": f"M{x} {y - 5}l5 9h-10z",
    }
    return f'<path d="{outlines[kind]}"/>'
