"""What one run has pinned before it computes anything, and the positions from which it continues."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.cuts import Agreement
from lakehouse.cursor.definition import TRACK, Definition, digest, partial_sources
from lakehouse.cursor.generation import application_id
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.unread import why_passed
from lakehouse.delta.commit_info import Rows
from lakehouse.delta.log import Head, Size, total, version_of
from lakehouse.delta.owned import Owned
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.table import Table
from lakehouse.read.asset import Asset, OtherTable, PastRows, UserRequest, WriteFacts
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.read.decide import Reconcile, Refuse, computes_everything, warning_of_new_code
from lakehouse.read.feed_trust import Source
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.spark.types import partition_types


class CommitReason(Enum):
    """Why a commit is due although no row differs, as a sentence: what a later run would otherwise do again."""

    SNAPSHOT_INPUT = "A snapshot input has moved."
    DECIDED = "What a run tag decided is recorded."
    NO_POSITION = "The table has no position yet."
    EXTRACT = "The version of the extract is recorded."
    LOG_CLEANUP = "Log cleanup could reach its last position, so the position is recorded again."
    CONTINUED = "A run tag says where it goes on."
    STALE_BASE = "Another writer committed just before its last commit, which was looked at again."
    REDEFINED = "The definition changed in a part that decides no row."
    COLUMNS = "The columns of a source changed, for which names of its query may stand."
    STANDS_FOR = "What the table stands for moves, and its siblings go by that."
    PASSED = "A position moves over commits that are not looked at again."


@dataclass(frozen=True, slots=True)
class Run:
    """One materialization of one asset, up to its commit.

    Args:
        asset: The asset.
        run_id: Dagster's id of the run.
        aliases: Ids of unacknowledged runs that this run repeats; a commit of such a run counts as its own.
        cursor: How far the table had read when the run began.
        head: Where the table stood when the run began; None if there was no table.
        changes: The inputs read as changes.
        snapshots: The sources read as a plain `DataFrame`, by their names.
        sources: The pinned sources of all inputs, by their names.
        slice: The partitions that the run writes; None for all of the table.
        owned: The rows that the run may rewrite; None if it may rewrite all, as in a run that begins a table.
        definition: What decides which rows the run is about, part by part.
        together: What is decided for all inputs at once; None if each input continues from its own position.
        request: What a user asks of the run by its tags.
        must_record: Whether to commit even if no row differs, because log cleanup could reach the last mark, or the
            commits after a position; or because extracts of several scopes have one version.
        sizes: How much each input holds; None if that is unknown, or if its feed is read.
        facts: What the write of the asset reports about itself; empty before the asset's function has returned.
        other_table: The quarantine of the table; in the run of a quarantine, its table.
        agreement: How far its inputs are read so that they agree; empty if they need not.
    """

    asset: Asset
    run_id: str
    cursor: Cursor
    head: Head | None = None
    aliases: frozenset[str] = frozenset()
    changes: tuple[SourceRead, ...] = ()
    snapshots: Mapping[str, TableVersion] = field(default_factory=dict[str, TableVersion])
    sources: Mapping[str, Source] = field(default_factory=dict[str, Source])
    slice: Slice | None = None
    owned: Owned | None = None
    definition: Definition = field(default_factory=dict[str, str])
    together: Reconcile | Refuse | None = None
    request: UserRequest = field(default_factory=UserRequest)
    must_record: bool = False
    sizes: tuple[Size | None, ...] = ()
    facts: WriteFacts = WriteFacts()
    other_table: OtherTable = OtherTable()
    agreement: Agreement = Agreement()

    def with_facts(self, **facts: Any) -> "Run":
        """The same run with more of what its write reports about itself."""
        return replace(self, facts=replace(self.facts, **facts))

    def with_read(self, read: SourceRead, source: Source, now: int) -> "Run":
        """The same run once it has read the changes of an input; `now` in milliseconds since the epoch."""
        # A long history may hold more changes than the source has rows.
        size = source.log.size() if read.read_no_feed else None
        return replace(
            self,
            changes=(*self.changes, read),
            sources={**self.sources, source.at.ref.name: source},
            sizes=(*self.sizes, size),
            must_record=self.must_record or why_passed(read.commits, now) is not None,
        )

    def with_snapshot(self, source: Source) -> "Run":
        """The same run once a snapshot input is pinned."""
        name = source.at.ref.name
        return replace(
            self,
            snapshots={**self.snapshots, name: source.at},
            sources={**self.sources, name: source},
            sizes=(*self.sizes, source.log.size()),
        )

    def with_table(self, table: Table) -> "Run":
        """The same run with its table declared in more detail, by what the asset returned."""
        return replace(self, asset=replace(self.asset, table=table))

    @property
    def name(self) -> str:
        """The asset key, its parts joined by "/"."""
        return self.asset.name

    @property
    def table(self) -> Table:
        return self.asset.table

    @property
    def ref(self) -> TableRef:
        return self.asset.ref

    @property
    def began_at(self) -> int:
        """The version of the table when the run began; `NO_TABLE` if there was none."""
        return version_of(self.head)

    @property
    def inputs(self) -> Size | None:
        """How much its inputs hold together; None if there are none, or if one size is unknown."""
        return total(self.sizes)

    @property
    def compares_everything(self) -> bool:
        return isinstance(self.together, Reconcile)

    @property
    def continued_from(self) -> str | None:
        """What a run tag had an `Append` or a `History` continue from, and why; None without such a tag."""
        if self.asset.past is PastRows.KEPT and self.request.go_on_from is not None:
            return "went on from now"
        refusals = [changes.refusal for changes in self.changes if changes.refusal is not None]
        return f"went on from {self.request.go_on_from}: {refusals[-1]}"[:200] if refusals else None

    @property
    def new_code(self) -> str | None:
        """The warning about code that changed, if nothing is compared because of that; else None."""
        return warning_of_new_code(self.asset, self.cursor, self.definition, self.together)

    def leaves_out(self, source: str) -> bool:
        """Whether the run does not read every change of a source."""
        return source in partial_sources(self.definition)

    @property
    def partitions(self) -> tuple[str, ...]:
        return self.slice.keys if self.slice is not None else ()

    def within(self, schema: StructType, prefix: str = "") -> str | None:
        """The condition on rows that the run may write: in its partitions, or owned; None if it may write all rows."""
        if self.slice is not None:  # a partitioned table owns all its rows
            return self.slice.predicate(partition_types(schema), prefix)
        return None if self.owned is None else self.owned.predicate(prefix)

    @property
    def may_change_sides(self) -> bool:
        """Whether the row of a key can be owned in the result and frozen in the table, or the reverse."""
        key = self.table.key_columns
        return bool(key) and self.owned is not None and not self.owned.follows_from(key)

    def read_of(self, input_name: str) -> SourceRead | TableVersion | None:
        """What the run reads of an input's source: its changes, or a snapshot; None if the input is not a table."""
        source = self.asset.inputs.get(input_name)
        changes = next((each for each in self.changes if each.name == source), None)
        return self.snapshots.get(source) if changes is None and source is not None else changes

    @property
    def snapshot_inputs(self) -> dict[str, Position]:
        """The positions of the sources read as a plain `DataFrame`."""
        return {
            name: Position(at.table_id, at.version, is_snapshot=True, mapped=at.mapped)
            for name, at in self.snapshots.items()
        }

    @property
    def reads(self) -> dict[str, Position]:
        """Every source's position once this run has committed."""
        positions = {**self._former_reads, **self.snapshot_inputs}
        for changes in self.changes:
            at = changes.source_at
            time = None if changes.times is None else changes.times.upto
            positions[changes.name] = Position(
                at.table_id, changes.range.upto, mapped=at.mapped, time=time, commit=changes.newest
            )
        return positions

    @property
    def _former_reads(self) -> dict[str, Position]:
        """The positions of sources that an `Append` no longer reads; they are kept, because its rows from them stay."""
        if self.asset.past is not PastRows.APPENDED:
            return {}
        read = {changes.name for changes in self.changes} | self.snapshot_inputs.keys()
        tables = {changes.source_at.table_id for changes in self.changes}
        return {
            name: at
            for name, at in self.cursor.reads.items()
            if name not in read and at.table not in tables and not at.is_snapshot
        }

    @property
    def _decisions(self) -> str | None:
        """What run tags decided, for the mark."""
        continued = () if self.continued_from is None else (self.continued_from,)
        return "; ".join((*continued, *self.request.decisions)) or None

    @property
    def application_id(self) -> str:
        return application_id(self.name, self.partitions, self.cursor.generation)

    def commit_reason(self) -> CommitReason | None:
        """Why a run commits although no source has changes; None if it has nothing to do.

        Snapshot inputs that moved count only if the run also reads changes, because a run that reads none compares its
        whole result every time.
        """
        if self.asset.follows_snapshot_inputs and self.changes and self.snapshot_inputs_moved:
            return CommitReason.SNAPSHOT_INPUT
        if self.request.decisions:
            return CommitReason.DECIDED
        if not isinstance(self.cursor, Known):
            return CommitReason.NO_POSITION if self.changes or self.cursor.epoch == 0 else None
        if self.facts.extract != self.cursor.mark.extract:
            return CommitReason.EXTRACT
        if self.is_redefined:
            return CommitReason.REDEFINED
        if self.asset.has_query and self.columns_changed:
            return CommitReason.COLUMNS
        if self.must_record:
            return CommitReason.LOG_CLEANUP
        if self.continued_from is not None:
            return CommitReason.CONTINUED
        if self.cursor.stale_base:
            return CommitReason.STALE_BASE
        if self.agreement.moves:
            return CommitReason.STANDS_FOR
        reads, is_read_whole = self.reads, computes_everything(self.asset)
        passes = any(
            changes.name not in self.cursor.reads
            or (_moves(changes) and not (is_read_whole and reads[changes.name] == self.cursor.reads[changes.name]))
            for changes in self.changes
        )
        return CommitReason.PASSED if passes else None

    def is_due(self) -> bool:
        """Whether a commit is due although no row of the result differs: also for a snapshot input that moved."""
        return bool(self.changes and self.snapshot_inputs_moved) or self.commit_reason() is not None

    def has_nothing_to_do(self) -> bool:
        """Whether the table already holds the result: no source has changes, and no commit is due."""
        if computes_everything(self.asset) or self.unversioned_inputs:
            return False
        return bool(self.changes) and self.commit_reason() is None

    @property
    def unversioned_inputs(self) -> frozenset[str]:
        """The inputs that other IO managers read, if the result is computed again when a snapshot input has moved.

        No version shows whether such an input has changed.
        """
        if not self.asset.follows_snapshot_inputs:
            return frozenset()
        return self.asset.values - {changes.name for changes in self.changes} - self.snapshots.keys()

    @property
    def is_redefined(self) -> bool:
        """Whether the newest mark has another definition, other code or another query, or lacks the code.

        Only the code version counts if the run reads no changes.
        """
        if not isinstance(self.cursor, Known):
            return False
        mark = self.cursor.mark
        reads_changes = bool(self.changes) or self.asset.incremental
        if mark.code_version != self.asset.code_version or self.facts.query not in (None, mark.query):
            return True
        return reads_changes and (mark.definition != self.definition or self.asset.must_record_code(mark))

    @property
    def snapshot_inputs_moved(self) -> bool:
        """Whether a snapshot input stands at another version than when the table was last written."""
        return any(self.cursor.reads.get(source) != at for source, at in self.snapshot_inputs.items())

    @property
    def source_columns(self) -> str | None:
        """The digest of all columns of the sources at the versions read; None if a log does not show them."""
        at = {changes.name: changes.source_at for changes in self.changes} | dict(self.snapshots)
        schemas = {name: source.log.file_schema(at[name].version) for name, source in self.sources.items()}
        types = {name: list(schema.types.items()) for name, schema in schemas.items() if schema is not None}
        return digest(types) if types.keys() == schemas.keys() else None

    @property
    def columns_changed(self) -> bool:
        """Whether a source has other columns than at the position, whether or not a row changed with them."""
        query = self.cursor.mark.query if isinstance(self.cursor, Known) else None
        columns = None if query is None else self.source_columns
        return query is not None and columns is not None and columns != query.columns

    def is_own(self, mark: Mark) -> bool:
        return mark.run == self.run_id or mark.run in self.aliases

    def mark(
        self,
        attempt: str,
        base: int,
        *,
        compared: bool,
        log_after: int | None = None,
        rows: Rows | None = None,
        lost_to: tuple[int, ...] = (),
    ) -> Mark:
        """The mark of an attempt; its arguments are those of `Mark`."""
        return Mark(
            asset=self.name,
            partitions=self.partitions,
            generation=self.cursor.generation,
            epoch=self.cursor.epoch + 1,
            run=self.run_id,
            attempt=attempt,
            base=base,
            code_version=self.asset.code_version,
            reads=self.reads,
            compared=compared,
            key=self.table.key_columns if compared or TRACK in self.definition else (),
            aggregate=self.facts.sums,
            log_after=log_after,
            everything=self.other_table.sets_all or (compared and any(changes.is_initial for changes in self.changes)),
            definition=self.definition,
            decided=self._decisions,
            extract=self.facts.extract,
            scope=self.facts.scope,
            columns=self.facts.columns,
            query=self.facts.query,
            code=self.asset.code,
            rows=rows,
            beside=self.other_table.version,
            quarantine=self.other_table.quarantine,
            lost_to=lost_to,
            owned=self.owned and self.owned.texts,
        )


def _moves(changes: SourceRead) -> bool:
    """Whether the range contains something that the next run should not look at again."""
    has_rows = any(not commit.is_quiet for commit in changes.commits)  # some may have been left out
    is_batch = changes.behind > 0 and not changes.range.is_empty
    return not isinstance(changes.content, Nothing) or has_rows or is_batch
