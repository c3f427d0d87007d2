"""When each table was last compared with a recompute, by the event log of Dagster."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.cli.command import DAGSTER_HOME
from lakehouse.errors import in_short

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import CodeLocation
    from lakehouse.dagster.definitions.past_checks import MadeCheck


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of a table's comparisons with a recompute.

    Args:
        at: When the last one was made, in milliseconds since the epoch; None if none was.
        equal: Whether the table was right then; None if none was made.
        of: What was compared, if not the whole table: a partition, a part of the keys.
        impossible: Why no recompute says what the table must hold; None if one does.
    """

    at: int | None = None
    equal: bool | None = None
    of: str = ""
    impossible: str | None = None

    def __str__(self) -> str:
        if self.impossible is not None:
            return "cannot be"
        if self.at is None:
            return "never"
        return f"{'equal' if self.equal else 'DIFFERENT'}{f' ({self.of})' if self.of else ''}"


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of the tables.

    Args:
        by_table: Those of each table that an asset makes; without those that only Dagster would know, if it is unknown.
        unknown: Why Dagster's event log is not at hand, as a clause; None if it is.
    """

    by_table: dict[str, Comparison]
    unknown: str | None = None


def comparisons(code_location: "CodeLocation") -> Comparisons:
    """When each table of a code location was last compared, by the instance of Dagster that `DAGSTER_HOME` names."""
    import dagster as dg

    from lakehouse.dagster.definitions.past_checks import last_compared
    from lakehouse.dagster.definitions.recompute import why_not_recomputed

    made = (table for table in code_location.tables.values() if table.asset is not None)
    reasons = {table.key: why_not_recomputed(table) for table in made}
    impossible = {key.to_user_string(): Comparison(impossible=why) for key, why in reasons.items() if why is not None}
    if not os.environ.get(DAGSTER_HOME):
        return Comparisons(impossible, f"the variable {DAGSTER_HOME} is not set")
    try:
        with dg.DagsterInstance.get() as instance:
            made = {key: last_compared(instance, key) for key, why in reasons.items() if why is None}
    except Exception as error:  # its storage may be anywhere, and the logs of the tables say the rest all the same
        return Comparisons(impossible, in_short(error))
    return Comparisons(impossible | {key.to_user_string(): _comparison(last) for key, last in made.items()})


def _comparison(last: "MadeCheck | None") -> Comparison:
    from lakehouse.dagster.definitions.past_checks import PART, PARTITION

    if last is None:
        return Comparison()
    named = ((PARTITION, last.text(PARTITION)), (PART, last.text(PART)))
    of = ", ".join(f"{name} {text}" for name, text in named if text is not None)
    return Comparison(int(last.at * 1000), last.evaluation.passed, of)
