"""How `lakehouse status` looks: a line for each table, how far it has read each source, and what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.command import about_definitions
from lakehouse.cli.comparisons import Comparison
from lakehouse.cli.pages.readers_page import holding
from lakehouse.cli.pages.screen import (
    GOOD,
    NAME,
    QUIET,
    WAITING,
    WRONG,
    Layouts,
    ago,
    assemble,
    count,
    grid,
    indent,
    span,
    table_name,
)
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import count_of
from lakehouse.status.reader_looks import Holder
from lakehouse.status.table_status import NewCode, SourcePosition, TableStatus
from lakehouse.upkeep.due import Task

_SHOWN = 3
"""So many partitions are named, and so many tables whose upkeep is due."""
SOON = timedelta(days=2)
"""A deadline is told from so long before it on, as the check `up_to_date` warns."""
_BAR = 10
"""The columns of a bar."""
SIGNS: Mapping[TableState, tuple[str, str]] = {
    TableState.MISSING: ("◌", QUIET),
    TableState.SOURCE: ("○", QUIET),
    TableState.UP_TO_DATE: ("✔", GOOD),
    TableState.BEHIND: ("●", WAITING),
    TableState.BY_PARTITION: ("◐", ""),
    TableState.GAP: ("✖", WRONG),
    TableState.UNREADABLE: ("✖", WRONG),
    TableState.UNKNOWN: ("?", QUIET),
}


@dataclass(frozen=True, slots=True)
class StatusPage:
    """Where all tables stand.

    Args:
        statuses: The tables.
        compared: When each was last compared with a recompute, as far as that is known.
        unknown: Why that is not known, as a clause; None if it is, or if nobody asks.
        now: The present, in seconds since the epoch.
        words: The words of the command line that name the definitions; None if there are none to run.
        first: Tables that do not exist yet, and that a run makes of which nobody has to name a partition.
        holders: The readers that hold something back.
        due: The upkeep that is due, of each table that needs some.
        left_out: Why the logs of other tables cannot be read without Spark, as a clause, by their names.
    """

    statuses: Sequence[TableStatus]
    compared: Mapping[str, Comparison]
    unknown: str | None
    now: float
    words: Sequence[str] | None = field(default=())
    first: Sequence[str] = field(default=())
    holders: Sequence[Holder] = ()
    due: Mapping[str, Sequence[Task]] = field(default_factory=dict[str, Sequence[Task]])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    def view(self) -> RenderableType:
        """The page, in both layouts."""
        if not self.statuses:
            return Group(Text("0 tables."), *self._left_out())
        folded = self._table("\n" + " " * (_BAR + 1))
        return Group(Layouts(self._table("  "), Layouts(folded, self._stack())), Text(), *self._last_lines())

    def _table(self, apart: str) -> RenderableType:
        """The wide layout.

        Args:
            apart: What stands between the position of a reading and what is to be said of it.
        """
        shows = any(status.name in self.compared for status in self.statuses)
        headings = ["Table", "State", "Version", "Rows", "Written", *["Compared"] * shows, "Read so far"]
        table = grid(*headings, right=("Version", "Rows", "Written"))
        for place, (_, group) in enumerate(groupby(self.statuses, key=_folder)):
            if place:
                table.add_row()
            for status in group:
                cells = [
                    table_name(status.name),
                    _state(status),
                    "" if status.version is None else str(status.version),
                    count(status.rows),
                    ago(status.written, self.now),
                    *[self._comparison(status)] * shows,
                    Group(*self._readings(status, apart, bar=True)),
                ]
                table.add_row(*cells)
        return table

    def _stack(self) -> RenderableType:
        parts: list[RenderableType] = []
        for status in self.statuses:
            facts = [
                "" if status.version is None else f"version {status.version}",
                "" if status.rows is None else count_of(status.rows, "row"),
                ago(status.written, self.now),
            ]
            line = "  ".join(fact for fact in facts if fact)
            parts.append(Text.assemble(table_name(status.name), "  ", _state(status), ("  " + line, QUIET)))
            parts += [indent(line) for line in self._readings(status, "  ", bar=False)]
            if status.name in self.compared and self._is_comparable(status):
                parts.append(indent(Text.assemble("compared: ", self._comparison(status))))
        return Group(*parts)

    def _comparison(self, status: TableStatus) -> Text:
        comparison = self.compared.get(status.name)
        if comparison is None or status.state is TableState.MISSING:
            return Text()
        if comparison.impossible is not None or comparison.at is None:
            return assemble((str(comparison), QUIET))
        of = f" ({comparison.of})" if comparison.of else ""
        verdict = ("equal", GOOD) if comparison.equal else ("DIFFERENT", WRONG)
        return assemble(f"{ago(comparison.at, self.now)}, ", verdict, of)

    def _is_comparable(self, status: TableStatus) -> bool:
        return self.compared[status.name].impossible is None and status.state is not TableState.MISSING

    def _readings(self, status: TableStatus, apart: str, *, bar: bool) -> Iterator[Text]:
        if status.problem is not None:
            yield assemble((status.problem, WRONG))
        if status.partitions and status.reads:
            yield assemble((f"partition {', '.join(status.partitions)}, the last that was written:", QUIET))
        for reading in status.reads:
            yield self._reading(reading, apart, bar=bar, of_partition=bool(status.partitions))

    def _reading(self, reading: SourcePosition, apart: str, *, bar: bool, of_partition: bool) -> Text:
        upto = f" at {reading.read}" + ("" if reading.newest is None else f" of {reading.newest}")
        line = Text(reading.source) + Text(upto, QUIET)
        if bar and reading.newest is not None:
            line = _bar(reading) + Text(" ") + line
        if reading.problem is not None:
            return line.append(f"{apart}{reading.problem}", WRONG)
        if reading.newest is None:
            return line.append("  not looked at", QUIET)
        if reading.gap is not None:
            return line.append(f"{apart}gap: {reading.gap}", WRONG)
        if reading.is_snapshot:
            return line.append("  snapshot", QUIET)
        if reading.unread and not of_partition:
            unread = f"{apart}{count_of(reading.unread, 'version')} unread"
            since = "" if reading.since is None else f", for {span(self.now - reading.since / 1000)}"
            return line.append(unread + since, WAITING) + self._deadline(reading)
        return line

    def _deadline(self, reading: SourcePosition) -> Text:
        """How long the source still keeps what is unread, if that ends soon."""
        if reading.until is None or (remaining := reading.until / 1000 - self.now) > SOON.total_seconds():
            return Text()
        words = f"limit ended {span(-remaining)} ago" if remaining <= 0 else f"{span(remaining)} left to read them"
        return assemble((f"; {words}", WRONG))

    def _last_lines(self) -> Iterator[Text]:
        for status in self.statuses:
            if status.new_code is not None:
                yield Text(f"{status.name}: {waiting(status.new_code)}.")
        for holder in self.holders:
            yield Text(holding(holder, self.now), WAITING)
        yield from self._due_lines()
        states = [(state, sum(each.state is state for each in self.statuses)) for state in TableState]
        yield Text.assemble(
            f"{count_of(len(self.statuses), 'table')}: ",
            *_join([assemble((f"{number} {state.value}", SIGNS[state][1])) for state, number in states if number]),
            ".",
        )
        different = sorted(name for name, each in self.compared.items() if each.equal is False)
        if different:
            yield assemble((f"Different from a recompute: {', '.join(different)}.", WRONG))
        yield from self._left_out()
        if self.unknown is not None:
            yield assemble((f"When tables were compared with a recompute is not known here: {self.unknown}.", QUIET))
        following = self._next(different)
        if following is not None:
            yield assemble(("next: ", QUIET), (following[0], NAME), (f"   {following[1]}", QUIET))

    def _left_out(self) -> Iterator[Text]:
        for name, why in self.left_out.items():
            yield assemble((f"Left out: {name} ({why}).", QUIET))

    def _due_lines(self) -> Iterator[Text]:
        for table, due in [*self.due.items()][:_SHOWN]:
            works = "; ".join(f"{task.work.value}, because {task.why}" for task in due)
            yield Text(f"Upkeep of {table} is due: {works}.", WAITING)
        if len(self.due) > _SHOWN:
            more = count_of(len(self.due) - _SHOWN, "more table")
            yield Text(f"Upkeep of {more} is due: lakehouse upkeep --dry-run", WAITING)

    def _next(self, different: Sequence[str]) -> tuple[str, str] | None:
        """The command to give next, and what for; None if there is nothing to do, or if nothing can be run."""
        step = self._next_step(different)
        return None if self.words is None or step is None else (about_definitions(step[0], self.words), step[1])

    def _next_step(self, different: Sequence[str]) -> tuple[str, str] | None:
        """The command without what names the definitions."""
        named = {state: [each.name for each in self.statuses if each.state is state] for state in TableState}
        by_partition = {each.name for each in self.statuses if each.partitions}
        if named[TableState.UNREADABLE]:
            return "lakehouse doctor", "what is wrong, and what mends it"
        if named[TableState.GAP]:
            name = named[TableState.GAP][0]
            partition = " --partition KEY" if name in by_partition else ""
            return f"lakehouse explain {name}{partition}", "what the next run does about the gap"
        if different:
            whole = [name for name in different if name not in by_partition]
            names = " ".join(whole) or f"{different[0]} --partition KEY"
            return f"lakehouse run {names} --full-refresh", "writes the rows that differ"
        if self.first:
            return f"lakehouse run {' '.join(self.first)}", "makes the tables that are not there yet"
        if named[TableState.BEHIND]:
            return f"lakehouse run {' '.join(named[TableState.BEHIND])}", "reads what is unread"
        if self.due:
            return "lakehouse upkeep", "does the upkeep that is due"
        return None


def _folder(status: TableStatus) -> str:
    return status.name.rpartition("/")[0]


def _state(status: TableStatus) -> Text:
    sign, style = SIGNS[status.state]
    return assemble((f"{sign} {status.state.value}", style))


def _bar(reading: SourcePosition) -> Text:
    """How much of the versions of a source has been read."""
    newest = reading.newest or 0
    whole = 1.0 if newest <= 0 else min(1.0, max(0.0, reading.read / newest))
    unread = (reading.unread > 0 or reading.gap is not None) and not reading.is_snapshot
    filled = min(_BAR - unread, round(whole * _BAR))
    return assemble(("━" * filled, GOOD), ("╌" * (_BAR - filled), WAITING))


def _join(parts: Sequence[Text]) -> Iterator[Text]:
    for place, part in enumerate(parts):
        yield Text(", ") + part if place else part


def waiting(new: NewCode) -> str:
    """What the next run of a table compares because its code changed, as a clause."""
    if new.partitions:
        shown = ", ".join(new.partitions[:_SHOWN]) + ", ..." * (len(new.partitions) > _SHOWN)
        of = f"each of {count_of(len(new.partitions), 'partition')} is compared once, in its own next run: {shown}"
    else:
        rows = "" if new.rows is None else f" ({count_of(new.rows, 'row')})"
        of = f"its next run compares everything once{rows}"
    return f"{new.why}; {of}"
