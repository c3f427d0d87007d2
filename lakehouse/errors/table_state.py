"""What is wrong with a table, a commit or a definition, apart from what is read and what is returned."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, assert_never

from lakehouse.errors.base import ALLOW, FULL_REFRESH, GO_ON_FROM, DefinitionError, LakehouseError, WriteError, clause


class UnsafeTableError(WriteError):
    """A table property under which changes could be applied twice or lost."""

    code = "UNSAFE_TABLE"

    def __init__(self, table: str, identifier: str, key: str, value: str, why: str) -> None:
        self.table, self.identifier, self.key, self.value, self.why = table, identifier, key, value, why
        super().__init__(
            f"'{table}' has {key} = {value}: {why}.",
            f"Nothing was written. Remove it: ALTER TABLE {identifier} UNSET TBLPROPERTIES ('{key}')",
        )


class IsolationLevelError(WriteError):
    """A new table that declares an isolation level which open-source Delta does not offer."""

    code = "ISOLATION_LEVEL"

    def __init__(self, asset: str, level: str) -> None:
        self.asset, self.level = asset, level
        super().__init__(
            f"'{asset}' declares delta.isolationLevel = {level}, but open-source Delta creates tables with "
            f"Serializable only; the other level is Databricks'.",
            "Nothing was written. Remove the property, or run it on Databricks.",
        )


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
}
"""What to do about conditions of Delta whose own sentence does not say so."""


class DeltaRefusedError(WriteError):
    """Delta refused what a run asks of a table, for a reason that stays until somebody changes it."""

    code = "DELTA_REFUSED"

    def __init__(self, asset: str, table: str, condition: str, problem: str) -> None:
        self.asset, self.table, self.condition, self.problem = asset, table, condition, problem
        advice = _ADVICE.get(condition.split(".", maxsplit=1)[0], "").format(table=table)
        super().__init__(
            f"Delta refuses a run of '{asset}', whose table is {table}: [{condition}] {clause(problem)}.",
            f"Nothing was written. {advice or 'Change what Delta names: the next run would be refused as well.'}",
        )


Adoption: TypeAlias = Literal["compare", "go on", "take the extract", "refuse"]
"""How an asset can adopt the table of another program: it compares the rows with its result, adds later rows to them,
takes its extract instead of them, or refuses, because it keeps the past of its source."""


class ForeignTableError(WriteError):
    """A table that holds rows which this asset did not write."""

    code = "FOREIGN_TABLE"

    def __init__(self, asset: str, where: str, version: int, adoption: Adoption = "compare") -> None:
        self.asset, self.where, self.version, self.adoption = asset, where, version, adoption
        super().__init__(
            f"'{asset}' would write to {where}, but that table holds rows that another program committed (version "
            f"{version}) and none that the asset wrote.",
            f"Nothing was written. {_way(asset, adoption)}",
        )


def _way(asset: str, adoption: Adoption) -> str:
    match adoption:
        case "compare":
            tag = f"{FULL_REFRESH}=true, which replaces its rows by the asset's result"
        case "go on":
            tag = f"{GO_ON_FROM}{asset}=<a version of the source, or now>, which adds the rows of later versions"
        case "take the extract":
            tag = f"{ALLOW}{asset}=version, which replaces its rows by the extract"
        case "refuse":
            return (
                "A history does not adopt a table, because nobody knows when its rows began to hold: give the asset "
                "another name or root, or delete the table and materialize the asset."
            )
        case _:
            assert_never(adoption)
    return f"Adopt the table with the run tag {tag}; or give the asset another name or root."


class UnregisteredTableError(WriteError):
    """A table that the catalog does not know, in the directory that the catalog gives to a new table."""

    code = "UNREGISTERED_TABLE"

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

    code = "OTHER_FILE_SYSTEM"

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

    code = "SECOND_DRIVER"

    def __init__(self, asset: str, where: str, run: str) -> None:
        self.asset, self.where, self.run = asset, where, run
        super().__init__(
            f"Run {run} is writing '{asset}' at {where} from another Spark driver, and on S3 Delta keeps commits apart "
            f"within one driver only: one of the two could overwrite the other's commit.",
            "Nothing was written. Run it again when that run has ended; or give the writers of the table a pool with "
            "the limit 1, or one Spark Connect server.",
        )


class ForeignApplicationIdError(WriteError):
    """Another program writes with this asset's application id, so its epochs prove nothing."""

    code = "FOREIGN_APPLICATION_ID"

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

    code = "SESSION_ENDED"

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"The Spark session in which the inputs of '{asset}' were read has ended: {reason}",
            "Nothing was written. Run it again: the next run reads them in a new session.",
        )


class OtherJarsError(LakehouseError):
    """A jar on Spark's class path needs what is not there; most likely Delta's, made for another version of Spark."""

    code = "OTHER_JARS"

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"Spark failed in a run of '{asset}', because a jar on its class path needs what is not there, as where "
            f"Delta's jar is for another version of Spark: {clause(reason)}.",
            "Nothing was written. Give Spark the jar of Delta for its own version (io.delta:delta-spark_4.1_2.13 for "
            "Spark 4.1, say), or the class that is missing.",
        )


class ConflictError(LakehouseError):
    """Rivals kept committing first. Nothing was written."""

    code = "CONFLICT"

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

    code = "STALE_INPUTS"


class OvertakenError(StaleInputsError):
    """Another run of this asset has committed, and this run still has work to do."""

    code = "OVERTAKEN"

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

    code = "ROLLED_BACK"

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

    code = "UNSETTLED"

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


class UnknownOutcomeError(LakehouseError):
    """The log could not be read to find out whether the commit landed."""

    code = "UNKNOWN_OUTCOME"

    def __init__(self, asset: str, attempt: str, problem: str) -> None:
        self.asset, self.attempt, self.problem = asset, attempt, problem
        super().__init__(
            f"The commit of '{asset}' did not answer, and its log cannot be read ({clause(problem)}). The commit "
            f"may be in the table: its mark would name attempt {attempt}. Run it again when the log can be read: if "
            f"the commit is there, the run says so and applies nothing twice."
        )


class MissingKeyError(DefinitionError):
    """A write by key to a table that declares none."""

    code = "MISSING_KEY"

    def __init__(self, asset: str, write: str) -> None:
        self.asset, self.write = asset, write
        article = "an" if write[0] in "AEIOU" else "a"
        super().__init__(
            f"Asset '{asset}' returns {article} {write} but its table declares no key. Add metadata=Table(key=...)."
        )


class UnsupportedAnnotationError(DefinitionError):
    """An annotation that says neither how to read nor how to write."""

    code = "UNSUPPORTED_ANNOTATION"

    def __init__(self, asset: str, where: str, annotation: str | None, allowed: Iterable[str]) -> None:
        self.asset, self.where, self.annotation, self.allowed = asset, where, annotation, tuple(allowed)
        super().__init__(f"Asset '{asset}' {_annotates(where, annotation)}. Use {' or '.join(self.allowed)}.")


def _annotates(where: str, annotation: str | None) -> str:
    if annotation is None:
        return f"does not annotate {where}, so nothing says how its table is read or written"
    return f"annotates {where} with {annotation}, which says nothing about a Delta table"


class PartitionColumnError(DefinitionError):
    """A partitioned asset whose partitions cannot be found in the table's columns."""

    code = "PARTITION_COLUMN"

    def __init__(self, asset: str, problem: str) -> None:
        self.asset, self.problem = asset, problem
        super().__init__(f"Asset '{asset}' is partitioned, but {problem}")
