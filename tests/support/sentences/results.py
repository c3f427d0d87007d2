"""Errors of results and extracts that cannot become the table."""

from lakehouse import errors
from tests.support.sentences.case import REMEDY, WRITTEN, Case

CASES = [
    Case(
        errors.HistoryError.past_refused,
        {"asset": "flights_history", "of_extracts": False},
        "'flights_history' keeps a history, and a full refresh would replace its past by what its source still tells.",
        WRITTEN,
        "Run 'flights_history' without the run tag lakehouse/full_refresh. To start over, delete the table and "
        "materialize it: its first read goes back as far as the source's own history.",
    ),
    Case(
        errors.HistoryError.past_refused,
        {"asset": "customers_past", "of_extracts": True},
        "'customers_past' keeps a history, and a full refresh would replace its past by what its source still tells.",
        WRITTEN,
        "Run 'customers_past' without the run tag lakehouse/full_refresh. To start over, delete the table and "
        "deliver its extracts again, the oldest first.",
    ),
    Case(
        errors.ExpectationError,
        {
            "asset": "flights",
            "expectation": "delay_ge_0",
            "problem": "2 of 10 rows break the expectation delay_ge_0 (delay >= 0) [id=1; id=2]",
            "appends": False,
        },
        "In the result of 'flights' 2 of 10 rows break the expectation delay_ge_0 (delay >= 0) [id=1; id=2].",
        WRITTEN,
        "Correct these rows upstream of the asset, or the condition if it asks too much. If a limit of an input keeps "
        "the run from the versions that correct them, the run tag lakehouse/full_refresh=flights lets it read the "
        "newest. With on_failure='drop' such rows are left out, and the others are written.",
    ),
    Case(
        errors.ExpectationError,
        {"asset": "flights", "expectation": "e", "problem": "1 of 1 rows break the expectation e", "appends": True},
        "In the result of 'flights' 1 of 1 rows break the expectation e.",
        WRITTEN,
        "Correct these rows upstream of the asset, or the condition if it asks too much. Changes that were read stay as "
        "they are when the source is corrected: let the run tag lakehouse/go_on_from/flights=<version> leave them out. "
        "With on_failure='drop' such rows are left out, and the others are written.",
    ),
    Case(
        errors.WriteError.unknown_condition,
        {"asset": "flights", "expectation": "e", "condition": "w > 0", "problem": "There is no column w."},
        "The expectation e of 'flights' cannot be evaluated over its rows, because of its condition (w > 0): There is no "
        "column w.",
        WRITTEN,
        "Write a condition that is true or false of each row, and name columns of the table: try_divide or try_cast where "
        "an operation can fail.",
    ),
    Case(
        errors.WriteError.split_keys,
        {"asset": "flights", "touched": ("day",), "key": ("flight_id",)},
        "The result of 'flights' is about the rows of touched (day), so a run may see only some of the rows of a key "
        "(flight_id), and Expect.unique_key() asks how many there are.",
        WRITTEN,
        "Touch the keys by columns of the key: touched('flight_id').",
    ),
    Case(
        errors.WriteError.all_outside,
        {"asset": "flights", "partitions": ("2013-01-01",)},
        "Each row of the result of 'flights' lies outside the partition 2013-01-01, so the run would leave out all of "
        "them.",
        WRITTEN,
        "Compare the values in the partition column with the partition keys, for example the format of a day. If the "
        "result is right, write Policy(outside='warn').",
    ),
    Case(
        errors.ExtractError.refresh_refused,
        {"asset": "customers"},
        "'customers' is kept from extracts. Every run compares its extract with the whole table, so a full refresh adds "
        "nothing.",
        WRITTEN,
        "Run it without the tag lakehouse/full_refresh. If the table or its version is wrong, run it with the tag "
        "lakehouse/allow/customers=version, which takes the extract whatever the table holds.",
    ),
    Case(
        errors.ExtractError.unknown_extract,
        {"asset": "customers", "version": "7", "reason": "the log was cleaned up."},
        "Nobody can tell whether extract 7 of 'customers' is newer than its table: the log was cleaned up.",
        WRITTEN,
        "If the extract is the one that the table is to hold, materialize once with the run tag "
        "lakehouse/allow/customers=version.",
    ),
    Case(
        errors.ExtractError.older_extract,
        {"asset": "customers", "version": "4", "newest": "5"},
        "Extract 4 of 'customers' is older than extract 5, which its table holds.",
        WRITTEN,
        "Deliver extracts in their order, or let older extracts be left out: Snapshot(..., on_older='ignore').",
    ),
    Case(
        errors.ExtractError.empty_extract,
        {"asset": "customers", "version": "7"},
        "Extract 7 of 'customers' has no row.",
        WRITTEN,
        "If its source is empty, materialize once with the run tag lakehouse/allow/customers=max_deleted.",
    ),
    Case(
        errors.ExtractError.out_of_scope,
        {"asset": "customers", "version": "7", "values": {"country": "FR"}},
        "Extract 7 of 'customers' has a row with country=FR, which its scope does not name.",
        WRITTEN,
        "Name every value that was delivered in Snapshot(scope=...), or leave such rows out.",
    ),
    Case(
        errors.WriteError.too_many_changes,
        {
            "asset": "customers",
            "changed": "1,200 deleted",
            "of": 2000,
            "max_changed": 0.5,
            "version": 7,
            "partitions": ("a", "b", "c", "d"),
        },
        "This step would change more of 'customers' than max_changed=0.5 allows: 1,200 deleted, and at version 7 the "
        "table holds 2,000 rows of a, b, c and others.",
        WRITTEN,
        "If the changes are right, materialize once with the run tag lakehouse/allow/customers=max_changed.",
    ),
    Case(
        errors.ExtractError.deletions_held_back,
        {"asset": "customers", "version": "7", "deleted": 1200, "of": 3000, "max_deleted": 0.2},
        "Extract 7 of 'customers' lacks 1,200 of the 3,000 rows in its scope, more than max_deleted=0.2 lets it delete.",
        WRITTEN,
        "If these rows are gone at the source, materialize once with the run tag lakehouse/allow/customers=max_deleted.",
    ),
    Case(
        errors.HistoryError.restate_refused,
        {"asset": "flights_history", "moment": "2013-01-01", "reason": "the archive begins later."},
        "The history 'flights_history' cannot be restated from 2013-01-01: the archive begins later.",
        WRITTEN,
        "Name an archive of the source in Read(archive=...), bring the archive up to date, and give a time after its "
        "first commit: lakehouse/restate_from/flights_history=<time>.",
    ),
    Case(
        errors.HistoryError.track_changed,
        {"asset": "flights_history", "was": "status", "now": "all columns"},
        "The history 'flights_history' has tracked status and is to track all columns, so rows of its past would have "
        "ended at other times.",
        WRITTEN,
        "Track what it did, or keep the history of the other columns in another asset, whose first read goes back as "
        "far as the source's own history.",
    ),
    Case(
        errors.WriteError.broken_promise,
        {"asset": "flights", "problem": "holds two rows with one key", "remedy": REMEDY},
        "The result of 'flights' holds two rows with one key.",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.WriteError.lost_changes,
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
        errors.WriteError.lost_changes,
        {"asset": "past", "source": "names", "range_": "(3, 4]", "write": "History", "answered": ("flights",)},
        "'past' reads the changes of 'names' (3, 4], but its History is about changes of 'flights', so they would count "
        "as read and be lost.",
        WRITTEN,
        "A History follows one source: keep that of the other input in an asset of its own; or annotate the input as a "
        "DataFrame: a snapshot input, whose changes start no run.",
    ),
    Case(
        errors.WriteError.truncates_missing,
        {"asset": "customers", "columns": ("id",), "condition": "op = 'T'"},
        "'customers' applies truncates by op = 'T', but its touched rows hold only the truncates of touched keys, so "
        "what a truncate took away would come back.",
        WRITTEN,
        "Ask for them by the same text: touched('id', also=\"op = 'T'\").",
    ),
    Case(
        errors.WriteError.event_option,
        {"function": "scd.type2()", "rule": "EMPTY_KEYS", "problem": "was given no keys", "remedy": REMEDY},
        "scd.type2() was given no keys (rule EMPTY_KEYS).",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.WriteError.bad_event,
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
        errors.WriteError.schema,
        {"asset": "flights", "differences": {"a": "missing", "b": "int, was string"}, "remedy": REMEDY},
        "The result of 'flights' does not fit its table (a: missing; b: int, was string).",
        WRITTEN,
        REMEDY,
    ),
    Case(
        errors.NewColumnsError,
        {"asset": "flights", "reason": "its result has the column gate, which the table lacked."},
        "'flights' cannot write the rows of its touched keys alone: its result has the column gate, which the table "
        "lacked.",
        WRITTEN,
        "The step runs again and compares everything once.",
    ),
    Case(
        errors.WriteError.plan,
        {"asset": "flights", "problem": "[DIVIDE_BY_ZERO] Division by zero."},
        "Spark could not compute the result of 'flights': [DIVIDE_BY_ZERO] Division by zero.",
        "Nothing was written, and the write was not tried again.",
        "Spark is lazy: the error appears while writing, but its cause is in the asset's expression.",
    ),
    Case(
        errors.WriteError.module_missing,
        {"asset": "flights", "module": "shop.rules"},
        "Spark's Python cannot import the module 'shop.rules', which a function of 'flights' needs.",
        WRITTEN,
        "Install the module in the environment that starts Spark. If it is of your own project: install the project "
        "(pip install -e .), start Dagster with the project's directory in PYTHONPATH, or define the function within the "
        "asset. Stop a running server first (lakehouse spark stop), because it keeps the variables of its start.",
    ),
    Case(
        errors.WriteError.compute,
        {"asset": "flights", "problem": "Job aborted: ExecutorLostFailure.", "why": "an executor was lost"},
        "Spark failed while it computed the result of 'flights': Job aborted: ExecutorLostFailure.",
        WRITTEN,
        "The cause is temporary (an executor was lost): run it again.",
    ),
    Case(
        errors.WriteError.unexplained_failure,
        {"asset": "flights", "problem": "[INTERNAL_ERROR] Unexpected."},
        "The result of 'flights' could not be computed or written: [INTERNAL_ERROR] Unexpected.",
        WRITTEN,
        "Spark does not name the asset's expression as the cause, and the cause is not known to pass by itself. See the "
        "error below this one, and Spark's own log.",
    ),
]
