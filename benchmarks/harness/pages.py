"""Writes from all results docs/benchmarks.md, with a picture for each subject, and the tables of each suite as text."""

import re
from collections.abc import Sequence
from math import log10
from pathlib import Path

from benchmarks.harness.chart import Line, bars, lines
from benchmarks.harness.report import PROJECT, Result, kept, table
from benchmarks.subjects import OTHERS, SUBJECTS, TITLES, Subject

TEMPLATE = PROJECT / "benchmarks" / "page.md"
"""The handwritten text about all subjects."""
OURS = ("ours", "view")
"""The names of this library's rows."""
SHOWN = ("wall s", "CPU s")


def suite_of(result: Result) -> str:
    return result.name.removesuffix("_large")


def file_of(suite: str) -> str:
    return f"benchmarks/{suite}.txt"


def chart_of(subject: Subject, result: Result) -> str:
    """The picture of a subject: one column of its rows."""
    column, unit = list(result.columns).index(subject.drawn), subject.drawn.removeprefix("wall ")
    if subject.curves:
        return curves_of(subject, result, column)
    drawn = [
        (row[0], float(row[column].replace(",", "")), "ours" in row[0] or "view" in row[0])
        for row in rows_of(subject, result)
    ]
    return bars(f"{subject.title}: {subject.drawn}", unit, drawn)


_BY_SHARE = re.compile(r"(?P<beginning>.+), (?P<percent>[\d.]+) %: (?P<who>.+)")


def curves_of(subject: Subject, result: Result, column: int) -> str:
    """The picture of a subject with rows for several shares: a line for each contestant over the share's logarithm."""
    named = [(match, row) for row in result.rows if (match := _BY_SHARE.fullmatch(row[0])) is not None]
    shares = sorted({float(match["percent"]) for match, _ in named})
    drawn = [
        Line(
            f"{beginning}: {who}",
            [
                (log10(float(match["percent"]) / shares[0]), float(row[column].replace(",", "")))
                for match, row in named
                if (match["beginning"], match["who"]) == (beginning, who)
            ],
        )
        for beginning in subject.curves
        for who in dict.fromkeys(row[0].rpartition(": ")[2] for row in rows_of(subject, result))
    ]
    ticks = [(log10(share / shares[0]), f"{share:g} %") for share in shares]
    return lines(f"{subject.title}: {subject.drawn}", subject.drawn, "of the rows changed", drawn, ticks=ticks)


def rows_of(subject: Subject, result: Result) -> list[Sequence[str]]:
    """The rows of a result that a subject shows, in its order.

    Raises:
        KeyError: The suite no longer has a row of that name.
    """
    by_name = {row[0]: row for row in result.rows}
    return [by_name[name] for name in subject.rows]


def section_of(subject: Subject, result: Result) -> str:
    columns = [result.columns.index(name) for name in SHOWN if name in result.columns]
    rows = [(row[0], *(row[column] for column in columns)) for row in rows_of(subject, result)]
    picture = f"![{subject.drawn}](images/benchmarks/{result.name}.svg)"
    shown = table(("", *(result.columns[column] for column in columns)), rows)
    text = f"{subject.says} [All figures]({file_of(suite_of(result))})."
    return "\n\n".join([f"## {subject.title}", picture, shown, text])


def missed_goals(results: Sequence[Result]) -> str:
    """The missed goals, with a line for each suite."""
    missed = dict[str, list[str]]()
    for result in results:
        for goal in result.goals:
            if goal.reached is False:
                missed.setdefault(TITLES[suite_of(result)], []).append(f"{goal.what} ({goal.measured})")
    aims = [goal for result in results for goal in result.goals if goal.reached is not None]
    reached = sum(goal.reached is True for goal in aims)
    counted = f"{reached} of {len(aims)} goals are reached. These are missed, with what was measured:"
    listed = (f"- {title}: {'; '.join(goals)}" for title, goals in missed.items())
    return "\n".join([f"## Goals that were missed\n\n{counted}\n", *listed])


def page_of(results: Sequence[Result]) -> str:
    """The page: a section for each subject, a line for each other suite, and every missed goal."""
    by_name = {result.name: result for result in results}
    others = [f"- [{TITLES[suite]}]({file_of(suite)}): {says}" for suite, says in OTHERS.items()]
    subjects = "\n\n".join(section_of(subject, by_name[subject.result]) for subject in SUBJECTS)
    other = "\n".join(["## Other subjects\n", *others])
    above, below = TEMPLATE.read_text().split("<!-- subjects -->")
    return f"{above}{subjects}\n\n{other}\n\n{missed_goals(results)}{below}"


def write_pages(folder: Path = PROJECT / "docs") -> None:
    """Writes the page, its pictures, and the tables of each suite into the folder of the documentation."""
    results = kept()
    by_name = {result.name: result for result in results}
    (folder / "images/benchmarks").mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks").mkdir(exist_ok=True)
    for suite in {suite_of(result) for result in results}:
        sections = [result.to_text() for result in results if suite_of(result) == suite]
        (folder / file_of(suite)).write_text("\n\n".join(sections))
    for subject in SUBJECTS:
        picture = chart_of(subject, by_name[subject.result])
        (folder / f"images/benchmarks/{subject.result}.svg").write_text(picture)
    (folder / "benchmarks.md").write_text(page_of(results))


if __name__ == "__main__":
    write_pages()
