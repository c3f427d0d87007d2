"""Assets for tables whose rows are judged, and conditions with their meaning in Python."""

from collections.abc import Callable

from lakehouse import Append, Changes, Merge, Overwrite, View
from tests.support.lake import Lake

Holds = Callable[[str, int | None], bool]
"""Whether a condition is TRUE of a group and a value; NULL is not."""
CONDITIONS: dict[str, Holds] = {
    "v > 0": lambda _, v: v is not None and v > 0,
    "v IS NULL OR v < 2": lambda _, v: v is None or v < 2,
    "g <> 'p'": lambda g, _: g != "p",
    "v >= 0 OR g = 'q'": lambda g, v: (v is not None and v >= 0) or g == "q",
    "NOT v = 1": lambda _, v: v is not None and v != 1,
    "FALSE": lambda _, __: False,
}


class KilledError(BaseException):
    """Ends a run as the kill of its process does: nothing in the library catches it."""


def create_source(lake: Lake) -> None:
    """Creates `src` with a row of a negative value and a row without a value."""
    lake.create("src", [(1, "a", 5), (2, "a", -1), (3, "b", None), (4, "c", 9)], "id int, g string, v int")


def copies(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def all_rows(src: Changes) -> Overwrite:
    return Overwrite(src.source)


def largest(src: Changes) -> View:
    return View("SELECT g, max(v) AS v FROM src GROUP BY g")


def log(src: Changes) -> Append:
    return Append(src.appended())
