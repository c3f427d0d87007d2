"""Sources that cannot be read as declared."""

from collections.abc import Iterable
from difflib import get_close_matches

from lakehouse.errors.base import ReadError, clause


class PartitionRangeError(ReadError):
    """A run of several partitions of an asset that reads changes, each of which has a position of its own."""

    code = "PARTITION_RANGE"

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

    code = "SOURCE_MISSING"

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

    code = "COLUMN_MISSING"

    def __init__(self, table: str, column: str, columns: Iterable[str]) -> None:
        self.table, self.column, self.columns = table, column, tuple(columns)
        by_lower_case = {name.lower(): name for name in self.columns}
        closest = [by_lower_case[name] for name in get_close_matches(column.lower(), by_lower_case, n=1)]
        meant = f" Did you mean {closest[0]}?" if closest else ""
        super().__init__(
            f"{table} has no column {column}.",
            f"Nothing was written.{meant} Its columns are: {', '.join(self.columns)}.",
        )


class ChangeFeedDisabledError(ReadError):
    """A source that keeps no change data feed."""

    code = "CHANGE_FEED_DISABLED"

    def __init__(self, asset: str, source: str, identifier: str) -> None:
        self.asset, self.source, self.identifier = asset, source, identifier
        self.statement = f"ALTER TABLE {identifier} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        super().__init__(
            f"'{asset}' reads the changes of '{source}', but that table keeps no change data feed.",
            f"Nothing was written. Enable it once: {self.statement}",
        )


class NotAppendOnlyError(ReadError):
    """`Changes.appended()` of a source that updated or deleted rows."""

    code = "NOT_APPEND_ONLY"

    def __init__(self, source: str, after: int, upto: int, detail: str) -> None:
        self.source, self.after, self.upto, self.detail = source, after, upto, detail
        super().__init__(
            f"'{source}' updated or deleted rows in its versions ({after}, {upto}] ({detail}), so its changes "
            f"are more than appended rows.",
            "Nothing was written. Read them with touched() or net() instead.",
        )


class GapError(ReadError):
    """Changes that can no longer be read, and no exact fallback."""

    code = "GAP"

    def __init__(self, asset: str, source: str, after: int, upto: int, reason: str, remedy: str) -> None:
        self.asset, self.source, self.after, self.upto, self.reason = asset, source, after, upto, reason
        self.remedy = remedy
        at_position = f"'{asset}' has read '{source}' up to version {after}"
        at_position += f" and cannot read its changes ({after}, {upto}]" if upto > after else ""
        without = f"The table of '{asset}' does not say how far '{source}' was read, which is at version {upto}"
        super().__init__(
            f"{at_position if after >= 0 else without}: {clause(reason)}.",
            f"Nothing was written, and the table is as it was. {remedy}",
        )


class LateGapError(ReadError):
    """Changes that turned out to be unreadable while the result was computed."""

    code = "LATE_GAP"

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"The changes that '{asset}' reads turned out to be unreadable while its result was computed: "
            f"{clause(reason)}.",
            "Nothing was written. The step runs again without their feed.",
        )


class StartError(ReadError):
    """A read that should start where the source has no history: by `Read(start=...)`, or by a run tag."""

    code = "START"

    def __init__(self, asset: str, source: str, start: str, history: str, *, tag: str | None = None) -> None:
        self.asset, self.source, self.start, self.history, self.tag = asset, source, start, history, tag
        remedy = "Give a start within the history, or use Read(clamp=True), which takes the closest version."
        if tag is not None:
            remedy = f"Give the run tag {tag} a version within the history, or now."
        super().__init__(
            f"'{asset}' should start to read '{source}' after {start}, but the history of '{source}' {history}.",
            f"Nothing was written. {remedy}",
        )


class MissingFileError(ReadError):
    """A data file that a version of a table names, and that does not exist."""

    code = "MISSING_FILE"

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(
            f"The result of '{asset}' needs a file that does not exist: {clause(problem)}.",
            "Nothing was written. If a VACUUM removed the file from an old version while this run was reading, run it "
            "again: the next run reads the newest version. If the newest version lacks the file too, the table has "
            "lost rows: bring the file back from a backup, or RESTORE the table to a version whose files all exist.",
        )


class SourceDeniedError(ReadError):
    """A table that Spark may not read, although this process has read its log."""

    code = "SOURCE_DENIED"

    def __init__(self, table: str, version: int, where: str, problem: str) -> None:
        self.table, self.version, self.where, self.problem = table, version, where, problem
        super().__init__(
            f"Spark may not read '{table}' at version {version} in {where}: {clause(problem)}.",
            "Nothing was written. Give Spark's driver and executors the credentials of this storage. Spark does not "
            "get the storage_options of DeltaIOManager, which are for logs alone.",
        )


class UnreadableLogError(ReadError):
    """A Delta log in which commits are missing, or a mark that cannot be understood."""

    code = "UNREADABLE_LOG"

    def __init__(self, table: str, problem: str, remedy: str, damaged: int | None = None) -> None:
        self.table, self.problem, self.remedy, self.damaged = table, problem, remedy, damaged
        super().__init__(
            f"The log of '{table}' cannot be trusted: {clause(problem)}.", f"Nothing was written. {remedy}"
        )


class UnknownFeatureError(UnreadableLogError):
    """A table with a feature that the library for logs does not know."""

    code = "UNKNOWN_FEATURE"

    def __init__(self, table: str, where: str, feature: str) -> None:
        self.table, self.where, self.feature, self.damaged = table, where, feature, None
        self.problem = f"the table has the feature '{feature}', which the package deltalake does not know"
        self.remedy = (
            f"Install a deltalake that knows it, or drop it: ALTER TABLE delta.`{where}` DROP FEATURE {feature}"
        )
        ReadError.__init__(
            self, f"The log of '{table}' cannot be read: {self.problem}.", f"Nothing was written. {self.remedy}"
        )


class ViewError(ReadError):
    """A view of the catalog where a table is needed."""

    code = "VIEW"

    def __init__(self, name: str, identifier: str) -> None:
        self.name, self.identifier = name, identifier
        super().__init__(
            f"'{name}' is a view ({identifier}), and a view has no versions that a run could pin.",
            "Nothing was written. Let the asset read the tables of the view, and put the query of the view into the "
            "asset. Or let another asset keep the rows of the view in a table.",
        )


class NewerMarkError(ReadError):
    """A mark of a format that this version of the library does not know."""

    code = "NEWER_MARK"

    def __init__(self, asset: str, version: int, number: int, newest: int) -> None:
        self.asset, self.version, self.number, self.newest = asset, version, number, newest
        super().__init__(
            f"A newer version of this library wrote version {version} of the table of '{asset}': its mark is of format "
            f"{number}, and this version knows formats up to {newest}.",
            "Nothing was written. Install the newer version wherever this asset runs.",
        )
