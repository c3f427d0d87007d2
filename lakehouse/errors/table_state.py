"""What is wrong with a table, a commit, or the session of a run."""

from pathlib import Path
from typing import Literal, Self, TypeAlias

from lakehouse.errors.base import ALLOW, FULL_REFRESH, GO_ON_FROM, LakehouseError, clause, with_code
from lakehouse.errors.results import WriteError

_ADVICE = {
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": (
        "The write has to change rows, which delta.appendOnly forbids. Let the asset return an Append, or permit "
        "changes: ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')"
    ),
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": (
        "Correct such rows in the asset or leave them out. If the constraint is wrong, drop it: ALTER TABLE {table} "
        "DROP CONSTRAINT <name>"
    ),
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": (
        "Correct such rows in the asset or leave them out. If the column may be NULL: ALTER TABLE {table} ALTER COLUMN "
        "<name> DROP NOT NULL"
    ),
    "DELTA_CLUSTERING_COLUMN_MISSING_STATS": (
        "Name the columns of Table(cluster_by=...) in delta.dataSkippingStatsColumns, or let "
        "delta.dataSkippingNumIndexedCols reach them."
    ),
    "INSUFFICIENT_PERMISSIONS": "Let the user of the runs SELECT and MODIFY {table}, and SELECT its sources.",
}
"""What to do about conditions of Delta or a catalog whose own sentence does not advise it."""

Adoption: TypeAlias = Literal["compare", "go on", "take the extract", "refuse", "quarantine"]
"""How an asset can adopt the table of another program: it compares the rows with its result, adds later rows to them,
takes its extract instead of them, or refuses, because it keeps a past or is the quarantine of another table."""


class TableError(WriteError):
    """A table that a run must not write, or that Delta does not let it write. Nothing was written."""

    @classmethod
    @with_code("UNSAFE_TABLE")
    def unsafe_table(cls, table: str, identifier: str, key: str, value: str, why: str) -> Self:
        """A table property under which changes could be applied twice or lost."""
        return cls(
            f"'{table}' has {key} = {value}: {why}.",
            f"Nothing was written. Remove it: ALTER TABLE {identifier} UNSET TBLPROPERTIES ('{key}')",
        )

    @classmethod
    @with_code("ISOLATION_LEVEL")
    def isolation_level(cls, asset: str, level: str) -> Self:
        """A new table that declares an isolation level which open-source Delta does not offer."""
        return cls(
            f"'{asset}' declares delta.isolationLevel = {level}, but open-source Delta creates tables with "
            f"Serializable only; the other level is Databricks'.",
            "Nothing was written. Remove the property, or run it on Databricks.",
        )

    @classmethod
    @with_code("DELTA_REFUSED")
    def delta_refused(cls, asset: str, table: str, condition: str, problem: str) -> Self:
        """Delta or a catalog refused what a run asks of a table, for a reason that does not pass by itself."""
        advice = _ADVICE.get(condition.split(".", maxsplit=1)[0], "").format(table=table)
        return cls(
            f"A run of '{asset}', whose table is {table}, is refused: [{condition}] {clause(problem)}.",
            f"Nothing was written. {advice or 'Change what is named: the next run would be refused as well.'}",
        )

    @classmethod
    @with_code("FOREIGN_TABLE")
    def foreign_table(cls, asset: str, where: str, version: int, adoption: Adoption = "compare") -> Self:
        """A table that holds rows which this asset did not write."""
        return cls(
            f"'{asset}' would write to {where}, but that table holds rows that another program committed (version "
            f"{version}) and none that the asset wrote.",
            f"Nothing was written. {_way(asset, adoption)}",
        )

    @classmethod
    @with_code("PLACE_TAKEN")
    def place_taken(cls, asset: str, where: str, problem: str, remedy: str) -> Self:
        """A new table whose name or directory holds something else."""
        return cls(f"'{asset}' would create its table at {where}, {clause(problem)}.", f"Nothing was written. {remedy}")

    @classmethod
    @with_code("OTHER_FILE_SYSTEM")
    def other_file_system(cls, asset: str, where: str, version: int) -> Self:
        """A table that Spark sees at a path where this process sees none."""
        return cls(
            f"'{asset}' would create its table at {where}, where this process sees no table, but Spark sees one at "
            f"version {version}: to Spark the path is on another file system.",
            "Nothing was written. Give the root its "
            "scheme, for example hdfs:// or dbfs:/, so that its logs are read through Spark.",
        )

    @classmethod
    @with_code("SECOND_DRIVER", is_temporary=True)
    def second_driver(cls, asset: str, where: str, run: str) -> Self:
        """A table on S3 that two Spark drivers would write at once."""
        return cls(
            f"Run {run} is writing '{asset}' at {where} from another Spark driver, and on S3 Delta keeps commits apart "
            f"within one driver only: one of the two could overwrite the other's commit.",
            "Nothing was written. Run it again when that run has ended; or give the writers of the table a pool with "
            "the limit 1, or one Spark Connect server.",
        )

    @classmethod
    @with_code("FOREIGN_APPLICATION_ID")
    def foreign_application_id(cls, asset: str, application_id: str, epoch: int) -> Self:
        """Another program writes with this asset's application id, so its epochs prove nothing."""
        return cls(
            f"Delta skipped the commit of '{asset}' as already done (application id '{application_id}', epoch "
            f"{epoch}), yet no commit of its history carries that epoch: another program writes this application "
            f"id, or the commit was removed from the log.",
            "Nothing was written. Stop the other writer, then "
            f"materialize once with the run tag {FULL_REFRESH}=true. If only Spark can read the log, first "
            f"SET a TBLPROPERTY of the table and RESTORE it to the version before that: epochs then begin again.",
        )


