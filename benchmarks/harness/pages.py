"""docs/benchmarks.md, and the page of each suite below docs/benchmarks, from everything that has been measured."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.report import PROJECT, Result, kept, table

WRITTEN = PROJECT / "benchmarks"
"""Where the text is that a person writes: above the results of all suites, and below those of one."""
TITLES = {
    "small_step": "One changed row",
    "quiet": "No change upstream",
    "backlog": "Versions that wait",
    "orchestration": "Dagster's share",
    "served": "The small step through the server",
    "many_steps": "50 small steps in a row",
    "upkeep": "Upkeep of a table of 10,000 small commits",
    "growth": "Growth",
    "scattered": "Scattered changes",
    "matrix": "Merge matrix",
    "layout": "Where the rows of a key lie",
    "graph": "A graph derived from TPC-H",
    "views": "Views",
    "scd": "Type 2 of events",
    "history": "The history of a table",
    "extracts": "Full extracts",
    "archive": "Where the events of a key lie",
    "cliffs": "Cliffs",
    "key_types": "Keys of any type",
    "expectations": "Expectations",
    "hourly": "Fifty days of an hourly table",
    "contention": "Writers that meet",
    "stores": "On S3, beside a disk",
    "cold": "A process for every run",
    "live": "From source commit to gold",
}
"""The suites in the order of the pages."""


def suite_of(result: Result) -> str:
    return result.name.removesuffix("_large")


def page_of(suite: str, results: Sequence[Result]) -> str:
    """The page of a suite: its results, small sizes first, then what a person wrote about them."""
    text = WRITTEN / "pages" / f"{suite}.md"
    sections = [result.to_markdown().rstrip() for result in results]
    parts = [sections[0].removeprefix("#")] if len(sections) == 1 else [f"# {TITLES[suite]}", *sections]
    if text.exists():
        parts.append(text.read_text().rstrip())
    return "\n\n".join(parts) + "\n"


def index_of(results: dict[str, list[Result]]) -> str:
    """The page above the suites: how to read them, how many goals each has reached, and every goal that was missed."""
    counts, missed = list[tuple[str, str, str]](), list[tuple[str, str, str]]()
    for suite, of_suite in results.items():
        aims = [goal for result in of_suite for goal in result.goals if goal.reached is not None]
        link = f"[{TITLES[suite]}](benchmarks/{suite}.md)"
        counts.append((link, str(len(aims)), str(sum(goal.reached is True for goal in aims))))
        missed += [(link, goal.what, goal.measured) for goal in aims if goal.reached is False]
    parts = [
        (WRITTEN / "how_to_read.md").read_text().rstrip(),
        "## Suites\n\n" + table(("suite", "goals", "reached"), counts),
        "## Goals that were missed\n\n" + table(("suite", "goal", "measured"), missed),
    ]
    return "\n\n".join(parts) + "\n"


def write_pages(folder: Path = PROJECT / "docs") -> None:
    """Every page, into the folder of the documentation."""
    results: dict[str, list[Result]] = {suite: [] for suite in TITLES}
    for result in kept():
        results[suite_of(result)].append(result)
    measured = {suite: of_suite for suite, of_suite in results.items() if of_suite}
    (folder / "benchmarks").mkdir(exist_ok=True)
    for suite, of_suite in measured.items():
        (folder / "benchmarks" / f"{suite}.md").write_text(page_of(suite, of_suite))
    (folder / "benchmarks.md").write_text(index_of(measured))


if __name__ == "__main__":
    write_pages()
