"""What a definition declares, in the form in which Dagster keeps it: metadata."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, ClassVar, Self, cast

from lakehouse.declare.policy import Policy


class Declared(Mapping[str, Any]):
    """A frozen dataclass that is its own metadata: what differs from the defaults, each under a prefix of its own."""

    __slots__ = ()
    _PREFIX: ClassVar[str]
    _stored: Mapping[str, Any]

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """The declaration in an asset's metadata. What is not declared has its default."""
        options = {f.name for f in fields(cast("Any", cls)) if f.init}
        declared = {
            name.removeprefix(cls._PREFIX): getattr(value, "value", value)
            for name, value in metadata.items()
            if name.startswith(cls._PREFIX)
        }
        return cls(**{name: value for name, value in declared.items() if name in options})

    def _keep(self) -> None:
        """Stores the fields that differ from their defaults. Call it in the last line of `__post_init__`."""
        values = [(f, getattr(self, f.name)) for f in fields(cast("Any", self)) if f.init]
        stored = {self._PREFIX + f.name: _plain(value) for f, value in values if value not in (f.default, (), {})}
        object.__setattr__(self, "_stored", stored)

    def __getitem__(self, name: str) -> Any:
        return self._stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Policy):
        return value.given
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
