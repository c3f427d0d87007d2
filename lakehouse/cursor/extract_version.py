"""The version of a full extract, as the mark holds it: a number, a day or a moment."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, Self, TypeAlias, cast

SnapshotVersion: TypeAlias = int | date | datetime
Kind: TypeAlias = Literal["int", "date", "datetime"]
_LONG = 1 << 63


@dataclass(frozen=True, slots=True)
class ExtractVersion:
    """Which extract of its source a table holds. Versions of one kind have an order."""

    kind: Kind
    value: SnapshotVersion

    @classmethod
    def of(cls, version: SnapshotVersion) -> Self:
        """The version that a user gave; a moment without a zone is in UTC.

        Raises:
            TypeError: It is neither a number, nor a date, nor a datetime.
            ValueError: A number of more than 64 bits.
        """
        match version:
            case bool():
                raise TypeError(f"The version of an extract is an int, a date or a datetime, not {version}.")
            case datetime():
                moment = version.replace(tzinfo=UTC) if version.tzinfo is None else version.astimezone(UTC)
                return cls("datetime", moment)
            case date():
                return cls("date", version)
            case int():
                if not -_LONG <= version < _LONG:
                    raise ValueError(f"The version of an extract is a number of at most 64 bits, not {version}.")
                return cls("int", int(version))
            case _:
                raise TypeError(f"The version of an extract is an int, a date or a datetime, not {version!r}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version from which `text` was made.

        Raises:
            ValueError: The text names no version.
        """
        kind, _, value = text.partition(" ")
        return cls.of(_parse(kind, value))

    @property
    def text(self) -> str:
        """The version with its kind, for the mark."""
        return f"{self.kind} {self}"

    def __str__(self) -> str:
        return self.value.isoformat() if isinstance(self.value, date) else str(self.value)

    def is_named(self, text: str) -> bool:
        """Whether a text, from a run tag, names this version."""
        try:
            return type(self).of(_parse(self.kind, text.strip())) == self
        except ValueError:
            return False

    def is_before(self, other: Self) -> bool:
        """Whether this extract is older than another of the same kind."""
        assert self.kind == other.kind, "versions of two kinds have no order"
        return cast("Any", self.value) < other.value


def _parse(kind: str, value: str) -> SnapshotVersion:
    match kind:
        case "int":
            return int(value)
        case "date":
            return date.fromisoformat(value)
        case "datetime":
            return datetime.fromisoformat(value)
        case _:
            raise ValueError(f"{kind!r} is not a kind of version of an extract")
