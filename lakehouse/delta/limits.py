"""The sizes at which one way of doing the same thing becomes cheaper than another, with the measurement that set each.

No limit changes a result: on either side of it the table holds the same rows. Tests put other limits in force to take
each way with few rows. The measurements are of two cores; ADR 39 has their tables.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every limit that is about cost alone. A number that equals its limit still counts as small."""

    key_ranges: int = 16
    """Ranges of one column in a literal predicate: Delta compares each range with every file of the table."""
    gap_parts: int = 128
    """A gap between keys separates two ranges if it is at least the range around it divided by this. Without that,
    10,000 keys spread over ten million took 24 CPU s instead of 19, because Spark generated code with other numbers in
    each step. The gaps that separate nothing make up at most `key_ranges / gap_parts` of the range."""
    end_parts: int = 32
    """A range of numbers is divided into this many parts, and its ends are rounded to them, for the same reason."""
    listed_keys: int = 1_000
    """Keys of one column that a predicate lists; more keys become ranges alone. A statement of 1,000 keys in one of 160
    files takes 1.4 CPU s and 11 tasks, as in a table of one file."""
    listed_keys_together: int = 100
    """Lists of one column that a predicate of several columns has, one for each combination of the others: Spark
    compares the combinations one after the other. Not measured alone."""
    one_task_keys: int = 100
    """Touched keys whose rows one task compares: their rows are in a few files, and a shuffle costs more."""

    driver_rows: int = 250_000
    """Rows that come to the driver. With a limit of 10,000, 40,000 changed rows of a million took 36 CPU s, not 10:
    each statement computed feed, result and difference again."""
    driver_bytes: int = 1 << 26
    """Bytes that come to the driver: the nth row has at most this many bytes divided by n."""
    driver_row_bytes: int = 1 << 14
    """Bytes of each row that comes to the driver."""
    tried_keys: int = 25_000
    """Touched keys up to which the result is requested without being kept. With more keys it may be too large for the
    driver and is then computed twice: for 100,000 keys of 30 million events 122 million rows were read, not 91."""
    kept_feed_bytes: int = 1 << 26
    """Bytes of feeds that stay at the driver for other assets of the run. Not measured alone."""
    decoded_rows: int = 20_000
    """Rows that a Connect server decodes again for each plan; more rows are analyzed first, and then decoded once.
    Not measured alone."""

    interpreted_rows: int = 250_000
    """Rows in all tables of a step that Spark interprets instead of compiling: 16 steps of one row took 43.7 CPU s
    instead of 50.8, but each row costs two microseconds more whenever it is read."""
    interpreted_bytes: int = 16_000_000
    """Bytes in all tables of a step that Spark interprets."""

    whole_rows: int = 250_000
    """Rows of a table up to which a step of a view reads the table whole, instead of by keys that have to come to the
    driver first. Joined with a table of 100,000 rows, 1 and 10,000 changed rows of ten million took 33 jobs instead of
    38 and 41, and 9.4 and 8.0 CPU s instead of 11.7 and 10.5. With a million rows both ways took the same."""

    broadcast_rows: int = 1_000_000
    """Rows that are sent to every task to be joined there. Half a million touched keys of ten million rows took 21
    CPU s; if Spark shuffled both sides, 34."""
    opened_files: int = 2_000
    """Files of a table up to which all are opened in one pass, instead of a `MERGE`, which leaves out files: 5,000
    neighbours in a table of 2,000 files took 3.5 CPU s instead of 2.6, and 5,000 rows in all files 8.4, not 26.4."""

    commits_ahead: int = 64
    """Commits that a run with `max_versions` or `max_bytes` reads first to find where its batch ends; then it reads
    twice as many more. Not measured alone."""
    changes_to_count: int = 50_000
    """Images of changed rows from which on a run counts the rows of their source. Not measured alone."""
    changes_of_row: float = 0.5
    """Images of changed rows per row of their source from which on everything is read instead of the changes."""
    changes_of_view: float = 0.01
    """The same for a view that may replace its table, per row of the larger of the source and the table. By keys, an
    image took 35 microseconds; for all rows, a row took 0.8. After an update of 1 % of ten million rows an aggregate
    took 11 CPU s by keys, a filter 16 and a window 21; all rows took 4, 8 and 14."""
    changes_of_compared_view: float = 0.15
    """The same for a view whose table is compared. An update of a tenth of ten million rows has two images for each
    row: a filter took 83 CPU s by keys and 64 with all rows compared; an update of half of them, 203 and 85."""
    compared_rows: int = 250_000
    """Rows of a table that a run compares with all rows of its result though many changed; a larger table is replaced.
    """
    touched_share: float = 0.5
    """Touched keys of a view, per row of its table, up to which the rows of these keys are computed and not all rows.
    Not measured alone."""
    many_touched_share: float = 0.25
    """The same for keys that are too many for the driver. With a tenth of ten million rows a filter took 40 CPU s,
    15 of them to find the keys, and 28 for all rows without that search; with half of the rows, 140 and 38."""
    replaced_share: float = 0.05
    """The same for a table of more than `compared_rows` rows that may be replaced: after the search a key took 25
    microseconds; for all rows, a row took 0.8."""
    replaced_predicates: int = 10
    """Commits whose predicates select the rows of a feed; more predicates cost more to evaluate."""

    outside_rows: int = 250_000
    """Rows of all inputs up to which a run counts its rows outside of its partitions: the result is computed again."""
    vector_rows: int = 2_000_000
    """Rows of a table up to which its deleted rows are counted: deltalake makes a value for each row of a file with a
    vector."""
    purge_rows: int = 100_000_000
    """The same for upkeep, which counts once a night and not in every step: a byte for each row, file by file."""


MEASURED = Limits()
_in_force: ContextVar[Limits] = ContextVar("limits", default=MEASURED)


def limits() -> Limits:
    """The limits in force: the measured values, except within `in_force`."""
    return _in_force.get()


@contextmanager
def in_force(values: Limits) -> Generator[None]:
    """Puts other limits in force for what this thread does within."""
    before = _in_force.set(values)
    try:
        yield
    finally:
        _in_force.reset(before)
