"""`window(time, length, step)`: intervals that begin at equal steps; `session_window(time, gap)`: rows without a gap.

Spark: `TimeWindow`, `ResolveTimeWindows`; `SessionWindow`.
"""

import re
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.delta.log import UNITS
from lakehouse.views.algebra import Extend, Filter, Generate, Node, column, in_parentheses
from lakehouse.views.functions import TIME_WINDOWS
from lakehouse.views.sql.parsing import CALLED

_SESSION = "session_window"


@dataclass(frozen=True, eq=False, slots=True)
class TimeWindow:
    """The intervals that contain the times of a block's rows; a row is repeated for each interval around its time.

    Args:
        call: The call, as the text has it.
        start: The column of the start of an interval.
        end: The end of an interval; of a session, an aggregate of its rows.
        session: The call over the columns of the rows, if the intervals are sessions; else None.
    """

    call: Expr
    start: str
    end: Expression
    session: Expression | None = None

    @property
    def name(self) -> str:
        """The name of the function, and of the column that Spark makes of the call."""
        return str(self.call.meta[CALLED])

    def part(self, path: tuple[str, ...]) -> Expression | None:
        """The interval as a struct, or one of its two ends; None if there is no such part."""
        start = column(self.start)
        match tuple(name.lower() for name in path):
            case ():
                names = exp.Literal.string("start"), exp.Literal.string("end")
                return _call("named_struct", names[0], start, names[1], self.end)
            case ("start",):
                return start
            case ("end",):
                return self.end.copy()
            case _:
                return None


def call_of(select: exp.Select) -> exp.Anonymous | None:
    """The first call of one of the functions in the columns and the groups of a block; None if there is none."""
    group: exp.Group | None = select.args.get("group")
    for part in (*select.expressions, *([] if group is None else [group])):
        for call in part.find_all(exp.Anonymous):
            if is_call(call) and call.find_ancestor(exp.Query) is select:
                return call
    return None


def is_call(node: Expr) -> bool:
    """Whether a node calls one of the functions."""
    return node.meta.get(CALLED) in TIME_WINDOWS


_MOST = 100
"""A row may be in at most this many intervals."""


def in_windows(node: Node, call: exp.Anonymous, time: Expression, start: str) -> tuple[Node, TimeWindow] | None:
    """The rows of a node that have a time, repeated for each interval that contains it.

    None if the call does not write out valid durations, or if a row would be in too many intervals.

    Args:
        node: The rows.
        call: The call.
        time: The time of a row, a TIMESTAMP.
        start: The new column for the start of an interval.
    """
    length, *others = map(_microseconds, call.expressions[1:4])
    if call.meta[CALLED] == _SESSION:  # the groups of the block divide its rows into sessions
        if not length or others:
            return None
        session = _call(_SESSION, time, call.expressions[1])
        return _with_time(node, time), TimeWindow(call, start, _after(_call("max", time), length), session)
    step, first = (*others, *(length, 0)[len(others) :])
    if not length or not step or first is None or step > length or len(call.expressions) > 4:
        return None
    count = -(-length // step)
    if count > _MOST:
        return None
    micros = _call("unix_micros", time)
    last = _minus(micros, _call("pmod", _minus(micros, _number(first)), _number(step)))
    starts = [_call("timestamp_micros", _minus(last, _number(k * step))) for k in range(count)]
    window = TimeWindow(call, start, _after(column(start), length))
    rows = _with_time(node, time)
    if count == 1:
        return Extend(rows, {start: starts[0]}), window
    rows = Generate(rows, _call("explode", _call("array", *starts)), (start,))
    end = exp.Add(this=_call("unix_micros", column(start)), expression=_number(length))
    return (Filter(rows, (exp.LT(this=micros.copy(), expression=end),)) if length % step else rows), window


def _with_time(node: Node, time: Expression) -> Node:
    return Filter(node, (exp.not_(exp.Is(this=in_parentheses(time), expression=exp.null())),))


def _after(moment: Expression, length: int) -> Expression:
    """The moment that many microseconds later."""
    return _call("timestamp_micros", exp.Add(this=_call("unix_micros", moment), expression=_number(length)))


_UNIT = re.compile(rf"(\d{{1,9}})\s+({'|'.join(UNITS)})s?", re.IGNORECASE)
_DURATION = re.compile(rf"\s*(?:interval\s+)?{_UNIT.pattern}(?:\s+{_UNIT.pattern})*\s*", re.IGNORECASE)


def _microseconds(duration: Expression) -> int | None:
    """The microseconds of a duration that is written out, such as '1 hour 30 minutes'; None for any other."""
    if not isinstance(duration, exp.Literal) or not duration.is_string or not _DURATION.fullmatch(duration.name):
        return None
    lengths = ((int(count), timedelta(**{f"{unit.lower()}s": 1})) for count, unit in _UNIT.findall(duration.name))
    return sum(count * (unit // timedelta(microseconds=1)) for count, unit in lengths)


def _call(name: str, *arguments: Expression) -> exp.Anonymous:
    """A call of a Spark function, as the parser makes it from a text."""
    call = exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])
    call.meta[CALLED] = name
    return call


def _minus(one: Expression, other: Expression) -> Expression:
    return exp.Sub(this=one.copy(), expression=other.copy())


def _number(value: int) -> Expression:
    return exp.Literal.number(value)
