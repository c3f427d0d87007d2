"""Tables that a run must not write to."""

from typing import Literal, TypeAlias, assert_never

from lakehouse.errors.base import ALLOW, FULL_REFRESH, GO_ON_FROM, WriteError, clause


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
