"""Bars, as a picture that a page shows on a light and on a dark ground."""

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, BAR, GAP = 760, 330, 18, 8
OURS, OTHERS, TEXT = "#2f7ed8", "#9aa5b1", "#7d8590"


def bars(title: str, unit: str, lines: Sequence[tuple[str, float, bool]]) -> str:
    """An SVG with a bar for each line.

    Args:
        title: What the picture shows, for readers who do not see it.
        unit: Stands behind each number.
        lines: Name, number, and whether the bar is this library's.
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
