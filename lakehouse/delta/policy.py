"""What a run may do, and how often it tries again: policies as values."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, cast, get_args

Refresh: TypeAlias = Literal["auto", "incremental", "strict", "full"]
OnNewColumns: TypeAlias = Literal["add", "ignore", "fail"]
OnNewCode: TypeAlias = Literal["compare", "warn", "ignore"]
OnSameRows: TypeAlias = Literal["retry", "fail"]
Outside: TypeAlias = Literal["warn", "ignore", "fail"]
StatementChoice: TypeAlias = Literal["auto", "merge"]
Inputs: TypeAlias = Literal["newest", "agree"]
Names: TypeAlias = str | tuple[str, ...] | list[str]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a run may do. A field that is not given takes the manager's value, or else the first word listed here.

    Args:
        refresh: What a run may read of a source that it reads as changes. `"auto"`: the changes, or everything if that
            takes less work or nothing else is exact. `"incremental"`: the changes, or everything if nothing else is
            exact. `"strict"`: the changes; the run fails if everything would have to be compared, unless a run tag
            asks for that. `"full"`: everything in each run. Under each word, a first read reads everything, and
            only the rows that differ are written.
        on_new_columns: What to do if a result has a column that the table lacks: `"add"` the column to the table,
            `"ignore"` the column, or `"fail"`.
        on_new_code: What to do if the code of the asset's function changed and no `code_version` is given, or if the
            text of its `View` changed, or what a run passes to the function (the source of an input, a value of a
            resource): `"compare"` everything once and write the rows that differ, `"warn"` and go on, or `"ignore"` it.
        on_same_rows: What to do if an attempt was lost to another program that changed the same rows (those of touched
            keys, or of the run's partitions, or any): `"retry"` writes again, `"fail"` raises.
        statement: `"auto"` replaces the rows that differ if that takes less work than a MERGE; the table's feed then
            shows an update as a delete and an insert. `"merge"` always merges, so that the feed has pre-images and
            post-images.
        ignore_config: Fields of the asset's config, and of resources as `"resource.field"`, that do not affect rows: a
            new value of such a field is not a reason to compare everything. No fields by default.
        show_rows: At most this many of the rows that a step changed are shown with its materialization, with pre-images
            and post-images. 0 by default: Dagster's event log keeps what it is given for ever, even personal data.
        max_changed: The largest share of the rows of the table, or of the run's partitions, that one step may insert,
            update and delete together, from 0 to 1. A step that would change more fails, and writes nothing, unless a
            run tag lets it pass. A table that is empty or new is filled whatever the share. Any share passes by
            default.
        outside: What to do if every row of a result lies outside the run's partitions, so that all rows are left out:
            `"warn"` in the log of the run and in the metadata, `"ignore"`, or `"fail"` and write nothing.
        inputs: How far a run reads its inputs: each to its `"newest"` version, or only as far as they `"agree"`. Then
            the table never holds a state that their common sources never had.
        deletion_vectors: Whether a table that is created with a key keeps deletion vectors, so that changing a row does
            not rewrite its file. `True` by default. pandas and Polars read only tables without vectors.

    Raises:
        ValueError: A word other than these, a negative number of rows, or a share that is not from 0 to 1.
        TypeError: Names of fields that are not texts.
    """

    refresh: Refresh | None = None
    on_new_columns: OnNewColumns | None = None
    on_new_code: OnNewCode | None = None
    on_same_rows: OnSameRows | None = None
    statement: StatementChoice | None = None
    ignore_config: Names | None = None
    show_rows: int | None = None
    max_changed: float | None = None
    outside: Outside | None = None
    inputs: Inputs | None = None
    deletion_vectors: bool | None = None

    def __post_init__(self) -> None:
        if self.ignore_config is not None:
            object.__setattr__(self, "ignore_config", as_names("ignore_config", self.ignore_config))
        if self.show_rows is not None and self.show_rows < 0:
            raise ValueError(f"show_rows is a number of rows from 0, not {self.show_rows}.")
        if self.max_changed is not None and not 0 <= self.max_changed <= 1:
            raise ValueError(f"max_changed is a share of rows from 0 to 1, not {self.max_changed}.")
        for name, words in _WORDS.items():
            given = getattr(self, name)
            if given is not None and given not in words:
                raise ValueError(f"{name} is {' or '.join(map(repr, words))}, not {given!r}.")

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are given, as metadata holds them."""
        values = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        names = {} if self.ignore_config is None else {"ignore_config": list(self.ignored_config)}
        return values | names

    def within(self, outer: "Policy") -> "Policy":
        """This policy, with the outer policy's value for each field that this one does not give."""
        return Policy(**{**outer.given, **self.given})

    @property
    def chosen_refresh(self) -> Refresh:
        return "auto" if self.refresh is None else self.refresh

    @property
    def new_columns(self) -> OnNewColumns:
        return "add" if self.on_new_columns is None else self.on_new_columns

    @property
    def new_code(self) -> OnNewCode:
        return "compare" if self.on_new_code is None else self.on_new_code

    @property
    def same_rows(self) -> OnSameRows:
        return "retry" if self.on_same_rows is None else self.on_same_rows

    @property
    def chosen_statement(self) -> StatementChoice:
        return "auto" if self.statement is None else self.statement

    @property
    def all_outside(self) -> Outside:
        return "warn" if self.outside is None else self.outside

    @property
    def ignored_config(self) -> tuple[str, ...]:
        return as_names("ignore_config", self.ignore_config)

    @property
    def shown_rows(self) -> int:
        return 0 if self.show_rows is None else self.show_rows


