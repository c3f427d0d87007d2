"""Every way this package fails.

* LakehouseError
  x DefinitionError             the code location does not load
    - MissingKeyError
    - UnsupportedAnnotationError
    - PartitionColumnError
  x ReadError                   nothing was written
    - PartitionRangeError
    - SourceMissingError
    - ColumnMissingError
    - ChangeFeedDisabledError
    - NotAppendOnlyError
    - GapError
    - LateGapError
    - StartError
    - MissingFileError
    - UnreadableLogError
    - NewerMarkError
  x WriteError                  nothing was written
    - LostChangesError
    - TruncatesMissingError
    - EventOptionError
    - BrokenPromiseError
      x BadEventError
    - SchemaError
    - PlanError
    - ComputeError
    - UnsafeTableError
    - IsolationLevelError
    - PastRefusedError
    - TrackChangedError
    - ForeignTableError
    - UnregisteredTableError
    - OtherFileSystemError
    - SecondDriverError
    - ForeignApplicationIdError
  x SessionEndedError           nothing was written; the next try has a new session
  x ConflictError               nothing was written; rivals kept winning
  x StaleInputsError            the table is not what the run started from; the step runs again
    - OvertakenError
    - RolledBackError
  x UnsettledError              it is written, perhaps with rows of a rival, until the next run
  x UnknownOutcomeError         the commit may have landed; look before running again

Each of them takes data, keeps it as attributes and builds its own sentence: what happened, to which table, at which
versions; what is true now; what to do. A definition or a call that is plainly wrong is a DefinitionError, ReadError or
WriteError with a sentence.
"""

from collections.abc import Iterable, Mapping

FULL_REFRESH = "lakehouse/full_refresh"
"""Run tag: "true", or asset keys separated by commas. These tables are reconciled with their whole sources."""
GO_ON_FROM = "lakehouse/go_on_from/"
"""Run tag, with the asset key after it: the version of the source that an `Append` continues from, or "now"."""


class LakehouseError(Exception):
    """Every failure of this package.

    Args:
        happened: What happened, to which table, at which versions: a whole sentence.
        then: The sentences after that: what is true now, and what to do.
    """

    def __init__(self, happened: str, *then: str) -> None:
        self.happened = happened
        super().__init__(" ".join((happened, *then)))


class DefinitionError(LakehouseError):
    """An asset that could never work; refused when the code location loads."""


class MissingKeyError(DefinitionError):
    """A write by key to a table that declares none."""

    def __init__(self, asset: str, write: str) -> None:
        self.asset, self.write = asset, write
        article = "an" if write[0] in "AEIOU" else "a"
        super().__init__(
            f"Asset '{asset}' returns {article} {write} but its table declares no key. Add metadata=Table(key=...)."
        )


class UnsupportedAnnotationError(DefinitionError):
    """An annotation that says neither how to read nor how to write."""

    def __init__(self, asset: str, where: str, annotation: str | None, allowed: Iterable[str]) -> None:
        self.asset, self.where, self.annotation, self.allowed = asset, where, annotation, tuple(allowed)
        super().__init__(f"Asset '{asset}' {_annotates(where, annotation)}. Use {' or '.join(self.allowed)}.")


def _annotates(where: str, annotation: str | None) -> str:
    if annotation is None:
        return f"does not annotate {where}, so nothing says how its table is read or written"
    return f"annotates {where} with {annotation}, which says nothing about a Delta table"


class PartitionColumnError(DefinitionError):
    """A partitioned asset whose partitions cannot be found in the table's columns."""

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(f"Asset '{asset}' is partitioned, but {problem}")


class ReadError(LakehouseError):
    """A source that cannot be read as declared. Nothing was written."""


class PartitionRangeError(ReadError):
    """A run of several partitions of an asset that reads changes, each of which has a position of its own."""

    def __init__(self, asset: str, partitions: Iterable[str]) -> None:
        self.asset, self.partitions = asset, tuple(partitions)
        super().__init__(
            f"'{asset}' reads Changes, and each of its partitions has a position of its own, so one run cannot write "
            f"{len(self.partitions)} of them ({self.partitions[0]} to {self.partitions[-1]}).",
            "Nothing was written. Backfill it with one run per partition: leave backfill_policy out, or give "
            "dg.BackfillPolicy.multi_run().",
        )


