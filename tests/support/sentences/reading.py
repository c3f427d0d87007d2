"""Errors of definitions, and of sources that cannot be read."""

from lakehouse import errors
from tests.support.sentences.case import REMEDY, WRITTEN, Case

CASES = [
    Case(
        errors.DefinitionError.missing_key,
        {"asset": "flights", "write": "Overwrite"},
        "Asset 'flights' returns an Overwrite but its table declares no key.",
        "",
        "Add metadata=Table(key=...).",
    ),
    Case(
        errors.DefinitionError.unsupported_annotation,
        {"asset": "flights", "where": "its result", "annotation": "int", "allowed": ("Merge", "DataFrame")},
        "Asset 'flights' annotates its result with int, which says nothing about a Delta table.",
        "",
        "Use Merge or DataFrame.",
    ),
    Case(
        errors.DefinitionError.partition_column,
        {"asset": "flights", "problem": "its table does not say by which column. Add Table(partition_by=...)."},
        "Asset 'flights' is partitioned, but its table does not say by which column.",
        "",
        "Add Table(partition_by=...).",
    ),
    Case(
        errors.DefinitionError.condition,
        {"asset": "flights", "condition": "sum(v) > 0", "why": "it calls the aggregate sum()"},
        "Asset 'flights' expects (sum(v) > 0) of each row of its table, but it calls the aggregate sum().",
        "",
        "Write a condition that is true or false of one row, and compute what the condition needs as a column of the "
        "result.",
    ),
    Case(
        errors.DefinitionError.nothing_left_out,
        {
            "asset": "flights",
            "write": "Aggregate",
            "expectation": "v_gt_0",
            "on_failure": "drop",
            "why": "sums would be wrong",
        },
        "Asset 'flights' returns an Aggregate, and its expectation v_gt_0 has on_failure='drop', but sums would be wrong.",
        "",
        "Write on_failure='warn' or 'fail', or leave the rows out in an asset upstream of this one.",
    ),
    Case(
        errors.DefinitionError.no_quarantine,
        {"asset": "flights", "expectation": "v_gt_0", "on_failure": "quarantine", "writes_by_key": True},
        "The expectation v_gt_0 of asset 'flights' has on_failure='quarantine', but its table declares no key, by which "
        "rows are found.",
        "",
        "Declare Table(key=...), or take another expectation.",
    ),
    Case(
        errors.DefinitionError.no_quarantine,
        {"asset": "flights", "expectation": "v_gt_0", "on_failure": "quarantine", "writes_by_key": False},
        "The expectation v_gt_0 of asset 'flights' has on_failure='quarantine', but an Append keeps each row as it was "
        "added.",
        "",
        "Return a Merge, or take another expectation.",
    ),
    Case(
        errors.ReadError.partition_range,
        {"asset": "flights", "partitions": ("2013-01-01", "2013-01-02", "2013-01-03")},
        "'flights' reads Changes, and each of its partitions has a position of its own, so one run cannot write 3 of "
        "them (2013-01-01 to 2013-01-03).",
        "Nothing was written.",
        "Backfill it with one run per partition: leave backfill_policy out, or give dg.BackfillPolicy.multi_run().",
    ),
    Case(
        errors.ReadError.source_missing,
        {"asset": "flights", "source": "events", "where": "/lake/events"},
        "'flights' reads 'events', but there is no Delta table at /lake/events.",
        WRITTEN,
        "Materialize 'events' first, or correct its name or root.",
    ),
    Case(
        errors.ReadError.column_missing,
        {"table": "'events'", "column": "id", "columns": ("a", "b")},
        "'events' has no column id.",
        WRITTEN,
        "Its columns are: a, b.",
    ),
    Case(
        errors.ReadError.column_missing,
        {"table": "The result of 'totals'", "column": "Carier", "columns": ("day", "carrier")},
        "The result of 'totals' has no column Carier.",
        WRITTEN,
        "Did you mean carrier? Its columns are: day, carrier.",
    ),
    Case(
        errors.ReadError.change_feed_disabled,
        {"asset": "flights", "source": "events", "identifier": "delta.`/lake/events`"},
        "'flights' reads the changes of 'events', but that table keeps no change data feed.",
        WRITTEN,
        "Enable it once: ALTER TABLE delta.`/lake/events` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    ),
    Case(
        errors.ReadError.not_append_only,
        {"source": "events", "after": 3, "upto": 5, "detail": "version 4: 2 updated"},
        "'events' updated or deleted rows in its versions (3, 5] (version 4: 2 updated), "
        "so its changes are more than appended rows.",
        WRITTEN,
        "Read them with touched() or net() instead.",
    ),
    Case(
        errors.ReadError.gap,
        {"asset": "flights", "source": "events", "after": 3, "upto": 9, "reason": "vacuumed.", "remedy": REMEDY},
        "'flights' has read 'events' up to version 3 and cannot read its changes (3, 9]: vacuumed.",
        "Nothing was written, and the table is as it was.",
        REMEDY,
    ),
    Case(
        errors.ReadError.gap,
        {"asset": "flights", "source": "events", "after": -1, "upto": 9, "reason": "a clone", "remedy": REMEDY},
        "The table of 'flights' does not say how far 'events' was read, which is at version 9: a clone.",
        "Nothing was written, and the table is as it was.",
        REMEDY,
    ),
    Case(
        errors.LateGapError,
        {"asset": "flights", "reason": "a file is gone.", "written": None},
        "The changes that 'flights' reads turned out to be unreadable while its result was computed: a file is gone.",
        WRITTEN,
        "The step runs again without their feed.",
    ),
    Case(
        errors.LateGapError,
        {"asset": "flights", "reason": "a file is gone.", "written": 9},
        "The changes that 'flights' reads turned out to be unreadable while its result was computed: a file is gone.",
        "Version 9 is committed. Rows that a rival changed just before it are to be written again.",
        "The step runs again without their feed.",
    ),
    Case(
        errors.ReadError.start,
        {"asset": "late", "source": "events", "start": "version 9", "history": "ends at version 4", "tag": None},
        "'late' should start to read 'events' after version 9, but the history of 'events' ends at version 4.",
        WRITTEN,
        "Give a start within the history, or use Read(clamp=True), which takes the closest version.",
    ),
    Case(
        errors.ReadError.start,
        {
            "asset": "log",
            "source": "events",
            "start": "version 9",
            "history": "ends at version 4",
            "tag": "lakehouse/go_on_from/log",
        },
        "'log' should start to read 'events' after version 9, but the history of 'events' ends at version 4.",
        WRITTEN,
        "Give the run tag lakehouse/go_on_from/log a version within the history, or now.",
    ),
    Case(
        errors.ReadError.missing_file,
        {"asset": "flights", "problem": "File part-0.parquet does not exist."},
        "The result of 'flights' needs a file that does not exist: File part-0.parquet does not exist.",
        WRITTEN,
        "If a VACUUM removed the file from an old version while this run was reading, run it again: the next run reads "
        "the newest version. If the newest version lacks the file too, the table has lost rows: bring the file back "
        "from a backup, or RESTORE the table to a version whose files all exist.",
    ),
    Case(
        errors.ReadError.source_denied,
        {"table": "events", "version": 3, "where": "s3a://raw/events", "problem": "S3Exception: Forbidden."},
        "Spark may not read 'events' at version 3 in s3a://raw/events: S3Exception: Forbidden.",
        WRITTEN,
        "Give Spark's driver and executors the credentials of this storage. Spark does not get the storage_options of "
        "DeltaIOManager, which are for logs alone.",
    ),
    Case(
        errors.UnreadableLogError.unreadable_log,
        {"table": "events", "problem": "a commit is missing.", "remedy": REMEDY, "damaged": 7},
        "The log of 'events' cannot be trusted: a commit is missing.",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.UnreadableLogError.unknown_feature,
        {"table": "events", "where": "/lake/events", "feature": "geospatial"},
        "The log of 'events' cannot be read: the table has the feature 'geospatial', which the package deltalake does not "
        "know.",
        WRITTEN,
        "Give the table its catalog name, Table(name=...), because the log is read through Spark then; or install a "
        "deltalake that knows the feature, or drop it: ALTER TABLE delta.`/lake/events` DROP FEATURE geospatial",
    ),
    Case(
        errors.UnreadableLogError.unsupported_feature,
        {"table": "events", "features": "geospatial-preview"},
        "The log of 'events' cannot be read: the table has the feature geospatial-preview, which the Delta of this Spark "
        "does not know.",
        WRITTEN,
        "Use a Spark whose Delta knows the feature, or drop the feature with such a Spark.",
    ),
    Case(
        errors.UnreadableLogError.catalog_commits,
        {"table": "events", "where": "/lake/events"},
        "Only its catalog may commit to 'events' at /lake/events, and this process does not reach that catalog: the files "
        "of the log do not say which commits there are.",
        WRITTEN,
        "Give the table its catalog name, Table(name=...), and a Spark that has this catalog.",
    ),
    Case(
        errors.ReadError.newer_mark,
        {"asset": "flights", "version": 7, "number": 3, "newest": 2},
        "A newer version of this library wrote version 7 of the table of 'flights': its mark is of format 3, and this "
        "version knows formats up to 2.",
        WRITTEN,
        "Install the newer version wherever this asset runs.",
    ),
    Case(
        errors.ReadError.no_schema,
        {"name": "airlines", "identifier": "`shop`.`airlines`", "problem": "[SCHEMA_NOT_FOUND] There is no `shop`."},
        "'airlines' has the catalog name `shop`.`airlines`, and Spark knows no such schema or catalog: [SCHEMA_NOT_FOUND] "
        "There is no `shop`.",
        WRITTEN,
        "Create the schema, set the catalog up in Spark (spark.sql.catalog.<its name>), or correct Table(name=...).",
    ),
    Case(
        errors.ReadError.view,
        {"name": "airlines", "identifier": "main.airlines"},
        "'airlines' is a view (main.airlines), and a view has no versions that a run could pin.",
        WRITTEN,
        "Let the asset read the tables of the view, and put the query of the view into the asset. Or let another asset "
        "keep the rows of the view in a table.",
    ),
]
