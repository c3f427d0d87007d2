"""`lakehouse branch`: clones of tables that go on incrementally; `lakehouse compare`: in which rows they differ."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import (
    Answer,
    Command,
    UsageError,
    add_json,
    add_page,
    add_target,
    definitions,
    no_such,
)
from lakehouse.cli.pages.screen import span, working_beside
from lakehouse.cli.table_rows import MOST, diff_of, key_in
from lakehouse.cli.tables import NamedTable, reading_old_files
from lakehouse.delta.commit_info import NO_ROWS, count_of
from lakehouse.delta.location import BRANCH, BRANCH_NAME, BRANCH_NAMES
from lakehouse.delta.log import FileSchema, commit_at, limit_from
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.dagster.branches import Branch
    from lakehouse.difference.between_versions import RowDiff, VersionDiff

_LIMIT = timedelta(days=7)


def _add_branch_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of the branch")
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="clone these and what they read; else all")
    parser.add_argument("--from", dest="trunk", metavar="ROOT", help="clone the tables below another root")
    parser.add_argument("--limit", metavar="TIME", help="how long the cloned files are kept (7d)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the branches")
    action.add_argument("--drop", metavar="NAME", help="remove a branch, and release it where it is registered")
    add_json(parser)


def _run_branch(given: Namespace) -> Answer:
    from lakehouse.dagster.branches import branches_of, drop_branch, make_branch
    from lakehouse.dagster.io_manager import code_location_of

    if (given.name is None) == (not given.list and given.drop is None):
        raise UsageError("Give one of these: a name for a branch, --list, or --drop NAME.")
    if given.name and not BRANCH_NAME.fullmatch(given.name):
        raise UsageError(f"'{given.name}' is no name for a branch: {BRANCH_NAMES}")
    limit = _LIMIT if given.limit is None else limit_from(given.limit)
    if limit is None:
        raise UsageError("--limit is a time: 14d, 36h or 2w.")
    defs = definitions(given)
    if given.list:
        branches = branches_of(defs)
        lines = [f"{each.name}: {_size(each)}, at {', '.join(each.roots)}" for each in branches]
        return Answer({"branches": [_value(each) for each in branches]}, "\n".join(lines) or "There are no branches.")
    if given.drop is not None:
        drop_branch(defs, given.drop)
        return Answer({"dropped": given.drop}, f"The branch {given.drop} is dropped.")
    _refuse_unknown(given, code_location_of(defs).by_name)
    branch = make_branch(defs, given.name, given.tables, limit, given.trunk)
    return Answer(_value(branch), "\n".join(_lines(branch)))


def _refuse_unknown(given: Namespace, tables: Mapping[str, Any]) -> None:
    for table in given.tables:
        if table not in tables:
            raise UsageError(no_such("table", table, tables))


def _value(branch: "Branch") -> dict[str, Any]:
    return asdict(branch) | {"until": branch.until}


def _size(branch: "Branch") -> str:
    """How many tables a branch has, and for how long they can be read."""
    tables = count_of(len(branch.clones), "table")
    if branch.until is None:
        return tables
    rest = branch.until / 1000 - time.time()
    return f"{tables}, kept for {span(rest)} at least" if rest > 0 else f"{tables}, whose cloned files may be gone"


def _lines(branch: "Branch") -> Iterator[str]:
    """What was made; what asks for attention comes last."""
    yield f"{branch.name}: {_size(branch)}"
    yield from (f"  at {root}" for root in branch.roots)
    for clone in branch.clones:
        registered = "" if clone.registers is None else f", registered ({clone.registers})"
        yield f"{clone.name}: version {clone.version}{registered}" + ("" if clone.is_new else ", as before")
    for clone in branch.clones:
        yield from (f"{clone.name} cannot go on by changes: {why}." for why in clone.compares)
    yield from (f"{name} is read where it is, and not written on a branch." for name in branch.elsewhere)
    yield from (f"{name}: there is no Delta table to clone." for name in branch.missing)
    yield from (
        f"{name} stays as it is: it was made anew, there or here, and is no clone of the table that is there now."
        for name in branch.others
    )
    yield f"Work on it: export {BRANCH}={branch.name} DAGSTER_HOME=..."


@dataclass(frozen=True, slots=True)
class TableComparison:
    """How a table of a branch differs from what was cloned.

    Args:
        table: Its name.
        schema: What differs between the columns, a line for each.
        by: How the rows that differ were found.
        diff: The rows that differ; None if there is nothing to compare with, or if the comparison failed.
        rows: How many rows the table has, if it is only on the branch.
        problem: Why it was not compared; None if it was.
    """

    table: str
    schema: tuple[str, ...] = ()
    by: str = ""
    diff: "VersionDiff | None" = None
    rows: int | None = None
    problem: str | None = None

    @property
    def differs(self) -> dict[str, bool]:
        """For each thing that `--fail-on` may name, whether it differs."""
        is_new = self.diff is None and self.problem is None
        rows = is_new or (self.diff is not None and self.diff.counts != NO_ROWS)
        return {"rows": rows, "schema": is_new or bool(self.schema), "any": rows or bool(self.schema)}

    @property
    def headline(self) -> str:
        if self.problem is not None:
            return f"{self.table}: not compared. {self.problem}"
        if self.diff is None:
            return f"{self.table}: made on the branch, {count_of(self.rows or 0, 'row')}"
        counts = self.diff.counts
        named = {"different": counts.updated, "only here": counts.inserted, "only there": counts.deleted}
        return f"{self.table}: " + (", ".join(f"{n:,} {what}" for what, n in named.items() if n) or "the same rows")

    def lines(self, *, values: bool) -> Iterator[str]:
        """What the terminal shows."""
        yield self.headline
        yield from (f"  {line}" for line in self.schema)
        if self.diff is not None and self.diff.columns:
            yield "  differ in " + ", ".join(f"{name} ({count:,})" for name, count in self.diff.columns.items())
        for row in () if self.diff is None else self.diff.rows:
            key = ", ".join(f"{name}={value}" for name, value in row.key.items())
            yield f"  {_SIGNS[row.change]} {key}" + (f" {_values(row)}" if values or not row.key else "")


_SIGNS = {"insert": "+", "update": "~", "delete": "-"}


def _values(row: "RowDiff") -> str:
    sides = [side for side in (row.before, row.after) if side is not None]
    return ", ".join(f"{name}: {' → '.join(str(side.get(name)) for side in sides)}" for name in sides[-1])


def _add_compare_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("name", metavar="NAME", help="the name of the branch")
    parser.add_argument("tables", metavar="TABLE", nargs="*", help="these tables; else all")
    parser.add_argument("--limit", metavar="N", type=int, default=MOST, help=f"how many keys are shown ({MOST})")
    parser.add_argument("--values", action="store_true", help="show the values of these rows, too")
    failing = list(TableComparison("").differs)
    parser.add_argument("--fail-on", choices=failing, help="end with the exit code 1 if this differs in a table")
    add_page(parser)


def _run_compare(given: Namespace) -> Answer:
    from lakehouse.dagster.branches import on_branch, tables_of_branch
    from lakehouse.dagster.io_manager import managers_of

    defs = definitions(given)
    tables, managers = tables_of_branch(defs, given.name), managers_of(defs.resources)
    _refuse_unknown(given, tables)
    compared = list[TableComparison]()
    with on_branch(given.name):
        for name in given.tables or sorted(tables):
            ref, manager = tables[name].ref, managers[tables[name].manager]
            assert ref is not None, f"{name} has a manager"
            table = NamedTable.of_ref(ref, manager.session, tables[name].declared.key_columns)
            assert table is not None, f"{name} is there"
            compared.append(_compare(table, given.limit))
    lines = [line for each in compared for line in each.lines(values=given.values)]
    differing = sum(each.differs["any"] for each in compared)
    verb = "differs" if differing == 1 else "differ"
    lines.append(f"{differing} of {count_of(len(compared), 'table')} {verb} from where {given.name} began.")
    fails = any(each.problem is not None or each.differs.get(given.fail_on, False) for each in compared)
    value = {"branch": given.name, "tables": [_as_value(each, values=given.values) for each in compared]}
    return Answer(value, "\n".join(lines), code=int(fails))


def _as_value(compared: TableComparison, *, values: bool) -> dict[str, Any]:
    value = asdict(compared)
    if compared.diff is not None and not values:
        value["diff"]["rows"] = [{"change": row.change, "key": dict(row.key)} for row in compared.diff.rows]
    return value


def _compare(table: NamedTable, most: int) -> TableComparison:
    """Compares a clone with its own first version; the table that was cloned is not read."""
    first, last, name = commit_at(table.log, 0), table.head.version, table.ref.name
    if first is None or first.operation != "CLONE":
        return TableComparison(name, rows=table.log.live_rows(last))
    then, now = table.log.file_schema(0), table.log.file_schema(last)
    schema = () if then is None or now is None else tuple(_schema_lines(then, now))
    key = tuple(key_in(table.log, last) or table.key)
    try:
        with working_beside(f"Comparing {name}") as work, reading_old_files(f"'{name}' cannot be compared"):
            diff, by = diff_of(table, (0, last), key, most, work.say)
    except LakehouseError as error:
        return TableComparison(name, schema, problem=str(error))
    return TableComparison(name, schema, by, diff)


def _schema_lines(then: FileSchema, now: FileSchema) -> Iterator[str]:
    before, after = ({name: kind.strip('"') for name, kind in each.types.items()} for each in (then, now))
    yield from (f"+ column {name} {kind}" for name, kind in after.items() if name not in before)
    yield from (f"- column {name} {kind}" for name, kind in before.items() if name not in after)
    retyped = [name for name in after if before.get(name, after[name]) != after[name]]
    yield from (f"~ column {name} {before[name]} → {after[name]}" for name in retyped)
    if then.partition_columns != now.partition_columns:
        yield f"~ partitioned by {', '.join(now.partition_columns) or 'nothing'}"


COMPARE = Command(_add_compare_arguments, _run_compare)
BRANCH_COMMAND = Command(_add_branch_arguments, _run_branch)
