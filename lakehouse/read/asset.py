"""What one run knows about its asset: from the definition, from a user's run tags, and from its write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from lakehouse.cursor.digests import Code, QueryDigest
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.policy import Policy
from lakehouse.delta.table import Read, Table
from lakehouse.errors import Adoption, Allowed
from lakehouse.spark.table_version import TableRef

UNREAD = "unread"
"""The value of `UserRequest.thaw` that thaws the rows frozen since the last commit: their changes are still read."""


class PastRows(Enum):
    """What a write does with the rows that earlier runs left in its table."""

    COMPUTED = "computed"
    """Every row follows from the sources as they are now, so all rows can be computed again."""
    DELIVERED = "delivered"
    """The rows are those of the newest extract, with which each run compares them."""
    APPENDED = "appended"
    """Every row stays as it was added."""
    KEPT = "kept"
    """Current rows follow the source; rows of the past stay, even if the source no longer has them."""

    @property
    def is_final(self) -> bool:
        """Whether the rows that earlier runs wrote stay when the code or the definition changes."""
        return self in (PastRows.APPENDED, PastRows.KEPT)

    @property
    def is_comparable(self) -> bool:
        """Whether the table can be compared with its whole source."""
        return self is not PastRows.APPENDED


@dataclass(frozen=True, slots=True)
class Asset:
    """What an asset's definition says about its table.

    Args:
        name: The asset key, its parts joined by "/".
        table: What the asset declares about the table.
        ref: Where the table is.
        past: What its write does with the rows of earlier runs.
        read_options: The options of each source that it reads as changes, by the name of the source.
        inputs: The name of the source behind each input, by the name of the input.
        values: The sources that its function takes as values; its other inputs pass nothing to the function.
        code_version: Its code version.
        code: The code of its function; None if its code version stands for it, or if it cannot be read.
        policy: What a run may do: the table's policy, completed by the manager's.
        has_query: Whether its rows are the result of a query. Then touched keys are counted before a row is computed,
            and a change of a source's columns is a reason to compute the result again.
        follows_snapshot_inputs: Whether a snapshot input that moved is a reason to compute the result again.
        changes_are_kept: Whether a `History` or an `Append` reads the changes of the table and keeps each of them.
    """

    name: str
    table: Table
    ref: TableRef
    past: PastRows
    read_options: Mapping[str, Read] = field(default_factory=dict[str, Read])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    values: frozenset[str] = frozenset()
    code_version: str | None = None
    code: Code | None = None
    policy: Policy = Policy()
    has_query: bool = False
    follows_snapshot_inputs: bool = False
    changes_are_kept: bool = False

    @property
    def incremental(self) -> bool:
        """Whether it reads changes."""
        return bool(self.read_options)

    @property
    def adoption(self) -> Adoption:
        """How its first run can adopt a table that another program wrote."""
        match self.past:
            case PastRows.COMPUTED:
                return "compare"
            case PastRows.DELIVERED:
                return "take the extract"
            case PastRows.APPENDED:
                return "go on"
            case PastRows.KEPT:
                return "refuse"

    def position_in(self, reads: Mapping[str, Position], source: str, table_id: str) -> Position | None:
        """How far a source has been read. An `Append` also finds a renamed source by its table id.

        Otherwise a first read would add every row again. A copied directory has the same table id, so only names that
        the asset no longer reads count as former names.
        """
        if source in reads or self.past is not PastRows.APPENDED:
            return reads.get(source)
        current = frozenset(self.inputs.values())
        former = [at for was, at in reads.items() if was not in current]
        return next((at for at in former if at.table == table_id and not at.is_snapshot), None)

    def must_record_code(self, mark: Mark) -> bool:
        """Whether the code must be recorded: each run would believe a mark without it, and compare after other code."""
        return self.code is not None and self.policy.new_code != "ignore" and not self.code.is_as_in(mark.code)

    def why_new_code(self, mark: Mark) -> str | None:
        """Which code differs from that of a mark, as half a sentence; None if none does, or if code decides nothing."""
        if self.code is None or self.policy.new_code == "ignore":
            return None
        return self.code.why_other(mark.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What a user asks of a run, about one of its assets; by default nothing.

    Args:
        compare: Why a user asked to compare everything; None if no user did.
        go_on_from: The version of the source from which a refused `Append` continues, or "now"; for a `History`
            only "now".
        allowed: What is let through that would otherwise be refused.
        restate_from: From when a history is to be restated: a time, or the version of an extract.
        thaw: The condition that selects the frozen rows that the run may rewrite too, or `UNREAD`.
    """

    compare: str | None = None
    go_on_from: int | Literal["now"] | None = None
    allowed: frozenset[Allowed] = frozenset()
    restate_from: str | None = None
    thaw: str | None = None

    @property
    def overrides_mark(self) -> bool:
        """Whether the user has said what to do, so that a damaged mark is no reason to refuse the run."""
        return self.compare is not None or self.go_on_from is not None or "version" in self.allowed

    @property
    def decisions(self) -> tuple[str, ...]:
        """The parts of the request that the mark of the run's commit records."""
        restated = () if self.restate_from is None else (f"restated from {self.restate_from}"[:200],)
        thawed = () if self.thaw in (None, UNREAD) else (f"thawed {self.thaw}"[:200],)
        return *restated, *thawed, *(f"allowed {each}" for each in sorted(self.allowed))


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What a `View` reports about itself in a run.

    Args:
        computed: What was computed, and why, as a clause.
        followed: How its tables are followed, as sentences.
        lineage: For each column of the result, the columns of sources from which it takes its value, each as the name
            of the source and the name of the column.
    """

    computed: str
    followed: tuple[str, ...] = ()
    lineage: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict[str, tuple[tuple[str, str], ...]])


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """What a write reports for the mark of its commit and the page of its asset; each kind has its own parts.

    Args:
        extract: For extracts: the version of the extract that the table holds after this run.
        scope: For extracts: the digest of the scope; None also if the scope has too many values.
        columns: For a `Merge`: the digest of the columns of the result.
        query: For a `View`: its query, once the result is planned.
        sums: For a table of counts and sums: their digest.
        view: For a `View`: what it reports about itself.
        archives_source: For an `Append`: whether it adds the whole log of its one source.
    """

    extract: ExtractVersion | None = None
    scope: str | None = None
    columns: str | None = None
    query: QueryDigest | None = None
    sums: str | None = None
    view: ViewReport | None = None
    archives_source: bool = False


@dataclass(frozen=True, slots=True)
class OtherTable:
    """For a table its quarantine, for a quarantine its table, as the marks of both name it; empty without a quarantine.

    Args:
        version: The version of the quarantine that goes with the commit; in a quarantine's run, the table's version.
        quarantine: The table id of the quarantine.
        sets_all: Whether the run of a quarantine sets all of it (or of its partitions), not only the rows of some keys.
    """

    version: int | None = None
    quarantine: str | None = None
    sets_all: bool = False