class SourceMissingError(ReadError):
    """A source that is not a Delta table, or not there yet."""

    def __init__(self, asset: str, source: str, where: str) -> None:
        self.asset, self.source, self.where = asset, source, where
        remedy = f"Materialize '{source}' first, or correct its name or root."
        if asset == source:
            remedy = "An asset that reads its own table begins with an empty table: create it, with its columns."
        super().__init__(
            f"'{asset}' reads '{source}', but there is no Delta table at {where}.", f"Nothing was written. {remedy}"
        )


class ColumnMissingError(ReadError):
    """A column that a table, or a frame in its place, does not have."""

    def __init__(self, table: str, column: str, columns: Iterable[str]) -> None:
        self.table, self.column, self.columns = table, column, tuple(columns)
        super().__init__(
            f"{table} has no column {column}.", f"Nothing was written. Its columns are: {', '.join(self.columns)}."
        )


class ChangeFeedDisabledError(ReadError):
    """A source that keeps no change data feed."""

    def __init__(self, asset: str, source: str, identifier: str) -> None:
        self.asset, self.source, self.identifier = asset, source, identifier
        self.statement = f"ALTER TABLE {identifier} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        super().__init__(
            f"'{asset}' reads the changes of '{source}', but that table keeps no change data feed.",
            f"Nothing was written. Enable it once: {self.statement}",
        )


class NotAppendOnlyError(ReadError):
    """`Changes.appended()` of a source that updated or deleted rows."""

    def __init__(self, source: str, after: int, upto: int, detail: str) -> None:
        self.source, self.after, self.upto, self.detail = source, after, upto, detail
        super().__init__(
            f"'{source}' updated or deleted rows in its versions ({after}, {upto}] ({detail}), so its changes "
            f"are more than appended rows.",
            "Nothing was written. Read them with touched() or net() instead.",
        )


class GapError(ReadError):
    """Changes that can no longer be read, and no exact fallback."""

    def __init__(self, asset: str, source: str, after: int, upto: int, reason: str, remedy: str) -> None:
        self.asset, self.source, self.after, self.upto, self.reason = asset, source, after, upto, reason
        self.remedy = remedy
        at_position = f"'{asset}' has read '{source}' up to version {after}"
        at_position += f" and cannot read its changes ({after}, {upto}]" if upto > after else ""
        without = f"The table of '{asset}' does not say how far '{source}' was read, which is at version {upto}"
        super().__init__(
            f"{at_position if after >= 0 else without}: {_clause(reason)}.",
            f"Nothing was written, and the table is as it was. {remedy}",
        )


class StartError(ReadError):
    """A first read that should start where the source has no history."""

    def __init__(self, asset: str, source: str, start: str, history: str) -> None:
        self.asset, self.source, self.start, self.history = asset, source, start, history
        super().__init__(
            f"'{asset}' should start to read '{source}' after {start}, but the history of '{source}' {history}.",
            "Nothing was written. "
            "Give a start within the history, or use Read(clamp=True), which takes the closest version.",
        )


class MissingFileError(ReadError):
    """A data file that a version of a table names, and that does not exist."""

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"The result of '{asset}' needs a file that does not exist: {_clause(problem)}.",
            "Nothing was written. If a VACUUM removed the file from an old version while this run was reading, run it "
            "again: the next run reads the newest version. If the newest version lacks the file too, the table has "
            "lost rows: bring the file back from a backup, or RESTORE the table to a version whose files all exist.",
        )


class UnreadableLogError(ReadError):
    """A Delta log in which commits are missing, or a mark that cannot be understood."""

    def __init__(self, table: str, problem: str, remedy: str, damaged: int | None = None) -> None:
        self.table, self.problem, self.remedy, self.damaged = table, problem, remedy, damaged
        super().__init__(
            f"The log of '{table}' cannot be trusted: {_clause(problem)}.", f"Nothing was written. {remedy}"
        )


