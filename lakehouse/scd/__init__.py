"""Slowly changing dimensions from events: DataFrame to DataFrame, with the parameters and the meaning of AUTO CDC.

In: every event of some keys, in any order. Out: `type1` their current rows, `type2` their rows with intervals.
Law: the result depends on the events alone, not on the order in which they arrived, nor on how they were batched.
Read: columns, events, ignored_nulls, current, intervals.
"""

from lakehouse.scd.current import type1
from lakehouse.scd.intervals import type2

__all__ = ["type1", "type2"]
