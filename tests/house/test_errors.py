"""Every error says what happened, what is true now and what to do; and it keeps what it was told."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lakehouse import errors
from lakehouse.dagster.failures import may_pass
from lakehouse.errors import LakehouseError
from lakehouse.server import errors as setup_errors

WRITTEN = "Nothing was written."
REMEDY = "Do this."


@dataclass(frozen=True)
class Case:
    """An error, and its sentence in three parts."""

    error: type[LakehouseError]
    told: dict[str, Any]
    happened: str
    now: str
    to_do: str

    def raised(self) -> LakehouseError:
        return self.error(**self.told)


CASES = [
    Case(
        errors.MissingKeyError,
        {"asset": "flights", "write": "Overwrite"},
        "Asset 'flights' returns an Overwrite but its table declares no key.",
        "",
        "Add metadata=Table(key=...).",
    ),
    Case(
        errors.UnsupportedAnnotationError,
        {"asset": "flights", "where": "its result", "annotation": "int", "allowed": ("Merge", "DataFrame")},
        "Asset 'flights' annotates its result with int, which says nothing about a Delta table.",
        "",
        "Use Merge or DataFrame.",
    ),
    Case(
        errors.PartitionColumnError,
        {"asset": "flights", "problem": "its table does not say by which column. Add Table(partition_by=...)."},
        "Asset 'flights' is partitioned, but its table does not say by which column.",
        "",
        "Add Table(partition_by=...).",
    ),
    Case(
        errors.PartitionRangeError,
        {"asset": "flights", "partitions": ("2013-01-01", "2013-01-02", "2013-01-03")},
        "'flights' reads Changes, and each of its partitions has a position of its own, so one run cannot write 3 of "
        "them (2013-01-01 to 2013-01-03).",
        "Nothing was written.",
        "Backfill it with one run per partition: leave backfill_policy out, or give dg.BackfillPolicy.multi_run().",
    ),
    Case(
        errors.SourceMissingError,
        {"asset": "flights", "source": "events", "where": "/lake/events"},
        "'flights' reads 'events', but there is no Delta table at /lake/events.",
        WRITTEN,
        "Materialize 'events' first, or correct its name or root.",
    ),
    Case(
        errors.ColumnMissingError,
        {"table": "'events'", "column": "id", "columns": ("a", "b")},
        "'events' has no column id.",
        WRITTEN,
        "Its columns are: a, b.",
    ),
    Case(
        errors.ColumnMissingError,
        {"table": "The result of 'totals'", "column": "Carier", "columns": ("day", "carrier")},
        "The result of 'totals' has no column Carier.",
        WRITTEN,
        "Did you mean carrier? Its columns are: day, carrier.",
    ),
    Case(
        errors.ChangeFeedDisabledError,
        {"asset": "flights", "source": "events", "identifier": "delta.`/lake/events`"},
        "'flights' reads the changes of 'events', but that table keeps no change data feed.",
        WRITTEN,
        "Enable it once: ALTER TABLE delta.`/lake/events` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    ),
    Case(
        errors.NotAppendOnlyError,
        {"source": "events", "after": 3, "upto": 5, "detail": "version 4: 2 updated"},
        "'events' updated or deleted rows in its versions (3, 5] (version 4: 2 updated), "
        "so its changes are more than appended rows.",
        WRITTEN,
        "Read them with touched() or net() instead.",
    ),
    Case(
        errors.GapError,
        {"asset": "flights", "source": "events", "after": 3, "upto": 9, "reason": "vacuumed.", "remedy": REMEDY},
        "'flights' has read 'events' up to version 3 and cannot read its changes (3, 9]: vacuumed.",
        "Nothing was written, and the table is as it was.",
        REMEDY,
    ),
    Case(
        errors.GapError,
        {"asset": "flights", "source": "events", "after": -1, "upto": 9, "reason": "a clone", "remedy": REMEDY},
        "The table of 'flights' does not say how far 'events' was read, which is at version 9: a clone.",
        "Nothing was written, and the table is as it was.",
        REMEDY,
    ),
    Case(
        errors.PastRefusedError,
        {"asset": "flights_history", "of_extracts": False},
        "'flights_history' keeps a history, and a full refresh would replace its past by what its source still tells.",
        WRITTEN,
        "Without the run tag lakehouse/full_refresh it continues from its position. To start over, delete the table and "
        "materialize it: its first read goes back as far as the source's own history.",
    ),
    Case(
        errors.PastRefusedError,
        {"asset": "customers_past", "of_extracts": True},
        "'customers_past' keeps a history, and a full refresh would replace its past by what its source still tells.",
        WRITTEN,
        "Without the run tag lakehouse/full_refresh it continues from its position. To start over, delete the table and "
        "deliver its extracts again, the oldest first.",
    ),
    Case(
        errors.RefreshRefusedError,
        {"asset": "customers"},
        "'customers' is kept from extracts. Every run compares its extract with the whole table, so a full refresh adds "
        "nothing.",
        WRITTEN,
        "Run it without the tag lakehouse/full_refresh. If the table or its version is wrong, run it with the tag "
        "lakehouse/allow/customers=version, which takes the extract whatever the table holds.",
    ),
    Case(
        errors.UnknownExtractError,
        {"asset": "customers", "version": "7", "reason": "the log was cleaned up."},
        "Nobody can tell whether extract 7 of 'customers' is newer than its table: the log was cleaned up.",
        WRITTEN,
        "If the extract is the one that the table is to hold, materialize once with the run tag "
        "lakehouse/allow/customers=version.",
    ),
    Case(
        errors.OlderExtractError,
        {"asset": "customers", "version": "4", "newest": "5"},
        "Extract 4 of 'customers' is older than extract 5, which its table holds.",
        WRITTEN,
        "Deliver extracts in their order, or let older extracts be left out: Snapshot(..., on_older='ignore').",
    ),
    Case(
        errors.EmptyExtractError,
        {"asset": "customers", "version": "7"},
        "Extract 7 of 'customers' has no row.",
        WRITTEN,
        "If its source is empty, materialize once with the run tag lakehouse/allow/customers=max_deleted.",
    ),
    Case(
        errors.OutOfScopeError,
        {"asset": "customers", "version": "7", "values": {"country": "FR"}},
        "Extract 7 of 'customers' has a row with country=FR, which its scope does not name.",
        WRITTEN,
        "Name every value that was delivered in Snapshot(scope=...), or leave such rows out.",
    ),
    Case(
        errors.DeletionsHeldBackError,
        {"asset": "customers", "version": "7", "deleted": 1200, "of": 3000, "max_deleted": 0.2},
        "Extract 7 of 'customers' lacks 1,200 of the 3,000 rows in its scope, more than max_deleted=0.2 lets it delete.",
        WRITTEN,
        "If these rows are gone at the source, materialize once with the run tag lakehouse/allow/customers=max_deleted.",
    ),
    Case(
        errors.RestateRefusedError,
        {"asset": "flights_history", "moment": "2013-01-01", "reason": "the archive begins later."},
        "The history 'flights_history' cannot be restated from 2013-01-01: the archive begins later.",
        WRITTEN,
        "Name an archive of the source in Read(archive=...), bring the archive up to date, and give a time after its "
        "first commit: lakehouse/restate_from/flights_history=<time>.",
    ),
    Case(
        errors.TrackChangedError,
        {"asset": "flights_history", "was": "status", "now": "all columns"},
        "The history 'flights_history' has tracked status and is to track all columns, so rows of its past would have "
        "ended at other times.",
        WRITTEN,
        "Track what it did, or keep the history of the other columns in another asset, whose first read goes back as "
        "far as the source's own history.",
    ),
    Case(
        errors.OtherFileSystemError,
        {"asset": "flights", "where": "/lake/flights", "version": 3},
        "'flights' would create its table at /lake/flights, where this process sees no table, but Spark sees one at "
        "version 3: to Spark the path is on another file system.",
        WRITTEN,
        "Give the root its scheme, for example hdfs:// or dbfs:/, so that its logs are read through Spark.",
    ),
    Case(
        errors.SecondDriverError,
        {"asset": "flights", "where": "s3a://lake/flights", "run": "3f2a"},
        "Run 3f2a is writing 'flights' at s3a://lake/flights from another Spark driver, and on S3 Delta keeps commits "
        "apart within one driver only: one of the two could overwrite the other's commit.",
        WRITTEN,
        "Run it again when that run has ended; or give the writers of the table a pool with the limit 1, or one Spark "
        "Connect server.",
    ),
    Case(
        errors.LateGapError,
        {"asset": "flights", "reason": "a file is gone."},
        "The changes that 'flights' reads turned out to be unreadable while its result was computed: a file is gone.",
        WRITTEN,
        "The step runs again without their feed.",
    ),
    Case(
        errors.StartError,
        {"asset": "late", "source": "events", "start": "version 9", "history": "ends at version 4"},
        "'late' should start to read 'events' after version 9, but the history of 'events' ends at version 4.",
        WRITTEN,
        "Give a start within the history, or use Read(clamp=True), which takes the closest version.",
    ),
    Case(
        errors.MissingFileError,
        {"asset": "flights", "problem": "File part-0.parquet does not exist."},
        "The result of 'flights' needs a file that does not exist: File part-0.parquet does not exist.",
        WRITTEN,
        "If a VACUUM removed the file from an old version while this run was reading, run it again: the next run reads "
        "the newest version. If the newest version lacks the file too, the table has lost rows: bring the file back "
        "from a backup, or RESTORE the table to a version whose files all exist.",
    ),
    Case(
        errors.SourceDeniedError,
        {"table": "events", "version": 3, "where": "s3a://raw/events", "problem": "S3Exception: Forbidden."},
        "Spark may not read 'events' at version 3 in s3a://raw/events: S3Exception: Forbidden.",
        WRITTEN,
        "Give Spark's driver and executors the credentials of this storage. Spark does not get the storage_options of "
        "DeltaIOManager, which are for logs alone.",
    ),
    Case(
        errors.UnreadableLogError,
        {"table": "events", "problem": "a commit is missing.", "remedy": REMEDY, "damaged": 7},
        "The log of 'events' cannot be trusted: a commit is missing.",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.NewerMarkError,
        {"asset": "flights", "version": 7, "number": 3, "newest": 2},
        "A newer version of this library wrote version 7 of the table of 'flights': its mark is of format 3, and this "
        "version knows formats up to 2.",
        WRITTEN,
        "Install the newer version wherever this asset runs.",
    ),
    Case(
        errors.ViewError,
        {"name": "airlines", "identifier": "main.airlines"},
        "'airlines' is a view (main.airlines), and a view has no versions that a run could pin.",
        WRITTEN,
        "Let the asset read the tables of the view, and put the query of the view into the asset. Or let another asset "
        "keep the rows of the view in a table.",
    ),
    Case(
        errors.UnsafeTableError,
        {"table": "flights", "identifier": "main.flights", "key": "delta.x", "value": "1 day", "why": "proof expires"},
        "'flights' has delta.x = 1 day: proof expires.",
        WRITTEN,
        "Remove it: ALTER TABLE main.flights UNSET TBLPROPERTIES ('delta.x')",
    ),
    Case(
        errors.BrokenPromiseError,
        {"asset": "flights", "problem": "holds two rows with one key", "remedy": REMEDY},
        "The result of 'flights' holds two rows with one key.",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.LostChangesError,
        {
            "asset": "named",
            "source": "names",
            "range_": "(3, 4]",
            "write": "Merge",
            "answered": ("flights",),
        },
        "'named' reads the changes of 'names' (3, 4], but its Merge is about changes of 'flights', so they would count "
        "as read and be lost.",
        WRITTEN,
        "Unite its keys with the others: touched | other.touched(...), carried over by via(frame, ...); or annotate the "
        "input as a DataFrame: a snapshot input, whose changes start no run.",
    ),
    Case(
        errors.TruncatesMissingError,
        {"asset": "customers", "columns": ("id",), "condition": "op = 'T'"},
        "'customers' applies truncates by op = 'T', but its touched rows hold only the truncates of touched keys, so "
        "what a truncate took away would come back.",
        WRITTEN,
        "Ask for them by the same text: touched('id', also=\"op = 'T'\").",
    ),
    Case(
        errors.EventOptionError,
        {"function": "scd.type2()", "rule": "EMPTY_KEYS", "problem": "was given no keys", "remedy": REMEDY},
        "scd.type2() was given no keys (rule EMPTY_KEYS).",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.BadEventError,
        {
            "asset": "flights",
            "rule": "NULL_KEY",
            "key": {"id": "7", "region": None},
            "sequence": "5",
            "columns": ("region",),
        },
        "The result of 'flights' comes from an event with NULL in its key (rule NULL_KEY; key: id=7, region=NULL; "
        "sequence: 5; columns: region).",
        WRITTEN,
        "Leave such events out, or give them a key.",
    ),
    Case(
        errors.SchemaError,
        {"asset": "flights", "differences": {"a": "missing", "b": "int, was string"}, "remedy": REMEDY},
        "The result of 'flights' does not fit its table (a: missing; b: int, was string).",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.SessionEndedError,
        {"asset": "flights", "reason": "[NO_ACTIVE_SESSION] No active session."},
        "The Spark session in which the inputs of 'flights' were read has ended: [NO_ACTIVE_SESSION] No active "
        "session.",
        WRITTEN,
        "Run it again: the next run reads them in a new session.",
    ),
    Case(
        errors.PlanError,
        {"asset": "flights", "problem": "[DIVIDE_BY_ZERO] Division by zero."},
        "Spark could not compute the result of 'flights': [DIVIDE_BY_ZERO] Division by zero.",
        "Nothing was written, and the write was not tried again.",
        "Spark is lazy: the error appears while writing, but its cause is in the asset's expression.",
    ),
    Case(
        errors.ComputeError,
        {"asset": "flights", "problem": "Job aborted: ExecutorLostFailure."},
        "Spark failed while it computed the result of 'flights': Job aborted: ExecutorLostFailure.",
        WRITTEN,
        "Spark does not name the asset's expression as the cause, so the cause may be temporary (a lost executor, a "
        "storage that did not answer): run it again.",
    ),
    Case(
        errors.IsolationLevelError,
        {"asset": "flights", "level": "WriteSerializable"},
        "'flights' declares delta.isolationLevel = WriteSerializable, but open-source Delta creates tables with "
        "Serializable only; the other level is Databricks'.",
        WRITTEN,
        "Remove the property, or run it on Databricks.",
    ),
    Case(
        errors.ForeignTableError,
        {"asset": "flights", "where": "/lake/flights", "version": 4, "adoption": "compare"},
        "'flights' would write to /lake/flights, but that table holds rows that another program committed (version 4) "
        "and none that the asset wrote.",
        WRITTEN,
        "Adopt the table with the run tag lakehouse/full_refresh=true, which replaces its rows by the asset's result; or "
        "give the asset another name or root.",
    ),
    Case(
        errors.UnregisteredTableError,
        {"asset": "flights", "name": "`shop`.`flights`", "where": "file:/lake/flights", "version": 4},
        "'flights' would create `shop`.`flights`, which the session's catalog does not know, but its directory "
        "file:/lake/flights holds a Delta table at version 4.",
        WRITTEN,
        "If that is the asset's table, register it (CREATE TABLE `shop`.`flights` USING delta LOCATION "
        "'file:/lake/flights') and run the asset again: it continues from its position. A catalog in memory forgets its "
        "tables when Spark ends.",
    ),
    Case(
        errors.ForeignApplicationIdError,
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
        errors.ConflictError,
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
        errors.OvertakenError,
        {"asset": "flights", "run": "3f2a", "version": 118, "written": None},
        "Run 3f2a committed 'flights' as version 118 while this run was under way.",
        "Nothing was written by this run.",
        "Run it again: it continues from version 118.",
    ),
    Case(
        errors.RolledBackError,
        {"asset": "flights", "version": 3},
        "While this run was reading, the table of 'flights' lost the position from which the run began (it was restored, "
        "replaced or deleted, or two other runs did not see each other). The table is at version 3 now.",
        "Anything that this run has written does not count.",
        "Run it again: the next run finds out what has been read.",
    ),
    Case(
        errors.UnsettledError,
        {"asset": "flights", "version": 118, "attempts": 5, "rows": "the same rows", "problem": "its log is gone"},
        "'flights' is committed as version 118, but a rival that committed just before it changed the same rows. This "
        "happened 5 times, so rows of the rival may be where rows of this run belong. The rows could then not be written "
        "again: its log is gone.",
        "No change is lost: the next run reads the same range again and writes the rows that differ.",
        "Keep the two writers apart, or run it again.",
    ),
    Case(
        errors.UnknownOutcomeError,
        {"asset": "flights", "attempt": "a7", "problem": "No route to host."},
        "The commit of 'flights' did not answer, and its log cannot be read (No route to host).",
        "The commit may be in the table: its mark would name attempt a7.",
        "Run it again when the log can be read: if the commit is there, the run says so and applies nothing twice.",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_an_error_says_what_happened_what_is_true_now_and_what_to_do(case: Case):
    assert str(case.raised()) == " ".join(part for part in (case.happened, case.now, case.to_do) if part)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_what_happened_can_be_told_without_what_an_error_says_is_true_now(case: Case):
    """An error of a second commit says it in a sentence of its own: nothing was written by that one."""
    if case.now.startswith("Nothing was written"):
        how = "give LakehouseError its sentences apart: super().__init__(happened, 'Nothing was written. ...')"
        assert case.raised().happened == case.happened, how


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_an_error_keeps_what_it_was_told(case: Case):
    raised = case.raised()
    assert inspect.signature(case.error).parameters.keys() == case.told.keys()
    assert {name: getattr(raised, name) for name in case.told} == case.told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_whatever_happens_at_run_time_is_followed_by_what_is_true_of_the_table(case: Case):
    assert bool(case.now) == (not issubclass(case.error, errors.DefinitionError))
    assert case.to_do


def test_every_error_with_a_sentence_of_its_own_is_listed_here():
    own = {error for error in classes(errors) if "__init__" in vars(error)} - {errors.LakehouseError}
    assert {case.error for case in CASES} == own


def test_once_is_not_said_as_1_times():
    lost = errors.ConflictError("flights", 1, 0.2, "an OPTIMIZE", "its inputs are as they were", REMEDY)
    assert str(lost).startswith("'flights' lost its commit once in 0.2 s")


def test_a_retry_policy_repeats_what_another_try_may_do_better():
    """Another session, other rivals, other executors; all else would only be said again."""
    assert {case.error for case in CASES if may_pass(case.raised())} == {
        errors.SessionEndedError,
        errors.ConflictError,
        errors.UnsettledError,
        errors.UnknownOutcomeError,
        errors.MissingFileError,
        errors.ComputeError,
        errors.SecondDriverError,
    }
    assert may_pass(setup_errors.ServerLostError(Path("/lake"), "It was killed."))
    assert not may_pass(setup_errors.ServerError(Path("/lake"), "it does not start."))


def classes(module: ModuleType) -> list[type[LakehouseError]]:
    """The errors that a module defines, or those of the files of a package."""
    errors_ = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, LakehouseError)
    ]
    return [error for error in errors_ if error.__module__ == module.__name__ or hasattr(module, "__path__")]


def drawn(module: ModuleType) -> Iterator[tuple[str, str | None]]:
    """The classes that a module's docstring draws, each with the one above it."""
    path: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^( *)[*x-] (\w+Error)\b", str(module.__doc__), re.MULTILINE):
        while path and path[-1][0] >= len(indent):
            path.pop()
        yield name, path[-1][1] if path else None
        path.append((len(indent), name))


