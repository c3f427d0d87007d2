"""What an asset returned cannot become its table: its rows, its columns, its history, its extract."""

from collections.abc import Mapping, Sequence
from typing import Self

from lakehouse.errors.base import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, THAW, LakehouseError, clause, with_code

_EVENT_RULES = {
    "NULL_KEY": ("with NULL in its key", "Leave such events out, or give them a key."),
    "NULL_SEQUENCE": (
        "with NULL in its sequence",
        "Leave such events out, or give sequence_by an expression that is never NULL.",
    ),
    "TWO_UPSERTS": (
        "to which another one of the same key and sequence is not equal",
        "Give sequence_by a struct that tells the two apart, such as struct(at, id), or leave out what differs.",
    ),
}
"""What is wrong with an event that breaks a rule, and what to do."""


class WriteError(LakehouseError):
    """A result that cannot become the table. Nothing was written."""

    code = "WRITE"

    @classmethod
    @with_code("LOST_CHANGES")
    def lost_changes(cls, asset: str, source: str, range_: str, write: str, answered: Sequence[str]) -> Self:
        """A result that is not about what the changes of one of its inputs touched."""
        others = " and ".join(f"'{name}'" for name in answered) or "nothing"
        remedy = {
            "Append": "Build its rows from feed, appended(), net() or log() of that input",
            "Aggregate": "Sum that input in an asset of its own, or return a Merge about the keys of both",
            "History": "A History follows one source: keep that of the other input in an asset of its own",
            "Snapshot": "A Snapshot takes the place of the whole table: read the changes in an asset of its own",
        }.get(write, "Unite its keys with the others: touched | other.touched(...), carried over by via(frame, ...)")
        return cls(
            f"'{asset}' reads the changes of '{source}' {range_}, but its {write} is about changes of {others}, so "
            f"they would count as read and be lost.",
            f"Nothing was written. {remedy}; or annotate the input as a DataFrame: a snapshot input, whose "
            f"changes start no run.",
        )

    @classmethod
    @with_code("TOO_MANY_CHANGES")
    def too_many_changes(
        cls, asset: str, changed: str, of: int, max_changed: float, version: int, partitions: Sequence[str]
    ) -> Self:
        """A step that would change a larger share of its table than its policy allows."""
        part = f" of {', '.join(partitions[:3])}{' and others' if len(partitions) > 3 else ''}" if partitions else ""
        return cls(
            f"This step would change more of '{asset}' than max_changed={max_changed} allows: {changed}, and at "
            f"version {version} the table holds {of:,} row{'' if of == 1 else 's'}{part}.",
            f"Nothing was written. If the changes are right, materialize once with the run tag "
            f"{ALLOW}{asset}=max_changed.",
        )

    @classmethod
    @with_code("CHANGED_SIDES")
    def changed_sides(cls, asset: str, owned: str, keys: Sequence[str], *, enters: bool) -> Self:
        """A key whose row is owned in the result and frozen in the table, or the reverse."""
        sides = ("frozen in the table and owned in the result", "owned in the table and outside of that in the result")
        return cls(
            f"'{asset}' owns the rows with {owned}, and the row of a key is {sides[0 if enters else 1]}: "
            f"{', '.join(f'({key})' for key in keys)}.",
            f"Nothing was written. Let one run rewrite both rows: give the run tag {THAW}{asset} a condition that is "
            f"true of both. To rule that out, let owns go by columns of the key.",
        )

    @classmethod
    @with_code("UNKNOWN_CONDITION")
    def unknown_condition(cls, asset: str, expectation: str, condition: str, problem: str) -> Self:
        """An expectation that Spark cannot evaluate over the rows of the result."""
        return cls(
            f"The expectation {expectation} of '{asset}' cannot be evaluated over its rows, because of its condition "
            f"({condition}): {clause(problem)}.",
            "Nothing was written. Write a condition that is true or false of each row, and name columns of the table: "
            "try_divide or try_cast where an operation can fail.",
        )

    @classmethod
    @with_code("EVENT_OPTION")
    def event_option(cls, function: str, rule: str, problem: str, remedy: str) -> Self:
        """Options of `scd.type1` or `scd.type2` that contradict each other, or the columns of the events."""
        return cls(f"{function} {clause(problem)} (rule {rule}).", f"Nothing was written. {remedy}")

    @classmethod
    @with_code("BROKEN_PROMISE")
    def broken_promise(cls, asset: str, problem: str, remedy: str) -> Self:
        """Rows that break a promise of their write: a row outside the touched keys, or two rows with one key."""
        return cls(f"The result of '{asset}' {clause(problem)}.", f"Nothing was written. {remedy}")

    @classmethod
    @with_code("BAD_EVENT")
    def bad_event(
        cls, asset: str, rule: str, key: Mapping[str, str | None], sequence: str | None, columns: Sequence[str]
    ) -> Self:
        """An event from which `scd.type1` or `scd.type2` cannot conclude what holds."""
        wrong, remedy = _EVENT_RULES[rule]
        values = ", ".join(f"{name}={_or_null(value)}" for name, value in key.items())
        where = f"; columns: {', '.join(columns)}" if columns else ""
        problem = f"comes from an event {wrong} (rule {rule}; key: {values}; sequence: {_or_null(sequence)}{where})"
        return cls(f"The result of '{asset}' {problem}.", f"Nothing was written. {remedy}")

    @classmethod
    @with_code("SCHEMA")
    def schema(cls, asset: str, differences: Mapping[str, str], remedy: str) -> Self:
        """A result whose columns do not fit the table."""
        listed = "; ".join(f"{column}: {difference}" for column, difference in differences.items())
        return cls(f"The result of '{asset}' does not fit its table ({listed}).", f"Nothing was written. {remedy}")

    @classmethod
    @with_code("PLAN")
    def plan(cls, asset: str, problem: str) -> Self:
        """The asset's own expression failed while Spark computed it."""
        return cls(
            f"Spark could not compute the result of '{asset}': {clause(problem)}.",
            "Nothing was written, and the write was not tried again. Spark is lazy: the error appears while writing, "
            "but its cause is in the asset's expression.",
        )

    @classmethod
    @with_code("MODULE_MISSING")
    def module_missing(cls, asset: str, module: str) -> Self:
        """A Python function of the asset needs a module that Spark's Python cannot import."""
        return cls(
            f"Spark's Python cannot import the module '{module}', which a function of '{asset}' needs.",
            "Nothing was written. Install the module in the environment that starts Spark. If it is of your own "
            "project: install the project (pip install -e .), start Dagster with the project's directory in "
            "PYTHONPATH, or define the function within the asset. Stop a running server first (lakehouse spark stop), "
            "because it keeps the variables of its start.",
        )

    @classmethod
    @with_code("COMPUTE", is_temporary=True)
    def compute(cls, asset: str, problem: str, why: str) -> Self:
        """Spark lost a result, or what the result is computed from, for a temporary reason."""
        return cls(
            f"Spark failed while it computed the result of '{asset}': {clause(problem)}.",
            f"Nothing was written. The cause is temporary ({clause(why)}): run it again.",
        )

    @classmethod
    @with_code("UNEXPLAINED")
    def unexplained_failure(cls, asset: str, problem: str) -> Self:
        """A result could not be computed or written, for a cause that this library does not know."""
        return cls(
            f"The result of '{asset}' could not be computed or written: {clause(problem)}.",
            "Nothing was written. Spark does not name the asset's expression as the cause, and the cause is not "
            "known to pass by itself. See the error below this one, and Spark's own log.",
        )

    @classmethod
    @with_code("REFRESH_REFUSED")
    def refresh_refused(cls, asset: str, why: str, remedy: str) -> Self:
        """A full refresh of a table whose source no longer has all that the table holds."""
        return cls(
            f"A full refresh of '{asset}' {clause(why)}.",
            f"Nothing was written. Run it without the run tag {FULL_REFRESH}. {remedy}",
        )


