"""An exception of Spark, Delta or the connection: its causes, its own sentence, and whose words it contains.

Such exceptions arrive wrapped in Spark, Py4J or streaming errors, so the causes are walked. A text is evidence only
if Spark, Delta or the connection wrote it: what an asset's own expression or function says (a UDF's traceback,
`raise_error`, a value that cannot be cast) may contain any word and means nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WIRE = frozenset({"pyspark", "py4j", "grpc", "delta"})
_PYTHON = re.compile(r"[\w.]*python\.PythonException|Traceback \(most recent call last\)")
_OF_THE_ASSET = re.compile(r"SQLSTATE: (?:21|22|23|38|39|42|P0)")
"""SQL's classes for faults of data, constraints, functions and names: they come with the expression."""
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.([A-Z0-9_]+))?\]")
_SHOWS_TRACE = "_display_stacktrace"
"""Of an exception of Spark Connect: whether its text ends with the JVM's stack trace."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one exception says, without the asset's own words.

    Args:
        sentence: What Spark, Delta or the wire say in it.
        trace: The same with the Java stack trace, where the exception brings one.
        condition: Spark's or Delta's error condition.
        of_the_asset: Whether they say that the asset's own expression or function failed.
    """

    sentence: str
    trace: str
    condition: str | None
    of_the_asset: bool

    @classmethod
    def of(cls, error: BaseException) -> "Evidence":
        sentence, of_the_asset = _spoken(error, message(error))
        trace, _ = _spoken(error, _text(error))
        return cls(sentence, trace, _condition(error, sentence), of_the_asset)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and all of its causes, outermost first, each once."""
    visited: set[int] = set()
    queue: list[Any] = [error]
    while queue:
        current = queue.pop(0)
        if not isinstance(current, BaseException) or id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        queue += [current.__cause__, getattr(current, "_cause", None), current.__context__]
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions  # pyright: ignore[reportUnknownMemberType]


def message(error: BaseException) -> str:
    """The exception's own sentence, without a JVM stack trace where the class keeps it apart."""
    description = getattr(error, "_desc", None)
    return str(description) if description else _text(error)


def first_line(error: BaseException) -> str:
    """The line that says what went wrong, for a message: a Python function's line, or a JVM's deepest line."""
    text = message(error).strip()
    python = _TRACEBACK.search(text)
    if python is not None:
        return python.group(1)[:400]
    lines = text.splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling"):
        lines = [line.split(": ", 1)[1] for line in lines if line.startswith((": ", "Caused by: "))][-1:] or lines
    return lines[0][:400]


def without_jvm_trace(error: BaseException) -> None:
    """Leaves the JVM's stack trace out of the text of an error and of its causes, where Spark Connect keeps it apart.

    The asset's expression is at fault, and no line of the JVM's trace is about that expression.
    """
    for cause in causes(error):
        if hasattr(cause, _SHOWS_TRACE):
            setattr(cause, _SHOWS_TRACE, False)


def is_of_the_asset(error: BaseException) -> bool:
    """Whether Spark says that the asset's own expression or function failed."""
    return any(Evidence.of(cause).of_the_asset for cause in causes(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Py4J and PySpark ask the JVM for the text, and the JVM may be what was lost.
        return f"{type(error).__name__}{error.args}"


def _spoken(error: BaseException, text: str) -> tuple[str, bool]:
    """What of a text Spark, Delta or the wire say, and whether they say that the asset's own expression failed."""
    if type(error).__name__ == "PythonException":
        return "", True
    if type(error).__module__.split(".", maxsplit=1)[0] not in _WIRE:
        return "", False
    text = f"{type(error).__name__}: {text}"  # some classes say all by their name
    python = _PYTHON.search(text)
    return (text, _OF_THE_ASSET.search(text) is not None) if python is None else (text[: python.start()], True)


def _condition(error: BaseException, text: str) -> str | None:
    getter = getattr(error, "getCondition", None)
    try:
        condition = getter() if callable(getter) else None
    except Exception:  # It asks the JVM.
        condition = None
    if isinstance(condition, str):
        return condition
    match = _CONDITION.search(text)
    return None if match is None else ".".join(part for part in match.groups() if part)
