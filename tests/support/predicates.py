"""What the text of a partition predicate selects: an oracle that knows the SQL and not the code that wrote it."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

from tests.support.spark_text import tokens

Row: TypeAlias = Mapping[str, Any]
Test: TypeAlias = Callable[[Row], bool]


def selects(predicate: str) -> Test:
    """Tests rows for a predicate of values, ranges and their combinations; times with a zone are moments."""
    parser = _Parser([*tokens(predicate)])
    test = parser.any_of()
    assert not parser.left, f"not read to its end: {parser.left}"
    return test


class _Parser:
    def __init__(self, left: list[tuple[str, str]]) -> None:
        self.left = left

    def any_of(self) -> Test:
        tests = [self.all_of()]
        while self.accept("OR"):
            tests.append(self.all_of())
        return lambda row: any(test(row) for test in tests)

    def all_of(self) -> Test:
        tests = [self.one()]
        while self.accept("AND"):
            tests.append(self.one())
        return lambda row: all(test(row) for test in tests)

    def one(self) -> Test:
        if self.accept("FALSE"):
            return lambda _: False
        if self.accept("("):
            test = self.any_of()
            assert self.accept(")")
            return test
        kind, column = self.left.pop(0)
        assert kind == "name", (kind, column)
        sign = self.left.pop(0)[1]
        if sign == "IN":
            values = [*self.values()]
            return lambda row: row[column] is not None and row[column] in values
        bound = self.value()
        return lambda row: row[column] is not None and _SIGNS[sign](comparable(row[column]), comparable(bound))

    def values(self) -> Iterator[Any]:
        assert self.accept("(")
        yield self.value()
        while self.accept(","):
            yield self.value()
        assert self.accept(")")

    def value(self) -> Any:
        kind, text = self.left.pop(0)
        match kind, text:
            case "string", _:
                return text
            case "number", _:
                return int(text)
            case "sign", "-":
                return -self.value()
            case "word", "TRUE" | "FALSE":
                return text == "TRUE"
            case "word", "DATE":
                return date.fromisoformat(self.value())
            case "word", "TIMESTAMP":
                moment = datetime.fromisoformat(self.value())
                assert moment.tzinfo is not None, "without a zone it is of the session's"
                return moment
            case "word", "TIMESTAMP_NTZ":
                return datetime.fromisoformat(self.value())
            case _:
                raise AssertionError(f"no value: {kind} {text}")

    def accept(self, text: str) -> bool:
        if self.left and self.left[0] in (("word", text), ("sign", text)):
            self.left.pop(0)
            return True
        return False


def comparable(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
}
