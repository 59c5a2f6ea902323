"""Charts of a panel as SVG: bars in parts of a base, lines over a number, and bars of parts.

Texts, lines and bars have classes, whose colours charts.css gives for light and dark. Texts stand
in columns and rows of their own, which are as wide as their longest text, so that none overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, log10
from pathlib import Path
from xml.sax.saxutils import escape

CHART_STYLE = Path(__file__).with_name("charts.css")
# What the bars of the papers are filled with; each document with charts has it once.
HATCH = (
    '<defs><pattern id="hatched" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path d="M0 0 V6" class="hatch"/></pattern></defs>'
)
WIDTH = 640
GAP = 10
# Pixels that a character takes at the font size of the charts, 12, in a wide and bold font.
CHARACTER = 8.4
LINE = 16  # pixels from one line of text to the next
BAR = 11
COLOURS = 8  # classes `series0` … in charts.css
TICKS = 5


@dataclass(frozen=True)
class Bar:
    """One system: what was measured, with the least and the most, and what was published; or marks."""

    label: str
    measured: float | str | None = None
    low: float = 0.0
    high: float = 0.0
    published: float | str | None = None
    is_ours: bool = False
    counterpart: str = ""  # the paper's name of it, if that is another


@dataclass(frozen=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    is_published: bool = False
    is_ours: bool = False


@dataclass
class _Drawing:
    """Parts of a picture, how high it has become, and what it shows in words for who does not see it."""

    name: str
    height: float = 0.0
    parts: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        known = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{known}>{escape(text)}</text>'
        )

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        size = f'width="{max(width, 0.5):.1f}" height="{height:g}"'
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{kind}"/>')

    def path(self, way: str, kind: str) -> None:
        self.parts.append(f'<path d="{way}" class="{kind}"/>')

    def svg(self) -> str:
        words = f"{self.name}. {'; '.join(self.told)}." if self.told else self.name
        title = escape(words, {'"': "&quot;"})
        return "\n".join(
            [
                f'<svg viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" aria-label="{title}">',
                *self.parts,
                "</svg>",
            ]
        )


def number(value: float) -> str:
    """Format a number at three significant digits, without an exponent where it is readable."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.1e}"
    digits = max(0, 2 - floor(log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def bars(name: str, rows: Sequence[Bar], base: str) -> str:
    """Draw systems in parts of a base, on a logarithmic axis; published bars are hatched beside."""
    values = [
        value
        for row in rows
        for value in (row.measured, row.low, row.high, row.published)
        if isinstance(value, int | float) and value > 0
    ]
    drawing = _Drawing(name)
    left = _width(row.label for row in rows) + GAP
    texts = [text for row in rows for text in _texts(row)]
    right = WIDTH - _width(texts) - GAP
    axis = _Logarithmic(min([1.0, *values]), max([1.0, *values]), left, right)
    bottom = LINE
    places = []
    for row in rows:
        places.append(bottom)
        bottom += LINE * max(1, len(_texts(row))) + 4
    for tick in axis.ticks():
        drawing.path(f"M{axis.place(tick):.1f} {LINE - 6} V{bottom}", "base" if tick == 1 else "grid")
    _tick_texts(drawing, axis, bottom + LINE - 2)
    for row, top in zip(rows, places, strict=True):
        _bar(drawing, axis, row, top, left, right)
        drawing.told.append(f"{row.label} {', '.join(_texts(row)) or 'nothing'}")
    drawing.told[:1] = [f"Times {base}: {drawing.told[0]}"] if drawing.told else []
    drawing.text((left + right) / 2, bottom + 2 * LINE, f"times {base}", "muted", "middle")
    drawing.height = bottom + 2 * LINE + 6
    return drawing.svg()


def _texts(row: Bar) -> list[str]:
    found = []
    if row.measured is not None:
        found.append(_value(row.measured))
    if row.published is not None:
        found.append(_published(row))
    return found


def _published(row: Bar) -> str:
    assert row.published is not None
    return f"{_value(row.published)} {row.counterpart or 'paper'}"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{number(value)}×"


def _bar(drawing: _Drawing, axis: _Logarithmic, row: Bar, top: float, left: float, right: float) -> None:
    drawing.text(left - GAP, top + 11, row.label, "strong" if row.is_ours else "", "end")
    if row.measured is not None:
        if isinstance(row.measured, int | float):
            kind = "ours" if row.is_ours else "peer"
            _from_base(drawing, axis, top, row.measured, kind)
            if row.high > row.low > 0:
                middle, low, high = top + 2 + BAR / 2, axis.place(row.low), axis.place(row.high)
                drawing.path(
                    f"M{low:.1f} {middle - 3} v6 M{low:.1f} {middle} H{high:.1f} M{high:.1f} {middle - 3} v6",
                    "whisker",
                )
        drawing.text(right + GAP, top + 11, _value(row.measured), "strong" if row.is_ours else "")
        top += LINE
    if row.published is not None:
        if isinstance(row.published, int | float):
            _from_base(drawing, axis, top, row.published, "paper")
        drawing.text(right + GAP, top + 11, _published(row), "muted")


def _from_base(drawing: _Drawing, axis: _Logarithmic, top: float, ratio: float, kind: str) -> None:
    """Draw from the base, to the left if it is less: the length of a bar is a ratio."""
    start, end = sorted((axis.place(1.0), axis.place(ratio)))
    drawing.rectangle(start, top + 2, end - start, BAR, kind)


@dataclass(frozen=True)
class _Logarithmic:
    """An axis from a power of ten to another."""

    least: float
    most: float
    start: float
    end: float

    @property
    def _powers(self) -> tuple[int, int]:
        low, high = floor(log10(self.least) + 1e-9), ceil(log10(self.most) - 1e-9)
        return low, max(high, low + 1)

    def place(self, value: float) -> float:
        low, high = self._powers
        return self.start + (log10(value) - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        low, high = self._powers
        return [10.0**power for power in range(low, high + 1)]


@dataclass(frozen=True)
class _Linear:
    """An axis that begins at 0."""

    most: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + value / (self.most * 1.05) * (self.end - self.start)

    def ticks(self) -> list[float]:
        unit = 10.0 ** floor(log10(self.most / TICKS))
        step = next(unit * by for by in (1, 2, 2.5, 5, 10) if unit * by * TICKS >= self.most * 0.8)
        return [round(step * count, 9) for count in range(int(self.most * 1.05 / step) + 1)]


def _tick_texts(drawing: _Drawing, axis: _Logarithmic | _Linear, y: float) -> None:
    """Write the numbers of an axis across, and leave out those without room."""
    end = -inf
    for tick in axis.ticks():
        text = number(tick)
        start = axis.place(tick) - _width([text]) / 2
        if start > end + 4:
            drawing.text(axis.place(tick), y, text, "muted", "middle")
            end = axis.place(tick) + _width([text]) / 2


def _width(texts: object) -> float:
    return max((len(str(text)) * CHARACTER for text in texts), default=0.0)  # type: ignore[attr-defined]


def lines(
    name: str,
    known: Sequence[Line],
    x_title: str,
    y_title: str,
    logarithmic: bool = False,
    band: tuple[str, float, float] | None = None,
) -> str:
    """Draw lines, which a list under the picture names; a band is a range of y."""
    points = [point for line in known for point in line.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ys += [band[2]] if band else []
    drawing = _Drawing(name)
    left, right, top, bottom = 64.0, WIDTH - 24.0, 30.0, 290.0
    # A logarithm has no place for 0: it stands at a tenth of the least that is more.
    least = min((x for x in xs if x > 0), default=1.0)
    zero = least / 10 if logarithmic and 0 in xs else None
    x_axis: _Logarithmic | _Linear
    y_axis: _Logarithmic | _Linear
    if logarithmic:
        x_axis = _Logarithmic(zero or least, max(xs), left, right)
        y_axis = _Logarithmic(min(ys), max(ys), bottom, top)
    else:
        x_axis, y_axis = _Linear(max(xs), left, right), _Linear(max(ys), bottom, top)
    for tick in y_axis.ticks():
        drawing.path(f"M{left} {y_axis.place(tick):.1f} H{right}", "grid")
        drawing.text(left - 6, y_axis.place(tick) + 4, number(tick), "muted", "end")
    drawing.path(f"M{left} {top} V{bottom} H{right}", "axis")
    drawing.text(left, top - 14, y_title, "muted")
    below = bottom + LINE + 4  # the least number of the other axis ends where this one begins
    if zero is None:
        _tick_texts(drawing, x_axis, below)
    else:
        for x in sorted(set(xs)):
            drawing.text(x_axis.place(x or zero), below, number(x), "muted", "middle")
    drawing.text((left + right) / 2, below + LINE, x_title, "muted", "middle")
    if band:
        high, low = y_axis.place(band[2]), y_axis.place(band[1])
        drawing.rectangle(left, high, right - left, low - high, "band")
    for index, line in enumerate(known):
        kind = f"series{index % COLOURS}{' dashed' if line.is_published or index >= COLOURS else ''}"
        places = [(x_axis.place(x or zero or least), y_axis.place(y)) for x, y in line.points]
        way = " ".join(f"{'M' if not at else 'L'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(places))
        drawing.path(way, f"line {kind}{' strong' if line.is_ours else ''}")
        ends = dict((line.points[0], line.points[-1]))
        told = " to ".join(f"{number(y)} at {number(x)}" for x, y in ends.items())
        drawing.told.append(f"{line.label}{', published' if line.is_published else ''}: {told}")
        drawing.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot {kind}"/>' for x, y in places]
    drawing.height = _legend(drawing, known, band, below + 2 * LINE)
    return drawing.svg()


def _legend(
    drawing: _Drawing, known: Sequence[Line], band: tuple[str, float, float] | None, top: float
) -> float:
    """Name lines and the band in two columns; return where they end."""
    names = [(line.label, f"series{index % COLOURS}", line.is_published) for index, line in enumerate(known)]
    columns = 2 if _width(name for name, _, _ in names) < WIDTH / 2 - 60 else 1
    for index, (label, kind, is_published) in enumerate(names):
        x, y = 64 + (index % columns) * (WIDTH - 64) / columns, top + index // columns * LINE
        dashed = " dashed" if is_published or index >= COLOURS else ""
        drawing.path(f"M{x:.1f} {y:.1f} h22", f"line {kind}{dashed}")
        drawing.text(x + 28, y + 4, label)
    end = top + ceil(len(names) / columns) * LINE
    if band:
        drawing.rectangle(64, end - 5, 22, 10, "band")
        drawing.text(92, end + 4, band[0])
        end += LINE
    return end


def stacks(name: str, rows: dict[str, list[float]], parts: Sequence[str], unit: str) -> str:
    """Draw each row as one bar of parts that follow each other, on a linear axis."""
    drawing = _Drawing(name)
    totals = {row: f"{number(sum(values))} {unit}" for row, values in rows.items()}
    left, right = _width(rows) + GAP, WIDTH - _width(totals.values()) - GAP
    widths = [18 + _width([part]) + 2 * GAP for part in parts]
    x = max(0.0, min(left, WIDTH - sum(widths)))
    for index, (part, width) in enumerate(zip(parts, widths, strict=True)):
        drawing.rectangle(x, 3, 12, BAR, f"part{index}")
        drawing.text(x + 18, 13, part)
        x += width
    axis = _Linear(max((sum(values) for values in rows.values()), default=1.0) or 1.0, left, right)
    top = 2.0 * LINE
    bottom = top + len(rows) * (LINE + 4)
    for tick in axis.ticks():
        drawing.path(f"M{axis.place(tick):.1f} {top - 4} V{bottom}", "grid")
    _tick_texts(drawing, axis, bottom + LINE - 2)
    for row, values in rows.items():
        drawing.text(left - GAP, top + 11, row, "strong" if row == "hypostyle" else "", "end")
        start = 0.0
        for index, value in enumerate(values):
            drawing.rectangle(
                axis.place(start), top + 2, axis.place(start + value) - axis.place(start), BAR, f"part{index}"
            )
            start += value
        drawing.text(right + GAP, top + 11, totals[row])
        told = ", ".join(f"{part} {number(value)}" for part, value in zip(parts, values, strict=True))
        drawing.told.append(f"{row}: {told}, in all {totals[row]}")
        top += LINE + 4
    drawing.text((left + right) / 2, bottom + 2 * LINE, unit, "muted", "middle")
    drawing.height = bottom + 2 * LINE + 6
    return drawing.svg()
