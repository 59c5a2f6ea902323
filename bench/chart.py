"""Draws line charts as SVG, as far as the benches need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, log10
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 560, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 50
COLOURS = ("#1f5fa8", "#c0561f", "#3b7d3b", "#7a4a9c")
TICKS = 5

Points = Sequence[tuple[float, float]]


@dataclass
class Chart:
    """Lines over one range of x, which begins at 0 as that of y does."""

    title: str
    x: str
    y: str
    lines: dict[str, Points] = field(default_factory=dict)
    bands: dict[str, tuple[Points, Points]] = field(default_factory=dict)  # lower and upper edges

    def write(self, path: Path) -> None:
        edges = [points for band in self.bands.values() for points in band]
        points = [point for line in (*self.lines.values(), *edges) for point in line]
        scale = _Scale(max(x for x, _ in points) * 1.05, max(y for _, y in points) * 1.1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(WIDTH / 2, 20, self.title, 'text-anchor="middle" font-size="14"'),
            *self._axes(scale),
        ]
        for name, (lower, upper) in self.bands.items():
            outline = " ".join(scale.place(point) for point in (*lower, *reversed(upper)))
            parts.append(f'<polygon points="{outline}" fill="#999999" fill-opacity="0.25"/>')
            x, y = upper[-1]
            parts.append(
                _text(*scale.at(x, y), name, 'text-anchor="end" fill="#666666" dy="14" dx="-4"'),
            )
        for number, (name, line) in enumerate(self.lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            way = " ".join(scale.place(point) for point in line)
            parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [_dot(*scale.at(x, y), colour) for x, y in line]
            parts.append(_text(LEFT + 12, TOP + 14 + 16 * number, name, f'fill="{colour}"'))
        path.write_text("\n".join([*parts, "</svg>"]) + "\n")

    def _axes(self, scale: _Scale) -> list[str]:
        parts = [
            f'<path d="M{LEFT} {TOP} V{HEIGHT - BOTTOM} H{WIDTH - RIGHT}" fill="none" stroke="black"/>',
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, self.x, 'text-anchor="middle"'),
            _text(14, HEIGHT / 2, self.y, f'text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2:g})"'),
        ]
        for x in _ticks(scale.x_max):
            across, up = scale.at(x, 0)
            parts.append(_text(across, up + 16, f"{x:g}", 'text-anchor="middle"'))
        for y in _ticks(scale.y_max):
            across, up = scale.at(0, y)
            parts.append(_text(across - 6, up + 4, f"{y:g}", 'text-anchor="end"'))
        return parts


@dataclass(frozen=True)
class _Scale:
    """Where values are in the picture."""

    x_max: float
    y_max: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + across * x / self.x_max, HEIGHT - BOTTOM - up * y / self.y_max

    def place(self, point: tuple[float, float]) -> str:
        x, y = self.at(*point)
        return f"{x:.1f},{y:.1f}"


def _ticks(most: float) -> list[float]:
    """Return round numbers from 0 on: about as many as there is room for."""
    unit = 10 ** floor(log10(most / TICKS))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor * TICKS >= most * 0.8)
    return [round(step * number, 9) for number in range(int(most / step) + 1)]


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
