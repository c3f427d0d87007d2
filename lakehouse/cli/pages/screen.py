"""How answers look: tables that fold, counts, ages and short ids; plain text where the output is not a terminal.

A renderer takes values and returns a renderable of rich. Only `show` and `working` print.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import StringIO, UnsupportedOperation
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_PIPE = 10_000
"""The width of an output that is not a terminal, in columns: nothing is wrapped there."""
_HTML = 160
"""The width of an HTML file, in columns."""
_ASCII = str.maketrans(
    {"●": "*", "○": "o", "◌": ".", "◐": "%", "✔": "+", "✖": "x", "━": "=", "╌": "-", "─": "-", "→": ">"}
) | (str.maketrans({"│": "|", "├": "|", "└": "`", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "·": "-", "…": "~"}))
"""The character that replaces a sign where the output takes no Unicode."""

GOOD, WAITING, WRONG, QUIET, NAME = "green", "yellow", "bold red", "dim", "bold"
"""Styles. None carries a meaning alone: each is used together with a word or a sign."""


def show(shown: RenderableType, output: TextIO) -> None:
    """Prints a page: as wide and as colourful as the output is, which rich finds out (NO_COLOR, TERM, COLUMNS)."""
    console = Console(file=output)
    width = console.width if console.is_terminal else _PIPE
    is_coloured = console.is_terminal and not console.no_color
    text = render(shown, width, colors=console.color_system if is_coloured else None)
    if not console.encoding.lower().startswith("utf"):
        text = text.translate(_ASCII).encode(console.encoding, "replace").decode(console.encoding)
    output.write(text)
    output.flush()


def render(shown: RenderableType, width: int = _PIPE, colors: str | None = None) -> str:
    """A page as text."""
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colors is not None,
        color_system=colors,  # pyright: ignore[reportArgumentType]  (rich names them in a literal type)
        no_color=colors is None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(shown)
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


def as_html(shown: RenderableType) -> str:
    """A page as one HTML file that needs no other file."""
    console = Console(
        file=StringIO(), record=True, width=_HTML, force_terminal=True, highlight=False, markup=False, emoji=False
    )
    console.print(shown)
    return console.export_html()


def grid(*headings: str, right: Iterable[str] = (), folding: Iterable[str] = ()) -> Table:
    """A table whose only line is the one below its headings."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style=NAME, show_edge=False)
    for heading in headings:
        side = "right" if heading in right else "left"
        table.add_column(heading, justify=side, no_wrap=heading not in folding, overflow="fold")
    return table


def assemble(*parts: tuple[str, str] | str | Text) -> Text:
    """A line of texts, each with its style."""
    return Text.assemble(*parts)


def table_name(name: str) -> Text:
    """The name of a table, with its folder dimmed."""
    folder, slash, own = name.rpartition("/")
    return Text.assemble((folder + slash, QUIET), (own, NAME))


def short(run: str | None) -> str:
    """The id of a run, shortened as on Dagster's pages; empty if there is no run."""
    return "" if run is None else run[:8]


def count(number: int | None) -> str:
    """A count: exact below a million; nothing if it is unknown."""
    if number is None:
        return ""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.1f} M"


_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(seconds: float) -> str:
    """A time span in its largest unit: "2 min"; for hours and days also in the next unit: "1 h 4 min"."""
    whole = max(0, int(seconds))
    for place, (unit, size) in enumerate(_UNITS):
        if whole >= size or unit == "s":
            first, rest = divmod(whole, size)
            finer = _UNITS[place + 1] if unit in ("d", "h") else None
            more = 0 if finer is None or first >= 10 else rest // finer[1]
            return f"{first} {unit}" + (f" {more} {finer[0]}" if finer is not None and more else "")
    raise AssertionError(seconds)


def ago(millis: int | None, now: float) -> str:
    """How long ago a time was; nothing if there is none.

    Args:
        millis: The time, in milliseconds since the epoch.
        now: The present, in seconds since the epoch.
    """
    if millis is None:
        return ""
    seconds = now - millis / 1000
    if seconds < -60:
        return f"in {_coarse(-seconds)}"
    return "just now" if seconds < 5 else f"{_coarse(seconds)} ago"


def _coarse(seconds: float) -> str:
    return " ".join(span(seconds).split()[:2])


@dataclass(frozen=True, slots=True)
class Work:
    """How a command shows what it does while it works: `update` replaces a text, `say` prints a lasting line."""

    update: Callable[[str], None]
    say: Callable[[RenderableType], None]


@contextmanager
def working(doing: str, output: TextIO) -> Generator[Work]:
    """Shows that something takes time while it does. An output that is not a terminal gets only the lasting lines."""
    console = Console(file=output, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield Work(lambda _: None, lambda shown: show(shown, output))
        return
    spinner = Spinner("dots", Text(f"{doing} ..."), style="status.spinner")
    # What an asset prints is left where it goes, because Dagster keeps it in the log of its step.
    with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield Work(lambda text: spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis")), console.print)


def apart_from_capture(output: TextIO) -> AbstractContextManager[TextIO]:
    """An output that stays where it is while Dagster lets the descriptor of the process write into a file of a step.

    Dagster copies that file to where the descriptor led, but stops with the step, before it has copied the last lines.
    """
    try:
        return os.fdopen(os.dup(output.fileno()), "w", encoding=output.encoding, errors=output.errors)
    except UnsupportedOperation:  # an output without a descriptor, which nothing captures
        return nullcontext(output)


def working_beside(doing: str) -> AbstractContextManager[Work]:
    """Shows on the error output that something takes time, because the standard output is the answer alone."""
    return working(doing, sys.stderr)
