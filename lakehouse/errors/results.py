"""What an asset returned cannot become its table: its rows, its columns, its extract, its statement."""

from collections.abc import Iterable, Mapping

from lakehouse.errors.base import ALLOW, FULL_REFRESH, RESTATE_FROM, WriteError, clause


class LostChangesError(WriteError):
    """A result that is not about what the changes of one of its inputs touched."""

    code = "LOST_CHANGES"

    def __init__(self, asset: str, source: str, range_: str, write: str, answered: Iterable[str]) -> None:
        self.asset, self.source, self.range_, self.write, self.answered = asset, source, range_, write, tuple(answered)
        others = " and ".join(f"'{name}'" for name in self.answered) or "nothing"
        remedy = {
            "Append": "Build its rows from feed, appended(), net() or log() of that input",
            "Aggregate": "Sum that input in an asset of its own, or return a Merge about the keys of both",
            "History": "A History follows one source: keep that of the other input in an asset of its own",
            "Snapshot": "A Snapshot takes the place of the whole table: read the changes in an asset of its own",
        }.get(write, "Unite its keys with the others: touched | other.touched(...), carried over by via(frame, ...)")
        super().__init__(
            f"'{asset}' reads the changes of '{source}' {range_}, but its {write} is about changes of {others}, so "
            f"they would count as read and be lost.",
            f"Nothing was written. {remedy}; or annotate the input as a DataFrame: a snapshot input, whose "
            f"changes start no run.",
        )


class TruncatesMissingError(WriteError):
    """`scd.type1` with truncates, of touched rows that hold only the truncates of touched keys."""

    code = "TRUNCATES_MISSING"

    def __init__(self, asset: str, columns: Iterable[str], condition: str) -> None:
        self.asset, self.columns, self.condition = asset, tuple(columns), condition
        keys = ", ".join(map(repr, self.columns))
        super().__init__(
            f"'{asset}' applies truncates by {condition}, but its touched rows hold only the truncates of touched "
            f"keys, so what a truncate took away would come back.",
            f"Nothing was written. Ask for them by the same text: touched({keys}, also={condition!r}).",
        )


class EventOptionError(WriteError):
    """Options of `scd.type1` or `scd.type2` that contradict each other, or the columns of the events."""

    code = "EVENT_OPTION"

    def __init__(self, function: str, rule: str, problem: str, remedy: str) -> None:
        self.function, self.rule, self.problem, self.remedy = function, rule, problem, remedy
        super().__init__(f"{function} {clause(problem)} (rule {rule}).", f"Nothing was written. {remedy}")


class BrokenPromiseError(WriteError):
    """Rows that break a promise of their write: a row outside the touched keys, or two rows with one key."""

    code = "BROKEN_PROMISE"

    def __init__(self, asset: str, problem: str, remedy: str) -> None:
        self.asset, self.problem, self.remedy = asset, problem, remedy
        super().__init__(f"The result of '{asset}' {clause(problem)}.", f"Nothing was written. {remedy}")


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


class BadEventError(BrokenPromiseError):
    """An event of which `scd.type1` or `scd.type2` cannot say what follows from it."""

    code = "BAD_EVENT"

    def __init__(
        self, asset: str, rule: str, key: Mapping[str, str | None], sequence: str | None, columns: Iterable[str]
    ) -> None:
        self.rule, self.key, self.sequence, self.columns = rule, dict(key), sequence, tuple(columns)
        wrong, remedy = _EVENT_RULES[rule]
        values = ", ".join(f"{name}={_or_null(value)}" for name, value in key.items())
        where = f"; columns: {', '.join(self.columns)}" if self.columns else ""
        problem = f"comes from an event {wrong} (rule {rule}; key: {values}; sequence: {_or_null(sequence)}{where})"
        super().__init__(asset, problem, remedy)