def _way(asset: str, adoption: Adoption) -> str:
    match adoption:
        case "compare":
            tag = f"{FULL_REFRESH}=true, which replaces its rows by the asset's result"
        case "go on":
            tag = f"{GO_ON_FROM}{asset}=<a version of the source, or now>, which adds the rows of later versions"
        case "take the extract":
            tag = f"{ALLOW}{asset}=version, which replaces its rows by the extract"
        case "quarantine":
            return "Move that table, or give the asset another name or root."
        case "refuse":
            return (
                "A history does not adopt a table, because it is not known when its rows began to hold: give the asset "
                "another name or root, or delete the table and materialize the asset."
            )
    return f"Adopt the table with the run tag {tag}; or give the asset another name or root."


class CommitError(LakehouseError):
    """A commit that was lost to rivals, or that may or may not be in the table."""

    @classmethod
    @with_code("CONFLICT", is_temporary=True)
    def conflict(cls, asset: str, attempts: int, seconds: float, lost_to: str, unread: str, advice: str) -> Self:
        """Rivals kept committing first. Nothing was written."""
        times = "once" if attempts == 1 else f"{attempts} times"
        return cls(
            f"'{asset}' lost its commit {times} in {seconds:.1f} s, last to {lost_to}.",
            f"Nothing was written; {unread}. {advice}",
        )

    @classmethod
    @with_code("UNKNOWN_OUTCOME", is_temporary=True)
    def unknown_outcome(cls, asset: str, attempt: str, problem: str) -> Self:
        """The log could not be read to find out whether the commit landed."""
        return cls(
            f"The commit of '{asset}' got no answer, and the log of its table cannot be read ({clause(problem)}). "
            f"The commit may be in the table: its mark would name attempt {attempt}. Run it again when the log can be "
            f"read: if the commit is there, the run says so and applies nothing twice."
        )


class UnsettledError(CommitError):
    """A commit is in the table, but a rival committed between the comparison and this commit."""

    code = "UNSETTLED"
    is_temporary = True

    def __init__(self, asset: str, version: int, attempts: int, rows: str, problem: str = "") -> None:
        self.asset, self.version, self.attempts, self.rows, self.problem = asset, version, attempts, rows, problem
        times = "once" if attempts == 1 else f"{attempts} times"
        failed = f" The rows could then not be written again: {clause(problem)}." if problem else ""
        super().__init__(
            f"'{asset}' is committed as version {version}, but another writer that committed just before it changed "
            f"{rows}. This happened {times}, so the table may hold rows of that writer instead of this run's.{failed} "
            f"No change is lost: the next run reads the same range again and writes the rows that differ. Keep the two "
            f"writers apart, or run it again."
        )


class StaleInputsError(LakehouseError):
    """The table is not what the run started from, so the run needs new inputs."""

    @classmethod
    @with_code("OVERTAKEN")
    def overtaken(cls, asset: str, run: str, version: int, *, written: int | None = None) -> Self:
        """Another run of this asset has committed, and this run still has work to do."""
        now = f"Nothing was written by this run. Run it again: it continues from version {version}."
        if written is not None:
            now = (
                f"Neither run saw the other, and this run committed version {written}: some rows may be out of date, "
                f"or in the table twice. Run it again: the next run writes the rows that differ, or says why it cannot."
            )
        return cls(f"Run {run} committed '{asset}' as version {version} while this run was under way.", now)

    @classmethod
    @with_code("ROLLED_BACK")
    def rolled_back(cls, asset: str, version: int | None) -> Self:
        """The position from which a run began is no longer in its table."""
        now = "is gone" if version is None else f"is at version {version} now"
        return cls(
            f"While this run was reading, the table of '{asset}' lost the position from which the run began (it was "
            f"restored, replaced or deleted, its columns were changed, or two other runs did not see each other). The "
            f"table {now}. Anything that this run has written does not count. Run it again: the next run finds out "
            f"what has been read."
        )


class SessionError(LakehouseError, ConnectionError):
    """The Spark session of a run, or the server that it is on, has ended."""

    @classmethod
    @with_code("SESSION_ENDED", is_temporary=True)
    def session_ended(cls, asset: str, reason: str) -> Self:
        """The Spark session in which a run's inputs were read ended before its result was computed."""
        return cls(
            f"The Spark session in which the inputs of '{asset}' were read has ended: {reason}",
            "Nothing was written. Run it again: the next run reads them in a new session.",
        )

    @classmethod
    @with_code("SERVER_LOST", is_temporary=True)
    def server_lost(cls, root: Path, reason: str) -> Self:
        """The Spark server of a root ended while this process used it.

        A commit in progress is in the table as a whole or not at all. The next run finds out from the log and
        continues, on a new server.
        """
        return cls(
            f"The Spark server of {root} ended while it was used: {reason} What was committed stays, and nothing is "
            f"half done. Run this again: a new server starts by itself."
        )
