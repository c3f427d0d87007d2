"""Charts of bars and lines, as pictures that a page can show on a light and on a dark background."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, BAR, GAP = 760, 330, 18, 8
OURS, OTHERS, TEXT = "#2f7ed8", "#9aa5b1", "#7d8590"


def bars(title: str, unit: str, lines: Sequence[tuple[str, float, bool]]) -> str:
    """An SVG with a bar for each line.

    Args:
        title: What the picture shows, for readers who cannot see it.
        unit: The unit, written after each number.
        lines: For each line its name, its number, and whether the bar is this library's.
    """
    longest = max(number for _, number, _ in lines)
    room = WIDTH - LEFT - 90
    height = len(lines) * (BAR + GAP) + GAP
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} fill="{TEXT}">',
        f"<title>{escape(title)}</title>",
    ]
    for index, (name, number, ours) in enumerate(lines):
        top = GAP + index * (BAR + GAP)
        length, middle = max(room * number / longest, 1), top + BAR - 5
        parts += [
            f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{length:.0f}" height="{BAR}" fill="{OURS if ours else OTHERS}"/>',
            f'<text x="{LEFT + length + 6:.0f}" y="{middle}">{number:g} {escape(unit)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a picture: its name and its points."""

    name: str
    points: Sequence[tuple[float, float]]


COLOURS = (OURS, "#d9822b", "#3aa675", "#b05cc6", OTHERS)
TALL, EDGE, FOOT = 260, 60, 40


def lines(
    title: str,
    unit: str,
    axis: str,
    drawn: Sequence[Line],
    marks: Sequence[float] = (),
    ticks: Sequence[tuple[float, str]] = (),
) -> str:
    """An SVG with lines that run from left to right.

    Args:
        title: What the picture shows.
        unit: The unit, written next to the largest number.
        axis: What the horizontal axis counts.
        drawn: The lines; a line without points is left out.
        marks: Where something happened: a thin line from top to bottom.
        ticks: The positions of texts below the axis, and the texts; without ticks the largest number is there.
    """
    drawn = [line for line in drawn if line.points]
    right = max((x for line in drawn for x, _ in line.points), default=1) or 1
    top = max((y for line in drawn for _, y in line.points), default=1) or 1
    room, high = WIDTH - EDGE - 190, TALL - FOOT - GAP

    def at(x: float, y: float) -> str:
        return f"{EDGE + room * x / right:.1f},{GAP + high * (1 - y / top):.1f}"

    counted = axis if ticks else f"{right:.0f} {axis}"
    box = f'viewBox="0 0 {WIDTH} {TALL}" role="img" font-family="sans-serif" font-size="13"'
    base = GAP + high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} fill="{TEXT}">',
        f"<title>{escape(title)}</title>",
        *(
            f'<path d="M{at(x, 0)} L{at(x, top)}" stroke="{TEXT}" stroke-opacity="0.25"/>'
            for x in marks
            if 0 <= x <= right
        ),
        f'<path d="M{at(0, top)} L{at(0, 0)} L{at(right, 0)}" stroke="{TEXT}" fill="none"/>',
        f'<text x="{EDGE - 6}" y="{GAP + 10}" text-anchor="end">{top:.0f} {escape(unit)}</text>',
        f'<text x="{EDGE - 6}" y="{base}" text-anchor="end">0</text>',
        *(
            f'<text x="{EDGE + room * x / right:.1f}" y="{base + 20}" text-anchor="middle">{escape(text)}</text>'
            for x, text in ticks
        ),
        f'<text x="{EDGE + room}" y="{base + (36 if ticks else 20)}" text-anchor="end">{escape(counted)}</text>',
    ]
    for index, line in enumerate(drawn):
        colour, y = COLOURS[index % len(COLOURS)], GAP + 12 + 20 * index
        path = " L".join(at(*point) for point in line.points)
        parts += [
            f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"/>',
            f'<rect x="{EDGE + room + 14}" y="{y - 9}" width="10" height="10" fill="{colour}"/>',
            f'<text x="{EDGE + room + 30}" y="{y}">{escape(line.name)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
