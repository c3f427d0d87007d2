"""The plan of a view as values: SQL with places for relations, and the steps whose rows are keys for what follows."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from re import compile as pattern
from typing import TypeAlias

from lakehouse.views.view_text import Reason


class Image(Enum):
    """Which rows of a source. All are known from the pinned source and the feed of the run's range.

    NOW: The rows at the end of the range. GONE: the rows that the range took away, deletes and pre-images. CAME: the
    rows that it brought, inserts and post-images. MOVED: the distinct rows, in the named columns alone, that the source
    has more or fewer of than before, without updates that cancel out. NONE: no row, only the types of the columns.
    """

    NOW = "now"
    GONE = "gone"
    CAME = "came"
    MOVED = "moved"
    NONE = "none"


CHANGES = frozenset({Image.GONE, Image.CAME, Image.MOVED})
"""The images that come from the feed."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """The condition that a row has one of the keys of a step.

    Args:
        step: The step.
        pairs: A SQL expression over the columns of the restricted rows, and the column of the step that equals it.
        null_safe: Whether two NULLs are equal.
    """

    step: str
    pairs: tuple[tuple[str, str], ...]
    null_safe: bool = True

    @property
    def columns(self) -> tuple[str | None, ...]:
        """The column that each expression is, without its quotes; None for a computed expression."""
        return tuple(_column_of(expression) for expression, _ in self.pairs)


_COLUMN = pattern(r"`((?:[^`]|``)+)`|([A-Za-z_]\w*)")


def _column_of(expression: str) -> str | None:
    match = _COLUMN.fullmatch(expression)
    if match is None:
        return None
    return match[1].replace("``", "`") if match[1] else match[2]


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of a source, under the source's own column names: a place in SQL.

    Args:
        table: The source, as the text of the view names it.
        image: Which rows.
        columns: The columns of the source that are needed; for MOVED, the only columns that are compared.
        any_of: The alternatives: a row is needed if it meets all restrictions of one of them. If there are none, all
            rows are needed.
    """

    table: str
    image: Image
    columns: tuple[str, ...]
    any_of: tuple[tuple[Restriction, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of an earlier step: a place in SQL."""

    step: str


Sql: TypeAlias = tuple[str | SourceRows | Found, ...]
"""SQL text with places for relations."""


@dataclass(frozen=True, slots=True)
class Step:
    """A query whose rows are keys for what follows. Its rows come to the driver if they are few.

    Args:
        name: Its name in the plan.
        sql: The query.
        columns: The columns of its rows.
        why: What its rows are, in words.
    """

    name: str
    sql: Sql
    columns: tuple[str, ...]
    why: str


def fuse(steps: Sequence[Step]) -> list[Step]:
    """The same steps in fewer queries: a step that only one later step reads becomes a part of that one.

    A step whose keys restrict rows of a source stays, because these keys come to the driver. So does the last step.
    """
    uses = Counter(place.step for step in steps for place in step.sql if isinstance(place, Found))
    places = [place for step in steps for place in step.sql if isinstance(place, SourceRows)]
    sought = {one.step for place in places for alternative in place.any_of for one in alternative}
    parts, fused = dict[str, Sql](), list[Step]()
    for step in steps:
        of_places = (parts.get(place.step, (place,)) if isinstance(place, Found) else (place,) for place in step.sql)
        sql = tuple(part for parts_of_place in of_places for part in parts_of_place)
        if uses[step.name] == 1 and step.name not in sought:
            parts[step.name] = ("(", *sql, ")")
        else:
            fused.append(replace(step, sql=sql))
    return fused


@dataclass(frozen=True, slots=True)
class TouchedPlan:
    """How the keys whose rows may differ are found.

    Args:
        steps: The queries, in the order in which they run.
        touched: The last step, whose columns are the touch columns in the order in which they were asked for; None if
            no change can reach the result.
        touch: The touch columns, by their names in the result, in the same order. Empty if the result has one row for
            all (a global aggregate): then everything is computed if the last step has a row, and nothing otherwise.
        read_whole: The tables that are read whole in every run that reaches them, each with the reason.
        whole: The tables whose changes no keys follow, each with the reason: then all rows are computed.
    """

    steps: tuple[Step, ...]
    touched: str | None
    touch: tuple[str, ...]
    read_whole: tuple[tuple[str, str], ...] = ()
    whole: Mapping[str, Reason] = field(default_factory=dict[str, Reason])

    def why_read_whole(self, followed: Collection[str]) -> str | None:
        """Which followed tables the steps read whole, which need all rows if they change, and why; None if none."""
        whole = (f"a change of {table} needs all rows, because {why.clause}" for table, why in self.whole.items())
        clauses = [*whole, clause_of_whole(self.read_whole, followed, "to find the keys")]
        return " and ".join(filter(None, clauses)) or None


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What is known of the touched keys when the rows are planned.

    Args:
        step: The step that holds them.
        null_free: The columns of the step in which no key is NULL.
        holds: Whether a constant, as SQL, is among the values of a column of the step.
    """

    step: str
    null_free: frozenset[str]
    holds: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """How the rows of the touched keys are computed: by the view's own text over fewer rows of its tables.

    Every row of the full result whose touch columns are among the keys is in the result of `text`, as often; other rows
    may be in it, so it is filtered by the touched keys afterwards.

    Args:
        steps: The queries that the restrictions need in addition to the touched keys, in order.
        text: The text, with a place for each table.
        read_whole: The tables that are read whole for that, each with the reason.
    """

    steps: tuple[Step, ...]
    text: Sql
    read_whole: tuple[tuple[str, str], ...] = ()

    def why_read_whole(self, followed: Collection[str]) -> str | None:
        """Which followed tables are read whole, and why, as a clause; None if none is."""
        return clause_of_whole(self.read_whole, followed, "for the rows of the keys")


def clause_of_whole(read_whole: Iterable[tuple[str, str]], followed: Collection[str], purpose: str) -> str | None:
    """Which followed tables are read whole, and why, as a clause; None if none is."""
    tables = dict[str, list[str]]()
    for table, why in read_whole:
        if table in followed:
            tables.setdefault(why, []).append(table)
    clauses = (f"all of {', '.join(of)} is read {purpose}, because {why}" for why, of in tables.items())
    return " and ".join(clauses) or None
