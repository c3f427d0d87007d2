"""Edits of a source table, on Delta and on a plain dictionary at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from lakehouse.delta.text import literal
from tests.support.lake import Lake

Row = tuple[int | None, Any, Any]
SRC = "id int, k string, v int"
DIM = "k string, name string, w int"

ids = st.integers(0, 5) | st.none()
groups = st.sampled_from(["a", "b", "c", None])
values = st.integers(0, 99) | st.none()


@dataclass(frozen=True)
class Insert:
    row: Row


@dataclass(frozen=True)
class Update:
    id: int | None
    v: Any


@dataclass(frozen=True)
class Move:
    """Moves the row to another group."""

    id: int | None
    k: Any


@dataclass(frozen=True)
class Rekey:
    """Gives the row another key."""

    id: int | None
    to: int | None


@dataclass(frozen=True)
class Delete:
    id: int | None


@dataclass(frozen=True)
class Overwrite:
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class MergeRows:
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Optimize:
    pass


@dataclass(frozen=True)
class Rename:
    """Renames a group in the dimension."""

    k: Any
    name: str


def rows(size: int = 4) -> st.SearchStrategy[tuple[Row, ...]]:
    return st.lists(st.tuples(ids, groups, values), max_size=size, unique_by=lambda row: row[0]).map(tuple)


edits = st.one_of(
    st.builds(Insert, st.tuples(ids, groups, values)),
    st.builds(Update, ids, values),
    st.builds(Move, ids, groups),
    st.builds(Rekey, ids, ids),
    st.builds(Delete, ids),
    st.builds(MergeRows, rows(3)),
    st.builds(Rename, groups, st.sampled_from(["x", "y", "z"])),
    st.builds(Overwrite, rows()),
    st.just(Optimize()),
)


def after(edit: Any, src: dict[int | None, Row]) -> dict[int | None, Row]:
    """The rows of the source after an edit; unchanged where the edit does not apply."""
    match edit:
        case Insert(row) if row[0] not in src:
            return src | {row[0]: row}
        case Update(id_, v) if id_ in src:
            return src | {id_: (id_, src[id_][1], v)}
        case Move(id_, k) if id_ in src:
            return src | {id_: (id_, k, src[id_][2])}
        case Rekey(id_, to) if id_ in src and to not in src:
            return {key: row for key, row in src.items() if key != id_} | {to: (to, *src[id_][1:])}
        case Delete(id_):
            return {key: row for key, row in src.items() if key != id_}
        case Overwrite(new):
            return {row[0]: row for row in new}
        case MergeRows(new):
            return src | {row[0]: row for row in new}
        case _:
            return dict(src)


@dataclass
class Model:
    """The source and the dimension, each both as a dictionary and as a Delta table (`src` and `dim`)."""

    lake: Lake
    src: dict[int | None, Row] = field(default_factory=dict)
    dim: dict[Any, Row] = field(default_factory=dict)

    def create(self, start: tuple[Row, ...], **properties: str) -> None:
        self.src = {row[0]: row for row in start}
        self.dim = {"a": ("a", "x", 1), None: (None, "none", 2)}
        self.lake.create("src", start, SRC, **properties)
        self.lake.create("dim", self.dim.values(), DIM, **properties)

    def apply(self, edit: Any) -> None:
        before, self.src = self.src, after(edit, self.src)
        match edit:
            case Insert(row) if row[0] not in before:
                self._write("append", "src", [row], SRC)
            case Update(id_, v) if id_ in before:
                self.lake.sql(f"UPDATE {{src}} SET v = {literal(v)} WHERE id <=> {literal(id_)}")
            case Move(id_, k) if id_ in before:
                self.lake.sql(f"UPDATE {{src}} SET k = {literal(k)} WHERE id <=> {literal(id_)}")
            case Rekey(id_, to) if id_ in before and to not in before:
                self.lake.sql(f"UPDATE {{src}} SET id = {literal(to)} WHERE id <=> {literal(id_)}")
            case Delete(id_) if id_ in before:
                self.lake.sql(f"DELETE FROM {{src}} WHERE id <=> {literal(id_)}")
            case Overwrite(new):
                self._write("overwrite", "src", new, SRC)
            case MergeRows(new) if new:
                self.lake.values(new, SRC).createOrReplaceTempView("new_rows")
                # By column names, because the table may have got another column.
                self.lake.sql(
                    "MERGE INTO {src} t USING new_rows s ON t.id <=> s.id WHEN MATCHED THEN UPDATE SET "
                    "t.k = s.k, t.v = s.v WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, s.k, s.v)"
                )
            case Rename(k, name):
                known = k in self.dim
                self.dim[k] = (k, name, 0)
                if known:
                    self.lake.sql(f"UPDATE {{dim}} SET name = {literal(name)}, w = 0 WHERE k <=> {literal(k)}")
                else:
                    self._write("append", "dim", [self.dim[k]], DIM)
            case Optimize():
                self.lake.sql("OPTIMIZE {src}")
            case _:
                pass  # the edit does not apply to the rows that there are

    def _write(self, mode: str, name: str, rows: Iterable[Row], schema: str) -> None:
        self.lake.values(rows, schema).write.format("delta").mode(mode).save(str(self.lake.root / name))