class NewerMarkError(ReadError):
    """A mark of a format that this version of the library does not know."""

    def __init__(self, asset: str, version: int, number: int, newest: int) -> None:
        self.asset, self.version, self.number, self.newest = asset, version, number, newest
        super().__init__(
            f"A newer version of this library wrote version {version} of the table of '{asset}': its mark is of format "
            f"{number}, and this version knows formats up to {newest}.",
            "Nothing was written. Install the newer version wherever this asset runs.",
        )


class WriteError(LakehouseError):
    """A result that cannot become the table. Nothing was written."""


class LostChangesError(WriteError):
    """A result that is not about what the changes of one of its inputs touched."""

    def __init__(self, asset: str, source: str, range_: str, write: str, answered: Iterable[str]) -> None:
        self.asset, self.source, self.range_, self.write, self.answered = asset, source, range_, write, tuple(answered)
        others = " and ".join(f"'{name}'" for name in self.answered) or "nothing"
        remedy = {
            "Append": "Build its rows from feed, appended(), net() or log() of that input",
            "Aggregate": "Sum that input in an asset of its own, or return a Merge about the keys of both",
        }.get(write, "Unite its keys with the others: touched | other.touched(...), carried over by via(frame, ...)")
        super().__init__(
            f"'{asset}' reads the changes of '{source}' {range_}, but its {write} is about changes of {others}, so "
            f"they would count as read and be lost.",
            f"Nothing was written. {remedy}; or annotate the input as a DataFrame: a snapshot input, whose "
            f"changes start no run.",
        )


class TruncatesMissingError(WriteError):
    """`scd.type1` with truncates, of touched rows that hold only the truncates of touched keys."""

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

    def __init__(self, function: str, rule: str, problem: str, remedy: str) -> None:
        self.function, self.rule, self.problem, self.remedy = function, rule, problem, remedy
        super().__init__(f"{function} {_clause(problem)} (rule {rule}).", f"Nothing was written. {remedy}")


class BrokenPromiseError(WriteError):
    """Rows that break a promise of their write: a row outside the touched keys, or two rows with one key."""

    def __init__(self, asset: str, problem: str, remedy: str) -> None:
        self.asset, self.problem, self.remedy = asset, problem, remedy
        super().__init__(f"The result of '{asset}' {_clause(problem)}.", f"Nothing was written. {remedy}")


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

    def __init__(self, asset: str, differences: Mapping[str, str], remedy: str) -> None:
        self.asset, self.differences, self.remedy = asset, dict(differences), remedy
        listed = "; ".join(f"{column}: {difference}" for column, difference in differences.items())
        super().__init__(
            f"The result of '{asset}' does not fit its table ({listed}).", f"Nothing was written. {remedy}"
        )


class PlanError(WriteError):
    """The asset's own expression failed while Spark computed it."""

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"Spark could not compute the result of '{asset}': {_clause(problem)}.",
            "Nothing was written, and the write was not tried again. Spark is lazy: the error appears while writing, "
            "but its cause is in the asset's expression.",
        )


class ComputeError(WriteError):
    """Spark failed while it computed a result, and does not name the asset's expression as the cause."""

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"Spark failed while it computed the result of '{asset}': {_clause(problem)}.",
            "Nothing was written. Spark does not name the asset's expression as the cause, so the cause may be "
            "temporary (a lost executor, a storage that did not answer): run it again.",
        )


class UnsafeTableError(WriteError):
    """A table property under which changes could be applied twice or lost."""

    def __init__(self, table: str, identifier: str, key: str, value: str, why: str) -> None:
        self.table, self.identifier, self.key, self.value, self.why = table, identifier, key, value, why
        super().__init__(
            f"'{table}' has {key} = {value}: {why}.",
            f"Nothing was written. Remove it: ALTER TABLE {identifier} UNSET TBLPROPERTIES ('{key}')",
        )


class IsolationLevelError(WriteError):
    """A new table that declares an isolation level which open-source Delta does not offer."""

    def __init__(self, asset: str, level: str) -> None:
        self.asset, self.level = asset, level
        super().__init__(
            f"'{asset}' declares delta.isolationLevel = {level}, but open-source Delta creates tables with "
            f"Serializable only; the other level is Databricks'.",
            "Nothing was written. Remove the property, or run it on Databricks.",
        )