def _or_null(value: str | None) -> str:
    return "NULL" if value is None else value


class ExpectationError(WriteError):
    """A result with rows that break an expectation which fails the run. Nothing was written."""

    code = "EXPECTATION"

    def __init__(self, asset: str, expectation: str, problem: str, *, appends: bool = False) -> None:
        self.asset, self.expectation, self.problem, self.appends = asset, expectation, problem, appends
        corrected = (
            f"Changes that were read stay as they are when the source is corrected: let the run tag "
            f"{GO_ON_FROM}{asset}=<version> leave them out."
            if appends
            else f"If a limit of an input keeps the run from the versions that correct them, the run tag "
            f"{FULL_REFRESH}={asset} lets it read the newest."
        )
        super().__init__(
            f"In the result of '{asset}' {clause(problem)}.",
            "Nothing was written. Correct these rows upstream of the asset, or the condition if it asks too much. "
            f"{corrected} With on_failure='drop' such rows are left out, and the others are written.",
        )


class UncomparedError(WriteError):
    """A result about touched keys, where the result or the session shows that other rows of the table may differ."""

    code = "UNCOMPARED"

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"'{asset}' cannot write the rows of its touched keys alone: {clause(reason)}.",
            "Nothing was written. The step runs again and compares everything once.",
        )