_WORDS = {
    "refresh": get_args(Refresh),
    "on_new_columns": get_args(OnNewColumns),
    "on_new_code": get_args(OnNewCode),
    "on_same_rows": get_args(OnSameRows),
    "statement": get_args(StatementChoice),
    "outside": get_args(Outside),
    "inputs": get_args(Inputs),
}


def as_names(argument: str, value: Any) -> tuple[str, ...]:
    """A name or several names, as a tuple.

    Raises:
        TypeError: One of them is not a text.
    """
    names = () if value is None else cast("Sequence[Any]", value) if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument} is a name or a tuple of names, not {value!r}.")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance as arguments, so that tests neither sleep nor guess."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


REAL_CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential back-off with jitter, bounded by attempts and by a deadline.

    Args:
        attempts: How many times a commit is tried in all, at least 1. 1 means: fail at the first conflict.
        wait_initial: Seconds before the second attempt, before jitter.
        wait_max: The longest wait in seconds, before jitter.
        deadline: Seconds after which no further attempt starts.
        jitter: The share of each wait that is random, from 0 (none) to 1 ("full jitter": M. Brooker,
            "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).

    Raises:
        ValueError: A policy without attempts, or with a negative time.
    """

    attempts: int = 8
    wait_initial: float = 0.2
    wait_max: float = 10.0
    deadline: float = 300.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"A commit is tried at least once: attempts={self.attempts}.")
        for name in ("wait_initial", "wait_max", "deadline"):
            if not getattr(self, name) >= 0:  # NaN is neither below nor above.
                raise ValueError(f"{name} is a number of seconds from 0, not {getattr(self, name)}.")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is a share from 0 to 1, not {self.jitter}.")

    def wait(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds to wait after `attempt` (from 1) was lost; `random` draws from [0, 1)."""
        full = min(self.wait_max, self.wait_initial * 2 ** min(attempt - 1, 60))
        return full * (1 - self.jitter * random())

    def allows(self, attempt: int, elapsed: float) -> bool:
        """Whether another attempt may start after `attempt` attempts and `elapsed` seconds."""
        return attempt < self.attempts and elapsed < self.deadline
