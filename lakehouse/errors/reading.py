"""Sources that cannot be read as declared."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Self

from lakehouse.errors.base import LakehouseError, clause, with_code


class ReadError(LakehouseError):
    """A source that cannot be read as declared. Nothing was written."""

    code = "READ"

    @classmethod
    @with_code("SOURCE_MISSING")
    def source_missing(cls, asset: str, source: str, where: str) -> Self:
        """A source that is not a Delta table, or not there yet."""
        remedy = f"Correct its name or root; or make it first, by the asset or the program that writes '{source}'."
        if asset == source:
            remedy = "An asset that reads its own table begins with an empty table: create it, with its columns."
        return cls(
            f"'{asset}' reads '{source}', but there is no Delta table at {where}.", f"Nothing was written. {remedy}"
        )

    @classmethod
    @with_code("COLUMN_MISSING")
    def column_missing(cls, table: str, column: str, columns: Sequence[str]) -> Self:
        """A column that a table, or a frame in its place, does not have."""
        by_lower_case = {name.lower(): name for name in columns}
        closest = [by_lower_case[name] for name in get_close_matches(column.lower(), by_lower_case, n=1)]
        meant = f" Did you mean {closest[0]}?" if closest else ""
        return cls(
            f"{table} has no column {column}.",
            f"Nothing was written.{meant} Its columns are: {', '.join(columns)}.",
        )

    @classmethod
    @with_code("CHANGE_FEED_DISABLED")
    def change_feed_disabled(cls, asset: str, source: str, identifier: str) -> Self:
        """A source that keeps no change data feed."""
        return cls(
            f"'{asset}' reads the changes of '{source}', but that table keeps no change data feed.",
            f"Nothing was written. Enable it once: ALTER TABLE {identifier} SET TBLPROPERTIES "
            f"('delta.enableChangeDataFeed' = 'true')",
        )

    @classmethod
    @with_code("NOT_APPEND_ONLY")
    def not_append_only(cls, source: str, after: int, upto: int, detail: str) -> Self:
        """`Changes.appended()` of a source that updated or deleted rows."""
        return cls(
            f"'{source}' updated or deleted rows in its versions ({after}, {upto}] ({detail}), so its changes "
            f"are more than appended rows.",
            "Nothing was written. Read them with touched() or net() instead.",
        )

    @classmethod
    @with_code("GAP")
    def gap(cls, asset: str, source: str, after: int, upto: int, reason: str, remedy: str) -> Self:
        """Changes that can no longer be read, and no exact fallback."""
        at_position = f"'{asset}' has read '{source}' up to version {after}"
        at_position += f" and cannot read its changes ({after}, {upto}]" if upto > after else ""
        without = f"The table of '{asset}' does not say how far '{source}' was read, which is at version {upto}"
        return cls(
            f"{at_position if after >= 0 else without}: {clause(reason)}.",
            f"Nothing was written, and the table is as it was. {remedy}",
        )

    @classmethod
    @with_code("NO_CUT")
    def no_cut(cls, asset: str, waits: Sequence[object]) -> Self:
        """A first read of inputs that stand for one state of their sources at none of their versions."""
        return cls(
            f"'{asset}' cannot begin, because its inputs have never stood for one state of their sources. It waits for "
            f"{'; and for '.join(map(str, waits))}.",
            "Nothing was written. Materialize the tables that it waits for: by Policy(inputs='agree') they meet.",
        )

    @classmethod
    @with_code("START")
    def start(cls, asset: str, source: str, start: str, history: str, *, tag: str | None = None) -> Self:
        """A read that should start where the source has no history: by `Read(start=...)`, or by a run tag."""
        remedy = "Give a start within the history, or use Read(clamp=True), which takes the closest version."
        if tag is not None:
            remedy = f"Give the run tag {tag} a version within the history, or now."
        return cls(
            f"'{asset}' should start to read '{source}' after {start}, but the history of '{source}' {history}.",
            f"Nothing was written. {remedy}",
        )

    @classmethod
    @with_code("MISSING_FILE", is_temporary=True)
    def missing_file(cls, asset: str, problem: str) -> Self:
        """A data file that a version of a table names, but that does not exist."""
        return cls(
            f"The result of '{asset}' needs a file that does not exist: {clause(problem)}.",
            "Nothing was written. If a VACUUM removed the file from an old version while this run was reading, run it "
            "again: the next run reads the newest version. If the newest version lacks the file too, the table has "
            "lost rows: bring the file back from a backup, or RESTORE the table to a version whose files all exist.",
        )

    @classmethod
    @with_code("UNREADABLE_FILE")
    def unreadable_file(cls, asset: str, problem: str) -> Self:
        """A file is damaged, or a value in it does not fit the columns with which it is read."""
        return cls(
            f"Spark could not read a file for the result of '{asset}': {clause(problem)}.",
            "Nothing was written, and the write was not tried again. The file is damaged, or a value in it does not "
            "fit the columns with which it is read: correct the file, or these columns.",
        )

    @classmethod
    @with_code("SOURCE_DENIED")
    def source_denied(cls, table: str, version: int, where: str, problem: str) -> Self:
        """A table that Spark may not read, although this process has read its log."""
        return cls(
            f"Spark may not read '{table}' at version {version} in {where}: {clause(problem)}.",
            "Nothing was written. Give Spark's driver and executors the credentials of this storage. Spark does not "
            "get the storage_options of DeltaIOManager, which are for logs alone.",
        )

    @classmethod
    @with_code("NEWER_MARK")
    def newer_mark(cls, asset: str, version: int, number: int, newest: int) -> Self:
        """A mark of a format that this version of the library does not know."""
        return cls(
            f"A newer version of this library wrote version {version} of the table of '{asset}': its mark is of format "
            f"{number}, and this version knows formats up to {newest}.",
            "Nothing was written. Install the newer version wherever this asset runs.",
        )

    @classmethod
    @with_code("VIEW")
    def view(cls, name: str, identifier: str) -> Self:
        """A view of the catalog where a table is needed."""
        return cls(
            f"'{name}' is a view ({identifier}), and a view has no versions that a run could pin.",
            "Nothing was written. Let the asset read the tables of the view, and put the query of the view into the "
            "asset. Or let another asset keep the rows of the view in a table.",
        )

    @classmethod
    @with_code("NO_SCHEMA")
    def no_schema(cls, name: str, identifier: str, problem: str) -> Self:
        """A catalog name whose schema or catalog is not there."""
        return cls(
            f"'{name}' has the catalog name {identifier}, and Spark knows no such schema or catalog: "
            f"{clause(problem)}.",
            "Nothing was written. Create the schema, set the catalog up in Spark (spark.sql.catalog.<its name>), or "
            "correct Table(name=...).",
        )


class LateGapError(ReadError):
    """Changes that turned out to be unreadable while the result was computed."""

    code = "LATE_GAP"

    def __init__(self, asset: str, reason: str, written: int | None = None) -> None:
        self.asset, self.reason, self.written = asset, reason, written
        now = "Nothing was written."
        if written is not None:
            now = f"Version {written} is committed. Rows that a rival changed just before it are to be written again."
        super().__init__(
            f"The changes that '{asset}' reads turned out to be unreadable while its result was computed: "
            f"{clause(reason)}.",
            f"{now} The step runs again without their feed.",
        )


class UnreadableLogError(ReadError):
    """A Delta log in which commits are missing, or a mark that cannot be understood."""

    damaged: int | None = None

    @classmethod
    @with_code("UNREADABLE_LOG")
    def unreadable_log(cls, table: str, problem: str, remedy: str, damaged: int | None = None) -> Self:
        """Commits are missing, or a mark cannot be understood; `damaged` is the version of such a mark."""
        error = cls(f"The log of '{table}' cannot be trusted: {clause(problem)}.", f"Nothing was written. {remedy}")
        error.damaged = damaged
        return error

    @classmethod
    @with_code("UNKNOWN_FEATURE")
    def unknown_feature(cls, table: str, feature: str, reader: str) -> Self:
        """The table has a feature that the reader of its log does not know: the package deltalake, or Spark's Delta."""
        return cls(
            f"The log of '{table}' cannot be read: the table has the feature {feature}, which {reader} does not know.",
            "Nothing was written. Use a version that knows the feature, or drop the feature with such a version "
            "(ALTER TABLE ... DROP FEATURE). With a catalog name, Table(name=...), the log is read through Spark.",
        )
