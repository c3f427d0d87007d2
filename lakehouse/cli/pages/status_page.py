"""How `lakehouse status` looks: a line for each table, how far it has read each source, and what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from lakehouse.cli.command import about_definitions
from lakehouse.cli.graph import Comparisons
from lakehouse.cli.pages.screen import (
    GOOD,
    NAME,
    QUIET,
    WAITING,
    WRONG,
    ago,
    assemble,
    count,
    grid,
    span,
    table_name,
)
from lakehouse.cli.pages.table_pages import holding
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import count_of
from lakehouse.status.lakehouse_status import RECENT, LakehouseStatus
from lakehouse.status.table_status import NewCode, SourcePosition, TableStatus

_SHOWN = 3
"""How many partitions, and how many tables whose upkeep is due, are named at most."""
SOON = timedelta(days=2)
"""How long before a deadline the page begins to show it; the check `up_to_date` warns at the same time."""
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
        lakehouse: Where they stand, and what else their logs show.
        compared: When each was last compared with a recompute, as far as that is known.
        words: The words of the command line that name the definitions; None if there are none to run.
        groups: The group of each table, if definitions give it; the tables of a group are listed together.
        behind: The tables whose next run has something to read, each with those of its sources that run before it.
        left_out: Why the logs of other tables cannot be read without Spark, as a clause, by the tables' names.
    """

    lakehouse: LakehouseStatus
    compared: Comparisons
    words: Sequence[str] | None = None
    groups: Mapping[str, str] = field(default_factory=dict[str, str])
    behind: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def statuses(self) -> Sequence[TableStatus]:
        return self.lakehouse.statuses

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.lakehouse.now / 1000

    def view(self) -> RenderableType:
        """The page: a line for each table below a heading for each group."""
        if not self.statuses:
            return Group(Text("0 tables."), *self._left_out())
        shows = any(status.name in self.compared.by_table for status in self.statuses)
        headings = ("  Table", "Version", "Rows", "Written", *["Compared"] * shows, "State")
        table = grid(*headings, right=("Version", "Rows", "Written"), folding=("State",))
        groups = [(group, [*listed]) for group, listed in groupby(self.statuses, key=self._group)]
        for group, listed in groups:
            if len(groups) > 1:
                table.add_row(Text(group, QUIET))
            for status in listed:
                sign, style = SIGNS[status.state]
                table.add_row(
                    Text.assemble((f"{sign} ", style), table_name(status.name)),
                    "" if status.version is None else str(status.version),
                    count(status.rows),
                    ago(status.written, self.now),
                    *[self._comparison(status)] * shows,
                    Text("\n").join(self._state(status)),
                )
        return Group(table, Text(), *self._last_lines())

    def _group(self, status: TableStatus) -> str:
        return self.groups.get(status.name) or status.name.rpartition("/")[0]

    def _comparison(self, status: TableStatus) -> Text:
        comparison = self.compared.by_table.get(status.name)
        if comparison is None or status.state is TableState.MISSING:
            return Text()
        if comparison.impossible is not None or comparison.at is None:
            return assemble(("never" if comparison.impossible is None else "cannot be", QUIET))
        of = f" ({comparison.of})" if comparison.of else ""
        verdict = ("equal", GOOD) if comparison.equal else ("DIFFERENT", WRONG)
        return assemble(verdict, f" {ago(comparison.at, self.now)}{of}")

    def _state(self, status: TableStatus) -> Iterator[Text]:
        """The state in a word, and what its sources have to do with it."""
        _, style = SIGNS[status.state]
        sentences = [each for each in (self._reading(status, reading) for reading in status.reads) if each.plain]
        if status.problem is not None:
            sentences.insert(0, Text(status.problem, WRONG))
        if status.partitions:
            sentences.insert(0, Text(f"{', '.join(status.partitions)} was written last", QUIET))
        waits = [name for name in self.behind.get(status.name, ()) if status.state is not TableState.BEHIND]
        if waits:
            sentences.append(Text(f"waits for {', '.join(waits)}", WAITING))
        first = assemble((status.state.value, style))
        yield first + Text(": ") + sentences[0] if sentences else first
        yield from sentences[1:]

    def _reading(self, status: TableStatus, reading: SourcePosition) -> Text:
        """What there is to say about one source; empty if it has been read."""
        if reading.problem is not None:
            return Text(f"{reading.source}: {reading.problem}", WRONG)
        if reading.newest is None:
            return Text(f"{reading.source} is not looked at", QUIET)
        if reading.gap is not None:
            return Text(f"{reading.source}: {reading.gap}", WRONG)
        if not reading.unread or reading.is_snapshot or status.partitions:
            return Text()
        since = "" if reading.since is None else f", {span(self.now - reading.since / 1000)}"
        upto = f"{reading.source} {reading.read} of {reading.newest}{since}"
        return Text(upto, WAITING) + self._deadline(reading)

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
            if status.disagreement is not None:
                yield Text(f"{status.name} {status.disagreement}.", WAITING)
        for table in self.lakehouse.tables:
            if table.problem is not None:
                yield Text(f"Readers and upkeep of {table.status.name} are not known: {table.problem}", WRONG)
            for lost in table.lost:
                attempts = f"{count_of(lost.attempts, 'attempt')} in {count_of(RECENT.days, 'day')}"
                yield Text(f"{lost.writer} lost {attempts} to {lost.rival}, and repeated it.", QUIET)
        for holder in self.lakehouse.holders:
            yield Text(holding(holder, self.now), WAITING)
        yield from self._due_lines()
        states = [(state, sum(each.state is state for each in self.statuses)) for state in TableState]
        yield Text.assemble(
            f"{count_of(len(self.statuses), 'table')}: ",
            *_join([assemble((f"{number} {state.value}", SIGNS[state][1])) for state, number in states if number]),
            ".",
        )
        different = sorted(name for name, each in self.compared.by_table.items() if each.equal is False)
        if different:
            yield assemble((f"Different from a recompute: {', '.join(different)}.", WRONG))
        yield from self._left_out()
        if self.words is not None and (why := self.compared.unknown) is not None:
            yield assemble((f"When tables were compared with a recompute is not known here: {why}.", QUIET))
        step = self._next_step(different)
        if self.words is not None and step is not None:
            command = about_definitions(step[0], self.words)
            yield assemble(("next: ", QUIET), (command, NAME), (f"   {step[1]}", QUIET))

    def _left_out(self) -> Iterator[Text]:
        for name, why in self.left_out.items():
            yield assemble((f"Left out: {name} ({why}).", QUIET))

    def _due_lines(self) -> Iterator[Text]:
        late = [table for table in self.lakehouse.tables if table.due]
        for table in late[:_SHOWN]:
            works = "; ".join(f"{task.work.value}, because {task.why}" for task in table.due)
            yield Text(f"Upkeep of {table.status.name} is due: {works}.", WAITING)
        if len(late) > _SHOWN:
            more = count_of(len(late) - _SHOWN, "more table")
            yield Text(f"Upkeep of {more} is due: lakehouse upkeep --dry-run", WAITING)

    def _next_step(self, different: Sequence[str]) -> tuple[str, str] | None:
        """The command to give next, without the words that name the definitions, and what for; None if nothing is."""
        named = {state: [each.name for each in self.statuses if each.state is state] for state in TableState}
        by_partition = {each.name for each in self.statuses if each.partitions}
        if named[TableState.GAP]:
            name = named[TableState.GAP][0]
            partition = " --partition KEY" if name in by_partition else ""
            return f"lakehouse explain {name}{partition}", "what the next run does about the gap"
        if different:
            whole = [name for name in different if name not in by_partition]
            names = " ".join(whole) or f"{different[0]} --partition KEY"
            return f"lakehouse run {names} --full-refresh", "writes the rows that differ"
        if self.behind:
            return "lakehouse run --behind", f"runs {', '.join(self.behind)}"
        if any(table.due for table in self.lakehouse.tables):
            return "lakehouse upkeep", "does the upkeep that is due"
        return None


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