@pytest.mark.parametrize("module", [errors, setup_errors], ids=lambda module: module.__name__)
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes(module: ModuleType):
    tree = {error.__name__: error.__bases__[0].__name__ for error in classes(module)}
    assert {name: above for name, above in drawn(module) if name != "LakehouseError"} == {
        name: above for name, above in tree.items() if name != "LakehouseError"
    }
    assert next(drawn(module)) == ("LakehouseError", None)


@pytest.mark.parametrize("error", [*classes(errors), *classes(setup_errors)], ids=lambda error: error.__name__)
def test_one_except_catches_them_all(error: type[Exception]):
    assert issubclass(error, LakehouseError)
    assert error.__name__.endswith("Error")
    assert error.__doc__


def test_an_asset_that_reads_its_own_table_is_told_how_to_begin():
    """To materialize itself first is no advice."""
    assert "begins with an empty table" in str(errors.SourceMissingError("balance", "balance", "/lake/balance"))
    assert "Materialize 'orders' first" in str(errors.SourceMissingError("balance", "orders", "/lake/orders"))


@pytest.mark.parametrize(
    ("adoption", "tag"),
    [
        ("compare", "lakehouse/full_refresh=true"),
        ("go on", "lakehouse/go_on_from/flights="),
        ("take the extract", "lakehouse/allow/flights=version"),
        ("refuse", None),
    ],
)
def test_the_table_of_another_program_is_adopted_by_the_tag_of_the_write_and_by_no_other(
    adoption: errors.Adoption, tag: str | None
):
    sentence = str(errors.ForeignTableError("flights", "/lake/flights", 4, adoption))
    assert re.findall(r"lakehouse/[a-z_]+(?:/flights)?=[a-z]*", sentence) == ([] if tag is None else [tag])
    assert "give the asset another name or root" in sentence