class PastRefusedError(WriteError):
    """A full refresh of a history: its source no longer tells the past that the table holds."""

    def __init__(self, asset: str) -> None:
        self.asset = asset
        super().__init__(
            f"'{asset}' keeps a history, and a full refresh would replace its past by what its source still tells.",
            f"Nothing was written. Without the run tag {FULL_REFRESH} it continues from its position. To start over, "
            f"delete the table and materialize it: its first read goes back as far as the source's own history.",
        )


class TrackChangedError(WriteError):
    """A history that is to track other columns than the ones by which its past was cut into rows."""

    def __init__(self, asset: str, was: str, now: str) -> None:
        self.asset, self.was, self.now = asset, was, now
        super().__init__(
            f"The history '{asset}' has tracked {was} and is to track {now}, so rows of its past would have ended at "
            f"other times.",
            "Nothing was written. Track what it did, or keep the history of the other columns in another "
            "asset, whose first read goes back as far as the source's own history.",
        )


class ForeignTableError(WriteError):
    """A table that holds rows which this asset did not write."""

    def __init__(self, asset: str, where: str, version: int, *, appends: bool = False) -> None:
        self.asset, self.where, self.version, self.appends = asset, where, version, appends
        tag = f"{FULL_REFRESH}=true, which replaces its rows by the asset's result"
        if appends:
            tag = f"{GO_ON_FROM}{asset}=<a version of the source, or now>, which adds the rows of later versions"
        super().__init__(
            f"'{asset}' would write to {where}, but that table holds rows that another program committed (version "
            f"{version}) and none that the asset wrote.",
            f"Nothing was written. Give the asset another name or root; or adopt the table with the run tag {tag}.",
        )


class UnregisteredTableError(WriteError):
    """A table that the catalog does not know, in the directory that the catalog gives to a new table."""

    def __init__(self, asset: str, name: str, where: str, version: int) -> None:
        self.asset, self.name, self.where, self.version = asset, name, where, version
        super().__init__(
            f"'{asset}' would create {name}, which the session's catalog does not know, but its directory {where} "
            f"holds a Delta table at version {version}.",
            "Nothing was written. If that is the asset's table, register it "
            f"(CREATE TABLE {name} USING delta LOCATION '{where}') and run the asset again: it continues from its "
            f"position. A catalog in memory forgets its tables when Spark ends.",
        )


class OtherFileSystemError(WriteError):
    """A table that Spark sees at a path where this process sees none."""

    def __init__(self, asset: str, where: str, version: int) -> None:
        self.asset, self.where, self.version = asset, where, version
        super().__init__(
            f"'{asset}' would create its table at {where}, where this process sees no table, but Spark sees one at "
            f"version {version}: to Spark the path is on another file system.",
            "Nothing was written. Give the root its "
            "scheme, for example hdfs:// or dbfs:/, so that its logs are read through Spark.",
        )


class SecondDriverError(WriteError):
    """A table on S3 that two Spark drivers would write at once."""

    def __init__(self, asset: str, where: str, run: str) -> None:
        self.asset, self.where, self.run = asset, where, run
        super().__init__(
            f"Run {run} is writing '{asset}' at {where} from another Spark driver, and on S3 Delta keeps commits apart "
            f"within one driver only: one of the two could overwrite the other's commit.",
            "Nothing was written. Run it again when that run has ended; or give the writers of the table a pool with "
            "the limit 1, or one Spark Connect server.",
        )


class LateGapError(ReadError):
    """Changes that turned out to be unreadable while the result was computed."""

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"The changes that '{asset}' reads turned out to be unreadable while its result was computed: "
            f"{_clause(reason)}.",
            "Nothing was written. The step runs again without their feed.",
        )


