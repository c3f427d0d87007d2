"""Slowly changing dimensions from events, with the parameters and the meaning of AUTO CDC.

A source that has only its current rows has no events: its history is kept by `History` (lakehouse/writes/history.py).

In: every event of some keys, in any order. Out: `Events`, which a `Merge(events, touched)` commits: from `type1` the
current rows of the keys, from `type2` their rows with intervals.
Law: the result depends on the events alone, not on the order in which they arrived, nor on how they were batched.
Read: columns, events, dimensions.
"""

from lakehouse.scd.dimensions import as_of, type1, type2
from lakehouse.scd.events import Events

__all__ = ["Events", "as_of", "type1", "type2"]
