"""Errors of tables that cannot be written, and of commits."""

from lakehouse import errors
from tests.support.sentences.case import REMEDY, WRITTEN, Case

CASES = [
    Case(
        errors.UpkeepError.reader_name,
        {"table": "gold/totals", "reader": "bi", "problem": "no reader has that name. Registered are: none"},
        "The reader 'bi' of 'gold/totals' was not changed: no reader has that name. Registered are: none.",
        "Nothing was committed.",
        "`lakehouse readers gold/totals` lists the readers.",
    ),
    Case(
        errors.UpkeepError.not_ours,
        {"table": "orders", "why": "no asset of the code location writes it", "remedy": REMEDY},
        "'orders' was left as it is: no asset of the code location writes it.",
        "Nothing was changed.",
        REMEDY,
    ),
    Case(
        errors.TableError.delta_refused,
        {
            "asset": "flights",
            "table": "delta.`/lake/flights`",
            "condition": "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            "problem": "This table is configured to only allow appends.",
        },
        "Delta refuses a run of 'flights', whose table is delta.`/lake/flights`: [DELTA_CANNOT_MODIFY_APPEND_ONLY] This "
        "table is configured to only allow appends.",
        WRITTEN,
        "The write has to change rows, which delta.appendOnly forbids. Let the asset return an Append, or permit changes: "
        "ALTER TABLE delta.`/lake/flights` SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    ),
    Case(
        errors.TableError.delta_refused,
        {
            "asset": "flights",
            "table": "delta.`/lake/flights`",
            "condition": "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            "problem": "Not recognized: delta.feature.x.",
        },
        "Delta refuses a run of 'flights', whose table is delta.`/lake/flights`: [DELTA_UNSUPPORTED_FEATURES_IN_CONFIG] "
        "Not recognized: delta.feature.x.",
        WRITTEN,
        "Change what Delta names: the next run would be refused as well.",
    ),
    Case(
        errors.TableError.other_file_system,
        {"asset": "flights", "where": "/lake/flights", "version": 3},
        "'flights' would create its table at /lake/flights, where this process sees no table, but Spark sees one at "
        "version 3: to Spark the path is on another file system.",
        WRITTEN,
        "Give the root its scheme, for example hdfs:// or dbfs:/, so that its logs are read through Spark.",
    ),
    Case(
        errors.TableError.second_driver,
        {"asset": "flights", "where": "s3a://lake/flights", "run": "3f2a"},
        "Run 3f2a is writing 'flights' at s3a://lake/flights from another Spark driver, and on S3 Delta keeps commits "
        "apart within one driver only: one of the two could overwrite the other's commit.",
        WRITTEN,
        "Run it again when that run has ended; or give the writers of the table a pool with the limit 1, or one Spark "
        "Connect server.",
    ),
    Case(
        errors.TableError.unsafe_table,
        {"table": "flights", "identifier": "main.flights", "key": "delta.x", "value": "1 day", "why": "proof expires"},
        "'flights' has delta.x = 1 day: proof expires.",
        WRITTEN,
        "Remove it: ALTER TABLE main.flights UNSET TBLPROPERTIES ('delta.x')",
    ),
    Case(
        errors.SessionError.session_ended,
        {"asset": "flights", "reason": "[NO_ACTIVE_SESSION] No active session."},
        "The Spark session in which the inputs of 'flights' were read has ended: [NO_ACTIVE_SESSION] No active "
        "session.",
        WRITTEN,
        "Run it again: the next run reads them in a new session.",
    ),
    Case(
        errors.SetupError.of_classic_spark,
        {"what": "Asset 'labels'"},
        "Asset 'labels' uses a function or a column of PySpark that was made for classic Spark, and Spark is a Spark Connect "
        "server here. PySpark decides that where `@F.udf` or `F.col(...)` stands at the top of a module: when the module is "
        "imported, by the variable SPARK_CONNECT_MODE_ENABLED.",
        WRITTEN,
        "Put SPARK_CONNECT_MODE_ENABLED=1 into the file .env of the project, and in tests set "
        'os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1" in conftest.py. Or make the function within the asset\'s function.',
    ),
    Case(
        errors.SetupError.other_jars,
        {"asset": "flights", "reason": "java.lang.NoSuchMethodError: 'void a.B.c()'"},
        "Spark failed in a run of 'flights', because a jar on its class path needs a class that is missing, as if Delta's "
        "jar were for another version of Spark: java.lang.NoSuchMethodError: 'void a.B.c()'.",
        WRITTEN,
        "Give Spark the jar of Delta for its own version (io.delta:delta-spark_4.1_2.13 for Spark 4.1, say), or the "
        "class that is missing.",
    ),
    Case(
        errors.TableError.isolation_level,
        {"asset": "flights", "level": "WriteSerializable"},
        "'flights' declares delta.isolationLevel = WriteSerializable, but open-source Delta creates tables with "
        "Serializable only; the other level is Databricks'.",
        WRITTEN,
        "Remove the property, or run it on Databricks.",
    ),
    Case(
        errors.TableError.foreign_table,
        {"asset": "flights", "where": "/lake/flights", "version": 4, "adoption": "compare"},
        "'flights' would write to /lake/flights, but that table holds rows that another program committed (version 4) "
        "and none that the asset wrote.",
        WRITTEN,
        "Adopt the table with the run tag lakehouse/full_refresh=true, which replaces its rows by the asset's result; or "
        "give the asset another name or root.",
    ),
    Case(
        errors.TableError.foreign_quarantine,
        {"asset": "flights", "where": "/lake/flights_quarantine", "version": 4},
        "The quarantine of 'flights' would be /lake/flights_quarantine, but that table holds rows that another program "
        "committed (version 4).",
        WRITTEN,
        "Move that table, or give the asset another name or root.",
    ),
    Case(
        errors.TableError.unregistered_table,
        {"asset": "flights", "name": "`shop`.`flights`", "where": "file:/lake/flights", "version": 4},
        "'flights' would create `shop`.`flights`, which the session's catalog does not know, but its directory "
        "file:/lake/flights holds a Delta table at version 4.",
        WRITTEN,
        "If that is the asset's table, register it (CREATE TABLE `shop`.`flights` USING delta LOCATION "
        "'file:/lake/flights') and run the asset again: it continues from its position. A catalog in memory forgets its "
        "tables when Spark ends.",
    ),
    Case(
        errors.TableError.name_taken,
        {"asset": "flights", "name": "`shop`.`flights`"},
        "'flights' would create `shop`.`flights`, which the catalog already has, but no Delta table is there: its "
        "directory is gone, or the table has another format.",
        WRITTEN,
        "Bring the directory back. If nobody needs that table, DROP TABLE `shop`.`flights` and run the asset again, which "
        "creates a new table. Or give the asset another name.",
    ),
    Case(
        errors.TableError.files_without_log,
        {"asset": "flights", "name": "`shop`.`flights`", "where": "file:/lake/flights"},
        "'flights' would create `shop`.`flights`, whose columns are mapped, and its directory file:/lake/flights has "
        "files but no log of Delta, as a writer leaves them that ended before its first commit.",
        WRITTEN,
        "If nobody is creating the table now, remove file:/lake/flights and run the asset again.",
    ),
    Case(
        errors.TableError.foreign_files,
        {"asset": "flights", "where": "/lake/flights", "file": "file:/lake/flights/march.csv"},
        "'flights' would create its table at /lake/flights, and that directory holds files that Delta did not write: "
        "file:/lake/flights/march.csv. VACUUM would remove such files.",
        WRITTEN,
        "Move the files, or put the table elsewhere: another asset key, or Table(path=...).",
    ),
    Case(
        errors.TableError.foreign_application_id,
        {"asset": "flights", "application_id": "flights:0", "epoch": 3},
        "Delta skipped the commit of 'flights' as already done (application id 'flights:0', epoch 3), yet no commit of "
        "its history carries that epoch: another program writes this application id, or the commit was removed from "
        "the log.",
        WRITTEN,
        "Stop the other writer, then materialize once with the run tag lakehouse/full_refresh=true. If only Spark can "
        "read the log, first SET a TBLPROPERTY of the table and RESTORE it to the version before that: epochs then "
        "begin again.",
    ),
    Case(
        errors.CommitError.conflict,
        {
            "asset": "flights",
            "attempts": 5,
            "seconds": 42.04,
            "lost_to": "MERGE (version 118)",
            "unread": "the changes of events (17, 23] are still unread",
            "advice": REMEDY,
        },
        "'flights' lost its commit 5 times in 42.0 s, last to MERGE (version 118).",
        "Nothing was written; the changes of events (17, 23] are still unread.",
        REMEDY,
    ),
    Case(
        errors.StaleInputsError.overtaken,
        {"asset": "flights", "run": "3f2a", "version": 118, "written": None},
        "Run 3f2a committed 'flights' as version 118 while this run was under way.",
        "Nothing was written by this run.",
        "Run it again: it continues from version 118.",
    ),
    Case(
        errors.StaleInputsError.rolled_back,
        {"asset": "flights", "version": 3},
        "While this run was reading, the table of 'flights' lost the position from which the run began (it was restored, "
        "replaced or deleted, or two other runs did not see each other). The table is at version 3 now.",
        "Anything that this run has written does not count.",
        "Run it again: the next run finds out what has been read.",
    ),
    Case(
        errors.UnsettledError,
        {"asset": "flights", "version": 118, "attempts": 5, "rows": "the same rows", "problem": "its log is gone"},
        "'flights' is committed as version 118, but another writer that committed just before it changed the same rows. "
        "This happened 5 times, so the table may hold rows of that writer instead of this run's. The rows could then not "
        "be written again: its log is gone.",
        "No change is lost: the next run reads the same range again and writes the rows that differ.",
        "Keep the two writers apart, or run it again.",
    ),
    Case(
        errors.CommitError.unknown_outcome,
        {"asset": "flights", "attempt": "a7", "problem": "No route to host."},
        "The commit of 'flights' got no answer, and the log of its table cannot be read (No route to host).",
        "The commit may be in the table: its mark would name attempt a7.",
        "Run it again when the log can be read: if the commit is there, the run says so and applies nothing twice.",
    ),
]