class ForeignApplicationIdError(WriteError):
    """Another program writes with this asset's application id, so its epochs prove nothing."""

    def __init__(self, asset: str, application_id: str, epoch: int) -> None:
        self.asset, self.application_id, self.epoch = asset, application_id, epoch
        super().__init__(
            f"Delta skipped the commit of '{asset}' as already done (application id '{application_id}', epoch "
            f"{epoch}), yet no commit of its history carries that epoch: another program writes this application "
            f"id, or the commit was removed from the log.",
            "Nothing was written. Stop the other writer, then "
            f"materialize once with the run tag {FULL_REFRESH}=true. If only Spark can read the log, first "
            f"SET a TBLPROPERTY of the table and RESTORE it to the version before that: epochs then begin again.",
        )


class SessionEndedError(LakehouseError, ConnectionError):
    """The Spark session in which a run's inputs were read ended before its result was computed."""

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"The Spark session in which the inputs of '{asset}' were read has ended: {reason}",
            "Nothing was written. Run it again: the next run reads them in a new session.",
        )


class ConflictError(LakehouseError):
    """Rivals kept committing first. Nothing was written."""

    def __init__(self, asset: str, attempts: int, seconds: float, lost_to: str, unread: str, advice: str) -> None:
        self.asset, self.attempts, self.seconds, self.lost_to = asset, attempts, seconds, lost_to
        self.unread, self.advice = unread, advice
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            f"'{asset}' lost its commit {times} in {seconds:.1f} s, last to {lost_to}.",
            f"Nothing was written; {unread}. {advice}",
        )


class StaleInputsError(LakehouseError):
    """The table is not what the run started from, so the run needs new inputs."""


class OvertakenError(StaleInputsError):
    """Another run of this asset has committed, and this run still has work to do."""

    def __init__(self, asset: str, run: str, version: int, *, written: int | None = None) -> None:
        self.asset, self.run, self.version, self.written = asset, run, version, written
        now = f"Nothing was written by this run. Run it again: it continues from version {version}."
        if written is not None:
            now = (
                f"Neither run saw the other, and this run committed version {written}: some rows may be out of date, "
                f"or in the table twice. Run it again: the next run writes the rows that differ, or says why it cannot."
            )
        super().__init__(f"Run {run} committed '{asset}' as version {version} while this run was under way.", now)


class RolledBackError(StaleInputsError):
    """The position from which a run began is no longer in its table."""

    def __init__(self, asset: str, version: int | None) -> None:
        self.asset, self.version = asset, version
        now = "is gone" if version is None else f"is at version {version} now"
        super().__init__(
            f"While this run was reading, the table of '{asset}' lost the position from which the run began (it was "
            f"restored, replaced or deleted, or two other runs did not see each other). The table {now}. Anything that "
            f"this run has written does not count. Run it again: the next run finds out what has been read."
        )


class UnsettledError(LakehouseError):
    """A commit is in the table, but a rival committed between the comparison and this commit."""

    def __init__(self, asset: str, version: int, attempts: int, rows: str, problem: str = "") -> None:
        self.asset, self.version, self.attempts, self.rows, self.problem = asset, version, attempts, rows, problem
        times = "once" if attempts == 1 else f"{attempts} times"
        failed = f" The rows could then not be written again: {_clause(problem)}." if problem else ""
        super().__init__(
            f"'{asset}' is committed as version {version}, but a rival that committed just before it changed {rows}. "
            f"This happened {times}, so rows of the rival may be where rows of this run belong.{failed} No change is "
            f"lost: the next run reads the same range again and writes the rows that differ. Keep the two writers "
            f"apart, or run it again."
        )


class UnknownOutcomeError(LakehouseError):
    """The log could not be read to find out whether the commit landed."""

    def __init__(self, asset: str, attempt: str, problem: str) -> None:
        self.asset, self.attempt, self.problem = asset, attempt, problem
        super().__init__(
            f"The commit of '{asset}' did not answer, and its log cannot be read ({_clause(problem)}). The commit "
            f"may be in the table: its mark would name attempt {attempt}. Run it again when the log can be read: if "
            f"the commit is there, the run says so and applies nothing twice."
        )


def _or_null(value: str | None) -> str:
    return "NULL" if value is None else value


def _clause(text: str) -> str:
    """A text that stands inside one of our sentences, which brings its own full stop."""
    return text.strip().rstrip(".")
