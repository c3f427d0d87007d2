"""Values as text that is equal in each process: no address, no order of a set, no directory of a checkout."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, cast
from zoneinfo import ZoneInfo

MOST = 10_000
"""So many items of a value count. A larger value would take longer to print than a small step takes."""
DEEPEST = 20
_UNSEEN = "~"
_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: hex,
    float: repr,
    complex: repr,
    Decimal: repr,
    date: repr,
    timedelta: repr,
    bytes: bytes.hex,
    type(...): repr,
}
_ZONES = (type(None), timezone, ZoneInfo)
"""Time zones whose `repr` is no code of the user's."""


@dataclass
class Printer:
    """Prints one value.

    Args:
        root: The directory of the project, which a text may hold.
        refer: What stands for a function or a class; None for every other value.
        is_complete: Whether all that has been printed counts by its value.
    """

    root: str
    refer: Callable[[Any], str | None]
    is_complete: bool = True
    _budget: int = field(init=False, default=MOST)

    def text(self, value: Any, inside: tuple[int, ...] = ()) -> str:
        """The value as text; what does not count is `~`. Types are exact, so that nothing of the user's is called."""
        kind = type_of(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {_PLAIN[kind](value)}"
        if kind is str:
            return json.dumps(value.replace(self.root, "."))
        if kind in (datetime, time) and type(value.tzinfo) in _ZONES:
            return repr(value)
        if kind in (list, tuple, set, frozenset, dict):
            return self._items(kind, value, inside)
        return self.refer(value) or self._unseen()

    def _items(self, kind: type[Any], value: Any, inside: tuple[int, ...]) -> str:
        self._budget -= len(value)
        if self._budget < 0 or id(value) in inside or len(inside) == DEEPEST:
            return self._unseen()
        within = (*inside, id(value))
        if kind is dict:
            items = sorted(((self.text(key, within), item) for key, item in list(value.items())), key=_first)
            texts = [f"{key}: {self.text(item, within)}" for key, item in items]
        elif kind in (list, tuple):
            texts = [self.text(item, within) for item in list(value)]
        else:
            texts = sorted(self._of_set(item, within) for item in list(value))
        return f"{kind.__name__}({', '.join(texts)})"

    def _of_set(self, item: Any, inside: tuple[int, ...]) -> str:
        """An item of a set; functions do not count there, because they are met in another order in each process."""
        printer = Printer(self.root, lambda _: None)
        text = printer.text(item, inside)
        self.is_complete &= printer.is_complete
        return text

    def _unseen(self) -> str:
        self.is_complete = False
        return _UNSEEN


def type_of(value: Any) -> type[Any]:
    """The exact type, whatever the value says of itself."""
    return cast("type[Any]", type(value))


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]
