"""What one run knows about its asset from the definition."""

from dataclasses import dataclass

from lakehouse.code.code import Code
from lakehouse.cursor.mark import Mark
from lakehouse.declare.policy import Policy
from lakehouse.declare.table import Table
from lakehouse.errors import Adoption
from lakehouse.spark.snapshot import TableRef


@dataclass(frozen=True, slots=True)
class Asset:
    """What an asset's definition says about its table.

    Args:
        name: The asset key, its parts joined by "/".
        table: What it declares.
        ref: Where the table is.
        appends: Whether it returns an `Append`, which cannot take rows back.
        incremental: Whether it reads changes.
        inputs: The current names of the sources that it reads.
        code_version: Its code version.
        keeps_past: Whether it returns a `History`, whose past cannot be recomputed.
        takes_extracts: Whether it returns a `Snapshot`, which each run compares with the whole table.
        code: The code of its function; None if its code version stands for it, or if it cannot be read.
        policy: What a run may do: the table's policy, then the manager's.
    """

    name: str
    table: Table
    ref: TableRef
    appends: bool
    incremental: bool
    inputs: frozenset[str] = frozenset()
    code_version: str | None = None
    keeps_past: bool = False
    takes_extracts: bool = False
    code: Code | None = None
    policy: Policy = Policy()

    @property
    def adoption(self) -> Adoption:
        """How its first run can adopt a table that another program wrote."""
        if self.keeps_past:
            return "refuse"
        if self.takes_extracts:
            return "take the extract"
        return "go on" if self.appends else "compare"

    def must_record_code(self, mark: Mark) -> bool:
        """Whether a mark lacks the code or has another, so that it would be believed, or compared, more than once."""
        return self.code is not None and self.policy.new_code != "ignore" and not self.code.is_as_in(mark.code)

    def why_new_code(self, mark: Mark) -> str | None:
        """Which code is another than that of a mark, as half a sentence; None if none is, or if it decides nothing."""
        if self.code is None or self.policy.new_code == "ignore":
            return None
        return self.code.why_other(mark.code)