class HistoryError(WriteError):
    """A run that would change the past which a history keeps. Nothing was written."""

    @classmethod
    @with_code("RESTATE_REFUSED")
    def restate_refused(cls, asset: str, moment: str, reason: str) -> Self:
        """A history that cannot be restated from a moment on."""
        return cls(
            f"The history '{asset}' cannot be restated from {moment}: {clause(reason)}.",
            f"Nothing was written. Name an archive of the source in Read(archive=...), bring the archive up to date, "
            f"and give a time after its first commit: {RESTATE_FROM}{asset}=<time>.",
        )

    @classmethod
    @with_code("TRACK_CHANGED")
    def track_changed(cls, asset: str, was: str, now: str) -> Self:
        """A history that is to track columns other than those by which its past was cut into rows."""
        return cls(
            f"The history '{asset}' has tracked {was} and is to track {now}, so rows of its past would have ended at "
            f"other times.",
            "Nothing was written. Track what it did, or keep the history of the other columns in another "
            "asset, whose first read goes back as far as the source's own history.",
        )


class ExtractError(WriteError):
    """An extract that its table does not take. Nothing was written."""

    @classmethod
    @with_code("UNKNOWN_EXTRACT")
    def unknown_extract(cls, asset: str, version: str, reason: str) -> Self:
        """An extract that cannot be compared with the table's: it is not known which of the two is older."""
        return cls(
            f"It cannot be known whether extract {version} of '{asset}' is newer than its table: {clause(reason)}.",
            f"Nothing was written. If the extract is the one that the table is to hold, materialize once with the run "
            f"tag {ALLOW}{asset}=version.",
        )

    @classmethod
    @with_code("OLDER_EXTRACT")
    def older_extract(cls, asset: str, version: str, newest: str, *, keeps_past: bool) -> Self:
        """An extract that is older than the one that the table holds, which may keep the past of its rows."""
        tell_again = f"To correct the past from it on, materialize with the run tag {RESTATE_FROM}{asset}={version}."
        return cls(
            f"Extract {version} of '{asset}' is older than extract {newest}, which its table holds.",
            "Nothing was written. Deliver extracts in their order, or let older extracts be left out: "
            f"Snapshot(..., on_older='ignore').{f' {tell_again}' if keeps_past else ''}",
        )

    @classmethod
    @with_code("DELETIONS_HELD_BACK")
    def deletions_held_back(cls, asset: str, version: str, lacks: str) -> Self:
        """An extract without rows, or one that would delete more rows than it may: most often a failed delivery."""
        return cls(
            f"Extract {version} of '{asset}' {lacks}.",
            f"Nothing was written. If these rows are gone at the source, materialize once with the run tag "
            f"{ALLOW}{asset}=max_deleted.",
        )
