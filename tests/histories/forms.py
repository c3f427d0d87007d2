"""Sources of every form that Delta has, statements on them, and histories of both: values that Hypothesis shrinks."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from lakehouse.delta.policy import Refresh
from tests.histories.kinds import KINDS
from tests.histories.names import edits, moves, steps_of

KEYS = {
    "INT": "{n}",
    "BIGINT": "{n} + 1099511627776",
    "STRING": "'k{n}'",
    "CHAR(3)": "'k{n} '",  # padded, as Spark reads it, or two rows of 'k0' would have one key
    "VARCHAR(6)": "'k{n} '",
    "DATE": "DATE '2024-02-2{n}'",
    "TIMESTAMP": "TIMESTAMP '2024-03-31 0{n}:30:00'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2024-03-31 0{n}:30:00'",
    "DECIMAL(12,2)": "{n}.50BD",
    "DOUBLE": "{n}.5D",
    "BINARY": "X'0{n}FF'",
    "STRUCT<a: INT, b: STRING>": "named_struct('a', {n} % 3, 'b', 'b{n}')",
}
"""The types of a key, and the key of the n-th row."""
GROUPS = ("STRING", "CHAR(3)", "VARCHAR(3)")
NUMBERS = (
    ("INT", "BIGINT"),
    ("TINYINT", "INT"),
    ("SMALLINT", "DOUBLE"),
    ("FLOAT", "DOUBLE"),
    ("DECIMAL(6,2)", "DECIMAL(10,4)"),
)
"""The types of a number, and the type to which each may be widened."""
LAYOUTS = (
    "",
    "PARTITIONED BY (g)",
    "PARTITIONED BY (day)",
    "PARTITIONED BY (g, v)",
    "CLUSTER BY (g)",
    "CLUSTER BY (v, at)",
)
VECTORS, TRACKING, MAPPING = "delta.enableDeletionVectors", "delta.enableRowTracking", "delta.columnMapping.mode"
INDEXED = "delta.dataSkippingNumIndexedCols"
PROPERTIES = {
    VECTORS: ("true", "false"),
    TRACKING: ("true",),
    MAPPING: ("name", "id"),
    "delta.enableInCommitTimestamps": ("true",),
    "delta.checkpointPolicy": ("v2",),
    "delta.checkpointInterval": ("2",),
    "delta.isolationLevel": ("Serializable",),
    INDEXED: ("0",),
}


@dataclass(frozen=True)
class History:
    """A source, the tables that follow it, and what is done to the source between their runs.

    Args:
        source: The statement that creates `{src}`.
        trusted: Whether the key `id` of the source is declared and trusted.
        kinds: The tables, by their names in `KINDS`.
        properties: The Delta properties that these tables declare.
        steps: The statements before each run. `{back}` is the version before the newest, `{before}` the one at the run
            before, `{former}` the one at the run before that. A statement on `{made}` is for each of the tables.
        refresh: The policy of the tables: by "incremental", views compute the rows of touched keys however many.
    """

    source: str
    trusted: bool
    kinds: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]
    steps: tuple[tuple[str, ...], ...]
    refresh: Refresh = "auto"


@dataclass(frozen=True)
class Words:
    """The values of a source in SQL."""

    key: str
    wide: str

    def id(self, n: int) -> str:
        return KEYS[self.key].format(n=n)

    def row(self, n: int, g: str | None, v: int | None, hour: int) -> str:
        at = f"TIMESTAMP_NTZ '2024-10-27 0{hour}:30:00'"
        return f"{self.id(n)} AS id, {_text(g)} AS g, {_text(v)} AS v, {at} AS at, {_nested(v)} AS n"

    def update(self, what: str, where: str) -> tuple[str, ...]:
        return (f"UPDATE {{src}} SET {what} WHERE {where}",)

    def rekey(self, n: int, to: int) -> tuple[str, ...]:
        if n == to:
            return (f"UPDATE {{src}} SET id = id WHERE id = {self.id(n)}",)
        return (
            f"DELETE FROM {{src}} WHERE id = {self.id(to)}",
            f"UPDATE {{src}} SET id = {self.id(to)} WHERE id = {self.id(n)}",
        )

    def merge(self, rows: Sequence[str], *, orphans: bool) -> tuple[str, ...]:
        rest = " WHEN NOT MATCHED BY SOURCE AND t.g = 'b' THEN DELETE" if orphans else ""
        statement = (
            f"MERGE INTO {{src}} t USING ({_union(rows)}) s ON t.id = s.id WHEN MATCHED AND s.v > 7 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET g = s.g, v = s.v, n = s.n WHEN NOT MATCHED THEN INSERT (id, g, v, at, n) "
            f"VALUES (s.id, s.g, s.v, s.at, s.n){rest}"
        )
        return (statement,)


def _text(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def _nested(v: int | None) -> str:
    return "NULL" if v == 3 else f"named_struct('x', {_text(v)}, 'y', array('p', {_text('q' if v == 1 else None)}))"


def _union(rows: Sequence[str]) -> str:
    return " UNION ALL ".join(f"SELECT {row}" for row in rows)


NUMBER = st.integers(0, 9)
GROUP = st.sampled_from(["a", "b", "c", None])
VALUE = st.integers(0, 9) | st.none()
ADDED = ("INSERT INTO {src} (id, g, v, at, n)", "INSERT OVERWRITE {src} (id, g, v, at, n)")


def _rows(words: Words, most: int, least: int = 1) -> st.SearchStrategy[list[str]]:
    each = st.tuples(NUMBER, GROUP, VALUE, st.integers(0, 4))
    drawn = st.lists(each, min_size=least, max_size=most, unique_by=lambda row: row[0])
    return drawn.map(lambda rows: [words.row(*row) for row in rows])


def _conditions(words: Words) -> st.SearchStrategy[str]:
    return st.one_of(
        NUMBER.map(lambda n: f"id = {words.id(n)}"),
        st.sampled_from(
            ["g = 'a'", "g IS NULL", "v > 4", "n.x = 1", "true", "at < TIMESTAMP_NTZ '2024-10-27 02:00:00'"]
        ),
    )


def _changes(words: Words) -> st.SearchStrategy[str]:
    return st.one_of(
        st.integers(0, 9).map(lambda v: f"v = {v}"),
        st.sampled_from(
            ["g = 'c'", "g = NULL", "v = NULL", "v = v", "n = NULL", "n.x = 5", "at = at + INTERVAL '1' DAY"]
        ),
    )


def _appended(words: Words) -> st.SearchStrategy[tuple[str, ...]]:
    """Appends rows whose keys the source does not have yet."""

    def statement(rows: list[str]) -> tuple[str, ...]:
        new = f"SELECT * FROM ({_union(rows)}) s WHERE NOT EXISTS (SELECT 1 FROM {{src}} t WHERE t.id = s.id)"
        return (f"{ADDED[0]} {new}",)

    return _rows(words, 3).map(statement)


def _upkeep(words: Words) -> st.SearchStrategy[tuple[str, ...]]:
    """Statements that do not change the rows; Delta refuses those that this table does not support."""
    alter = "ALTER TABLE {src}"
    return st.sampled_from(
        [
            "OPTIMIZE {src}",
            "OPTIMIZE {src} FULL",
            "OPTIMIZE {src} ZORDER BY (v)",
            "REORG TABLE {src} APPLY (PURGE)",
            "VACUUM {src} RETAIN 0 HOURS",
            f"{alter} ALTER COLUMN v TYPE {words.wide}",
            f"{alter} ADD COLUMN e INT",
            f"{alter} DROP COLUMN e",
            f"{alter} CLUSTER BY (v)",
            f"{alter} CLUSTER BY NONE",
            f"{alter} SET TBLPROPERTIES ('{VECTORS}' = 'true')",
            f"{alter} SET TBLPROPERTIES ('{VECTORS}' = 'false')",
            f"{alter} SET TBLPROPERTIES ('{TRACKING}' = 'true')",
            f"{alter} SET TBLPROPERTIES ('{MAPPING}' = 'name')",
            f"{alter} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            f"{alter} ALTER COLUMN g COMMENT 'a group'",
        ]
    ).map(lambda statement: (statement,))


def _acts(words: Words) -> st.SearchStrategy[tuple[str, ...]]:
    update = st.builds(words.update, _changes(words), _conditions(words))
    return st.one_of(
        _appended(words),
        update,
        update,
        st.builds(words.rekey, NUMBER, NUMBER),
        _conditions(words).map(lambda where: (f"DELETE FROM {{src}} WHERE {where}",)),
        st.builds(words.merge, _rows(words, 4), orphans=st.booleans()),
        _rows(words, 4).map(lambda rows: (f"{ADDED[1]} {_union(rows)}",)),
        st.just(("RESTORE TABLE {src} TO VERSION AS OF {back}",)),
        _upkeep(words),
        _upkeep(words),
    )


def _properties(least: int = 0) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    named = st.sampled_from(list(PROPERTIES)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(PROPERTIES[name]))
    )
    return st.lists(named, min_size=least, max_size=4, unique_by=lambda each: each[0]).map(tuple)


@st.composite
def histories(draw: st.DrawFn, moving: st.SearchStrategy[bool] = st.booleans()) -> History:
    """A source of some form, one or two tables, and up to four steps of up to three acts, which may move names."""
    key, (number, wide) = draw(st.sampled_from(list(KEYS))), draw(st.sampled_from(NUMBERS))
    words = Words(key, wide)
    layout = draw(st.sampled_from(LAYOUTS))
    day = ", day DATE GENERATED ALWAYS AS (CAST(at AS DATE))" if "day" in layout or draw(st.booleans()) else ""
    told = {"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"} | dict(draw(_properties()))
    group, names = draw(st.sampled_from(GROUPS)), draw(moving)
    if names:
        told.setdefault(MAPPING, "name")
    columns = f"id {key}, g {group}, v {number}, at TIMESTAMP_NTZ, n STRUCT<x: INT, y: ARRAY<STRING>>{day}"
    if "CLUSTER" in layout:  # Delta needs the statistics of these columns
        told.pop(INDEXED, None)
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in told.items())
    first = f"{ADDED[0]} {_union(draw(_rows(words, 6)))}"
    kinds_of_acts = [_acts(words), moves(group, number, wide), moves(group, number, wide), edits()]
    acts = st.sampled_from(kinds_of_acts[: 4 if names else 1]).flatmap(lambda kind: kind)
    step = st.lists(acts, min_size=1, max_size=3).map(steps_of)
    steps = [each for step in draw(st.lists(step, min_size=1, max_size=4)) for each in step]
    return History(
        source=f"CREATE TABLE {{src}} ({columns}) USING delta {layout} TBLPROPERTIES ({listed})",
        trusted=draw(st.booleans()),
        kinds=tuple(draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=2, unique=True))),
        properties=draw(_properties()) + ((MAPPING, "name"),) * names,
        steps=((first,), *steps),
        refresh=draw(st.sampled_from(["auto", "incremental"])),
    )
