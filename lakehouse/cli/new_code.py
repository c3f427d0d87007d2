"""Which tables wait to be compared because the code of their assets changed, by the marks in their logs."""

from dataclasses import dataclass
from itertools import islice

from lakehouse.cursor.code import Code
from lakehouse.cursor.mark import Mark
from lakehouse.delta.log import Head, Log

LOOKED_BACK = 200
"""In so many of the newest commits marks of partitions are looked for."""


@dataclass(frozen=True, slots=True)
class NewCode:
    """The code of a table's asset is another than the code that computed its rows.

    Args:
        why: Which code, as half a sentence.
        rows: How many rows the table has, all of which its next run compares; None if its log does not say that, and of
            a table whose partitions are compared one by one.
        partitions: The partitions that wait, each for its own next run; empty if the table has none.
    """

    why: str
    rows: int | None
    partitions: tuple[str, ...] = ()


def new_code(name: str, log: Log, head: Head, newest: Mark, code: Code) -> NewCode | None:
    """What of a table waits to be compared; None if nothing does.

    Args:
        name: The asset key of the table, its parts joined by "/".
        log: The table's log.
        head: Where the table stands.
        newest: The newest mark that holds.
        code: The code of the asset as it is now.
    """
    if not newest.partitions:
        why = code.why_other(newest.code)
        return None if why is None else NewCode(why, log.live_rows(head.version))
    marks = dict[str, Mark]()
    for commit in islice(log.commits(head.version), LOOKED_BACK):
        try:
            mark = Mark.from_json(commit.user_metadata)
        except ValueError:
            continue
        if mark is not None and mark.asset == name:
            marks = dict.fromkeys(mark.partitions, mark) | marks
    waiting = {partition: why for partition, mark in sorted(marks.items()) if (why := code.why_other(mark.code))}
    return NewCode(next(iter(waiting.values())), None, tuple(waiting)) if waiting else None