class SchemaError(WriteError):
    """A result whose columns do not fit the table."""

    code = "SCHEMA"

    def __init__(self, asset: str, differences: Mapping[str, str], remedy: str) -> None:
        self.asset, self.differences, self.remedy = asset, dict(differences), remedy
        listed = "; ".join(f"{column}: {difference}" for column, difference in differences.items())
        super().__init__(
            f"The result of '{asset}' does not fit its table ({listed}).", f"Nothing was written. {remedy}"
        )


class NewColumnsError(WriteError):
    """A `Merge` about touched keys whose result has columns that other rows of its table have not got from a run."""

    code = "NEW_COLUMNS"

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"'{asset}' cannot write the rows of its touched keys alone: {clause(reason)}.",
            "Nothing was written. The step runs again and compares everything once.",
        )


class PlanError(WriteError):
    """The asset's own expression failed while Spark computed it."""

    code = "PLAN"

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"Spark could not compute the result of '{asset}': {clause(problem)}.",
            "Nothing was written, and the write was not tried again. Spark is lazy: the error appears while writing, "
            "but its cause is in the asset's expression.",
        )


class ModuleMissingError(WriteError):
    """A Python function of the asset needs a module that Spark's Python cannot import."""

    code = "MODULE_MISSING"

    def __init__(self, asset: str, module: str) -> None:
        self.asset, self.module = asset, module
        super().__init__(
            f"Spark's Python cannot import the module '{module}', which a function of '{asset}' needs.",
            "Nothing was written. Install the module in the environment that starts Spark. If it is of your own "
            "project: install the project (pip install -e .), start Dagster with the project's directory in "
            "PYTHONPATH, or define the function within the asset. Stop a running server first (lakehouse spark stop), "
            "because it keeps the variables of its start.",
        )


class ComputeError(WriteError):
    """Spark lost a result, or what the result is computed from, for a reason that passes."""

    code = "COMPUTE"

    def __init__(self, asset: str, problem: str, why: str) -> None:
        self.asset, self.problem, self.why = asset, problem, why
        super().__init__(
            f"Spark failed while it computed the result of '{asset}': {clause(problem)}.",
            f"Nothing was written. The cause is temporary ({clause(why)}): run it again.",
        )


class UnexplainedError(WriteError):
    """A result could not be computed or written, and the cause is none that this library knows."""

    code = "UNEXPLAINED"

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"The result of '{asset}' could not be computed or written: {clause(problem)}.",
            "Nothing was written. Spark does not name the asset's expression as the cause, and the cause is none that "
            "is known to pass. See the error below this one, and Spark's own log.",
        )


class PastRefusedError(WriteError):
    """A full refresh of a history: its source no longer tells the past that the table holds."""

    code = "PAST_REFUSED"

    def __init__(self, asset: str, *, of_extracts: bool = False) -> None:
        self.asset, self.of_extracts = asset, of_extracts
        start_over = "materialize it: its first read goes back as far as the source's own history"
        if of_extracts:
            start_over = "deliver its extracts again, the oldest first"
        super().__init__(
            f"'{asset}' keeps a history, and a full refresh would replace its past by what its source still tells.",
            f"Nothing was written. Run '{asset}' without the run tag {FULL_REFRESH}. To start over, delete the table "
            f"and {start_over}.",
        )


class RestateRefusedError(WriteError):
    """A history that cannot be restated from a moment on."""

    code = "RESTATE_REFUSED"

    def __init__(self, asset: str, moment: str, reason: str) -> None:
        self.asset, self.moment, self.reason = asset, moment, reason
        super().__init__(
            f"The history '{asset}' cannot be restated from {moment}: {clause(reason)}.",
            f"Nothing was written. Name an archive of the source in Read(archive=...), bring the archive up to date, "
            f"and give a time after its first commit: {RESTATE_FROM}{asset}=<time>.",
        )


