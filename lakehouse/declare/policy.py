"""What a run may do where more than one answer is safe: a policy as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, Self, TypeAlias, get_args

OnNewColumns: TypeAlias = Literal["add", "ignore", "fail"]
OnNewCode: TypeAlias = Literal["compare", "warn", "ignore"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a run may do. A field that is not given has the manager's value, then the word that stands first here.

    Args:
        on_new_columns: What to do if a result has a column that the table lacks: `"add"` the column to the table,
            `"ignore"` the column, or `"fail"`.
        on_new_code: What to do if the code of the asset's function changed and no `code_version` is given: `"compare"`
            everything once and write the rows that differ, `"warn"` and go on, or `"ignore"` it.

    Raises:
        ValueError: Another word than these.
    """

    on_new_columns: OnNewColumns | None = None
    on_new_code: OnNewCode | None = None

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            given = getattr(self, name)
            if given is not None and given not in words:
                raise ValueError(f"{name} is {' or '.join(map(repr, words))}, not {given!r}.")

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """The policy of fields by name, as metadata holds them."""
        return cls(**given)  # pyright: ignore[reportArgumentType]  (checked where it is made)

    @property
    def given(self) -> dict[str, str]:
        """The fields that are given."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def within(self, outer: "Policy") -> "Policy":
        """This policy, where it is not given the outer policy."""
        return Policy.of({**outer.given, **self.given})

    @property
    def new_columns(self) -> OnNewColumns:
        return "add" if self.on_new_columns is None else self.on_new_columns

    @property
    def new_code(self) -> OnNewCode:
        return "compare" if self.on_new_code is None else self.on_new_code


_WORDS = {"on_new_columns": get_args(OnNewColumns), "on_new_code": get_args(OnNewCode)}
