"""Looking at logs costs in proportion to what there is to look at: counted in lines of each function, not in time."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import lakehouse
from benchmarks.suites.scale import GROWN, Lake, in_turn
from lakehouse.delta import log_files
from lakehouse.delta.limits import Limits, in_force
from tests.support.for_each import for_each

SIZES = (12, 24)
FACTOR, FEW = 2.6, 100
"""By how much a function's lines may grow when there is twice as much, and how many lines it may run at any size."""
LOOKS = [(what, look) for what, (_, looks) in GROWN.items() for look in looks]


def lines_of(act: Callable[[], None]) -> Counter[tuple[str, str]]:
    """How many lines of each function of the library are run."""
    package, counts = str(Path(lakehouse.__file__).parent), Counter[CodeType]()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(package):
            return None
        counts[frame.f_code] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    lines = Counter[tuple[str, str]]()
    for code, count in counts.items():
        lines[code.co_filename.removeprefix(package), f"{code.co_qualname}:{code.co_firstlineno}"] += count
    return lines


@pytest.mark.timeout(600)
@for_each("what, look", LOOKS)
def test_twice_as_much_to_look_at_takes_twice_as_many_lines_of_each_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, look: str
) -> None:
    monkeypatch.setattr(log_files, "KEPT", 0)  # otherwise few tables stay open, and many do not
    counted = list[Counter[tuple[str, str]]]()
    for size in SIZES:
        lake = Lake(tmp_path / what.replace(" ", "-") / look / str(size))
        GROWN[what][0](lake, size)
        act: Callable[[], None] = getattr(lake, look)
        with in_turn(), in_force(Limits(commits_ahead=4)):
            act()
            counted.append(lines_of(act))
    small, large = counted
    assert large, "no line of the library ran"
    too_many = {place: (small[place], n) for place, n in large.items() if n > max(FEW, FACTOR * small[place])}
    assert too_many == {}