class TrackChangedError(WriteError):
    """A history that is to track other columns than the ones by which its past was cut into rows."""

    code = "TRACK_CHANGED"

    def __init__(self, asset: str, was: str, now: str) -> None:
        self.asset, self.was, self.now = asset, was, now
        super().__init__(
            f"The history '{asset}' has tracked {was} and is to track {now}, so rows of its past would have ended at "
            f"other times.",
            "Nothing was written. Track what it did, or keep the history of the other columns in another "
            "asset, whose first read goes back as far as the source's own history.",
        )


def _or_null(value: str | None) -> str:
    return "NULL" if value is None else value


class RefreshRefusedError(WriteError):
    """A full refresh of a table that is kept from extracts."""

    code = "REFRESH_REFUSED"

    def __init__(self, asset: str) -> None:
        self.asset = asset
        super().__init__(
            f"'{asset}' is kept from extracts. Every run compares its extract with the whole table, so a full refresh "
            f"adds nothing.",
            f"Nothing was written. Run it without the tag {FULL_REFRESH}. If the table or its version is wrong, run it "
            f"with the tag {ALLOW}{asset}=version, which takes the extract whatever the table holds.",
        )


class UnknownExtractError(WriteError):
    """An extract of which nobody can tell whether it is older than the table's."""

    code = "UNKNOWN_EXTRACT"

    def __init__(self, asset: str, version: str, reason: str) -> None:
        self.asset, self.version, self.reason = asset, version, reason
        super().__init__(
            f"Nobody can tell whether extract {version} of '{asset}' is newer than its table: {clause(reason)}.",
            f"Nothing was written. If the extract is the one that the table is to hold, materialize once with the run "
            f"tag {ALLOW}{asset}=version.",
        )


class OlderExtractError(WriteError):
    """An extract that is older than the one that the table holds."""

    code = "OLDER_EXTRACT"

    def __init__(self, asset: str, version: str, newest: str) -> None:
        self.asset, self.version, self.newest = asset, version, newest
        super().__init__(
            f"Extract {version} of '{asset}' is older than extract {newest}, which its table holds.",
            "Nothing was written. Deliver extracts in their order, or let older extracts be left out: "
            "Snapshot(..., on_older='ignore').",
        )


class EmptyExtractError(WriteError):
    """An extract without rows, which is more often a failed delivery than an empty source."""

    code = "EMPTY_EXTRACT"

    def __init__(self, asset: str, version: str) -> None:
        self.asset, self.version = asset, version
        super().__init__(
            f"Extract {version} of '{asset}' has no row.",
            f"Nothing was written. If its source is empty, materialize once with the run tag "
            f"{ALLOW}{asset}=max_deleted.",
        )


class OutOfScopeError(WriteError):
    """An extract with a row outside the values that its scope names."""

    code = "OUT_OF_SCOPE"

    def __init__(self, asset: str, version: str, values: Mapping[str, str]) -> None:
        self.asset, self.version, self.values = asset, version, dict(values)
        listed = ", ".join(f"{name}={value}" for name, value in values.items())
        super().__init__(
            f"Extract {version} of '{asset}' has a row with {listed}, which its scope does not name.",
            "Nothing was written. Name every value that was delivered in Snapshot(scope=...), or leave such rows out.",
        )


class DeletionsHeldBackError(WriteError):
    """An extract that would delete more rows than it may."""

    code = "DELETIONS_HELD_BACK"

    def __init__(self, asset: str, version: str, deleted: int, of: int, max_deleted: float) -> None:
        self.asset, self.version, self.deleted, self.of, self.max_deleted = asset, version, deleted, of, max_deleted
        super().__init__(
            f"Extract {version} of '{asset}' lacks {deleted:,} of the {of:,} rows in its scope, more than "
            f"max_deleted={max_deleted} lets it delete.",
            f"Nothing was written. If these rows are gone at the source, materialize once with the run tag "
            f"{ALLOW}{asset}=max_deleted.",
        )
