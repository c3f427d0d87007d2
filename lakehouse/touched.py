"""The keys that a range of changes touched, and the rows that belong to them."""

from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import ColumnMissingError, WriteError
from lakehouse.local import small
from lakehouse.sql import quote


@dataclass(frozen=True)
class Touched:
    """The distinct keys that appear in either image of a range of changes: exactly these may have changed.

    Args:
        columns: The key's columns, as the target names them too.
        found: The keys, perhaps repeated; None where every key counts as touched (a first read, or one that
            compares everything).
        source: The rows that `rows` restricts: the source at the end of the range; None where two sources'
            keys were united.
        name: The source's name in messages.
        few: Whether the changes were few enough to be at the driver already. Only then are the keys brought there
            at once: what may fail because change files are gone must fail while writing, not in the asset's body.
    """

    columns: tuple[str, ...]
    found: DataFrame | None
    source: DataFrame | None
    name: str
    few: bool = True

    @property
    def is_everything(self) -> bool:
        return self.found is None

    @cached_property
    def keys(self) -> DataFrame:
        """The distinct keys, brought to the driver once where they are few."""
        if self.found is None:
            if self.source is None:
                raise WriteError("Every key is touched, and of two sources together no list of them exists; use of().")
            return self.source.select(*quoted(self.columns)).distinct()
        distinct = self.found.select(*quoted(self.columns)).distinct()
        local = small(distinct) if self.few else None
        return distinct if local is None else local[0]

    @property
    def rows(self) -> DataFrame:
        """The source's rows with the touched keys, as of the end of the range."""
        if self.source is None:
            raise WriteError(
                f"The touched keys of {self.name} come from two sources, so `rows` of which? Use of(frame)."
            )
        return self.of(self.source)

    def of(self, frame: DataFrame) -> DataFrame:
        """Any frame, restricted to the touched keys; two NULLs are the same key."""
        require(frame, self.columns, self.name)
        if self.found is None:
            return frame
        renamed = {f"__touched_{index}": column for index, column in enumerate(self.columns)}
        keys = self.keys.select(*(F.col(quote(column)).alias(alias) for alias, column in renamed.items()))
        return frame.join(keys, same_key(renamed), "left_semi")

    def via(self, frame: DataFrame, *columns: str) -> "Touched":
        """The `columns` of the frame's rows that hold touched keys: carries a dimension's change to its facts."""
        require(frame, columns, self.name)
        found = None if self.found is None else self.of(frame).select(*quoted(columns))
        return Touched(columns, found, frame, self.name, self.few)

    def __or__(self, other: "Touched") -> "Touched":
        """The keys touched on either side; both name the same columns."""
        if self.columns != other.columns:
            raise WriteError(
                f"Touched keys of ({', '.join(self.columns)}) and of ({', '.join(other.columns)}) cannot be united: "
                f"carry one of them over with via(frame, {', '.join(map(repr, self.columns))})."
            )
        found = None if self.found is None or other.found is None else self.found.union(other.found)
        source = self.source if self.source is other.source else None
        name = self.name if self.name == other.name else f"{self.name} and {other.name}"
        return Touched(self.columns, found, source, name, self.few and other.few)


def same_key(renamed: dict[str, str]) -> Column:
    """Null-safe equality of each column with its alias."""
    return reduce(Column.__and__, (F.col(quote(column)).eqNullSafe(F.col(alias)) for alias, column in renamed.items()))


def quoted(columns: tuple[str, ...]) -> list[str]:
    """Column names that Spark takes as names, whatever characters are in them."""
    return [quote(column) for column in columns]


def require(frame: DataFrame, columns: tuple[str, ...], name: str) -> None:
    """Refuses a column that the frame does not have, before Spark does in its own words."""
    known = {column.lower() for column in frame.columns}
    for column in columns:
        if column.lower() not in known:
            raise ColumnMissingError(name, column, frame.columns)
