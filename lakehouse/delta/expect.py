"""What a table expects of each of its rows, and the results of evaluating that: values, without Spark."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, cast, get_args

from lakehouse.delta.commit_info import count_of

OnFailure: TypeAlias = Literal["warn", "fail", "drop", "quarantine"]
SHOWN_KEYS = 20
"""At most this many keys of rows that break a condition are shown."""
SUFFIX = "_quarantine"
"""The suffix that makes the name, the address and the catalog name of a table into those of its quarantine."""
NTH, BROKEN_NAMES, RUN_ID = "__n", "__broken", "__run_id"
OWN_COLUMNS = (NTH, BROKEN_NAMES, RUN_ID)
"""The columns that a quarantine has in addition to those of its table: the number of the row among the rows of its key,
the names of the expectations that the row breaks, and the run that put it there."""
UNIQUE_KEY = "UNIQUE KEY"
"""The only condition that depends on other rows of a result: no other has the row's key, and the key has no NULL."""
_NAME = re.compile(r"[A-Za-z0-9_]+")
_COMPARISONS = {">=": "ge", "<=": "le", "<>": "ne", "!=": "ne", "==": "eq", ">": "gt", "<": "lt", "=": "eq"}
_COMPARISON = re.compile("|".join(map(re.escape, _COMPARISONS)))


@dataclass(frozen=True, slots=True)
class Expect:
    """A condition that each row of a table has to meet, as SQL over the columns of the table: TRUE, and not NULL.

    A run evaluates the condition over the rows of its result, before anything is written.

    Args:
        condition: The condition, a boolean of the columns of one row: `"amount >= 0"`.
        on_failure: What becomes of rows that break the condition. `"warn"`: they are written, and the run reports it.
            `"fail"`: the run fails and writes nothing. `"drop"`: they are left out, so that the table is the result
            without them; a key whose rows are all left out leaves the table. `"quarantine"`: they are left out, and the
            table `<asset key>_quarantine` holds them until they are corrected upstream.
        name: What the condition is called; the asset check of this name shows the results. By default, a name that is
            made from the condition.

    Raises:
        TypeError: A condition that is not a text.
        ValueError: An empty condition, a word other than these, a name with characters other than letters, digits and
            underscores, or a unique key with a word other than `"quarantine"` and `"fail"`.
    """

    condition: str
    on_failure: OnFailure = "warn"
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.condition), str):
            raise TypeError(f"An expectation's condition is SQL text, not {self.condition!r}.")
        object.__setattr__(self, "condition", UNIQUE_KEY if is_unique_key(self.condition) else self.condition.strip())
        if not self.condition:
            raise ValueError("An expectation has a condition, such as 'amount >= 0', and not an empty text.")
        if self.on_failure not in get_args(OnFailure):
            words = " or ".join(map(repr, get_args(OnFailure)))
            raise ValueError(f"on_failure is {words}, not {self.on_failure!r}.")
        if self.is_of_key and self.on_failure not in ("quarantine", "fail"):
            raise ValueError(
                f"on_failure of {UNIQUE_KEY} is 'quarantine' or 'fail', not {self.on_failure!r}: no table with a key "
                f"takes two rows of one key."
            )
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise ValueError(f"An expectation's name has letters, digits and underscores, and is not {self.name!r}.")
        if self.name is None and not _name_of(self.condition):
            raise ValueError(f"Nothing in the condition {self.condition!r} makes a name. Give the expectation a name.")

    @classmethod
    def unique_key(cls, on_failure: Literal["quarantine", "fail"] = "quarantine", name: str | None = None) -> Self:
        """The expectation that each key of a result has one row and no NULL, among the rows that are not left out.

        Args:
            on_failure: `"quarantine"`: all rows of a key that breaks this are put into the quarantine, and the other
                keys are written. `"fail"`: the run fails and writes nothing.
            name: As in `Expect`.
        """
        return cls(UNIQUE_KEY, on_failure, name)

    @property
    def metadata(self) -> dict[str, str]:
        """The fields, as metadata holds them."""
        named = {} if self.name is None else {"name": self.name}
        return {"condition": self.condition, "on_failure": self.on_failure, **named}

    @property
    def check_name(self) -> str:
        """What the condition is called: its name, or the name that is made from it."""
        return self.name or _name_of(self.condition)

    @property
    def leaves_out(self) -> bool:
        """Whether rows that break the condition are left out of the table."""
        return self.on_failure in ("drop", "quarantine")

    @property
    def quarantines(self) -> bool:
        """Whether rows that break the condition are put into the quarantine of the table."""
        return self.on_failure == "quarantine"

    @property
    def is_of_key(self) -> bool:
        """Whether the condition compares the key of a row with the keys of the other rows."""
        return self.condition == UNIQUE_KEY

    @property
    def meaning(self) -> str:
        """What each row is expected to have."""
        return "a key that no other row has, without NULL" if self.is_of_key else self.condition


def as_expectations(value: Any) -> tuple[Expect, ...]:
    """One expectation or several, given as themselves or by their fields.

    Raises:
        TypeError: Something else was given.
        ValueError: Two expectations have one name.
    """
    listed = cast("Sequence[Any]", value) if isinstance(value, tuple | list) else (value,)
    expectations = tuple(Expect(**cast("Any", each)) if isinstance(each, Mapping) else each for each in listed)
    names = set[str]()
    for each in cast("tuple[Any, ...]", expectations):
        if not isinstance(each, Expect):
            raise TypeError(f"expect is an Expect(...) or a tuple of them, not {each!r}.")
        if each.check_name.lower() in names:
            raise ValueError(f"Two expectations are called {each.check_name}. Give each a name: Expect(name=...).")
        names.add(each.check_name.lower())
    return expectations


def is_unique_key(condition: str) -> bool:
    """Whether the text of a condition is `UNIQUE KEY`, in any case and with any spaces."""
    return condition.upper().split() == UNIQUE_KEY.split()


def _name_of(condition: str) -> str:
    """A name made from a condition: its words, and its comparisons as words."""
    spoken = _COMPARISON.sub(lambda sign: f" {_COMPARISONS[sign[0]]} ", condition)
    return "_".join(re.findall(r"[A-Za-z0-9_]+", spoken)).lower()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the rows of a result meet one expectation.

    Args:
        expect: The expectation.
        rows: How many rows there were.
        broken: How many of these rows break the condition.
        keys: The keys of some rows that break it; empty if the table has no key.
    """

    expect: Expect
    rows: int
    broken: int
    keys: tuple[Mapping[str, str], ...] = ()

    @property
    def share(self) -> float:
        """The share of the rows that break the condition."""
        return self.broken / self.rows if self.rows else 0.0

    @property
    def clause(self) -> str:
        """How many rows break which condition, as a clause, with some of their keys."""
        verb = "breaks" if self.broken == 1 else "break"
        shown = "; ".join(", ".join(f"{name}={value}" for name, value in key.items()) for key in self.keys)
        which = f" [{shown}{'; ...' if self.broken > len(self.keys) else ''}]" if shown else ""
        return (
            f"{self.broken:,} of {count_of(self.rows, 'row')} {verb} the expectation {self.expect.check_name} "
            f"({self.expect.condition}){which}"
        )
