"""The check "recompute" of one table: which of its rows are compared, and with which versions of its sources."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import dagster as dg
from pyspark.sql import DataFrame

from lakehouse.cursor.beside import is_ahead
from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.definition import digest, partitions
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.mark import Position
from lakehouse.cursor.walk import Past
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.findings import FROZEN_SINCE, SHOWN, Finding, Grade
from lakehouse.dagster.definitions.past_checks import PART, PARTITION, differing, longest_waiting
from lakehouse.dagster.definitions.recompute import Part, Sample, parts, recompute, recomputed_rows, whole
from lakehouse.dagster.follow.followed import FollowedSource
from lakehouse.dagster.follow.partitions import SourcePartitions, slice_read
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.expect import RUN_ID, SUFFIX
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Head
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.text import fold
from lakehouse.difference.between_versions import diff_versions, is_same
from lakehouse.difference.expectations import split, with_numbers
from lakehouse.read.changes import Changes
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.fitting import fit
from lakehouse.spark.progress import watching
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.spark.types import partition_types

_DAY = 86_400_000


def compare(checked: Checked, sample: Sample) -> Finding:
    """Compares a table with a full recompute: all of it, the partition whose check is oldest, or some of the keys.

    A partition, or a part of the keys, that differed is compared again until it is right, so that other comparisons
    do not hide it.
    """
    asset = checked.table.asset
    assert asset is not None, "a table that no asset makes cannot be recomputed"
    if asset.partitions_def is None:
        return _Comparison(checked, asset, None, checked.cursor).finding(sample)
    past, keys = list(checked.past), list(map(str, asset.partitions_def.get_partition_keys()))
    cursors = cursor_of_each(checked.log, checked.head, checked.name, keys)
    wrong = next((key for key in differing(past) if key in cursors), None)
    partition = wrong or longest_waiting([key for key in keys if isinstance(cursors[key], Known)], past)
    if partition is None:
        return Finding.unavailable(f"No partition of '{checked.name}' has read its inputs yet.")
    cursor = find_cursor(checked.log, checked.head, checked.name, (partition,))
    finding = _Comparison(checked, asset, partition, cursor).finding(sample)
    if partition == wrong and finding.grade is Grade.WARNS:
        sentence = f"Partition {partition} differed when it was last compared. {finding.sentence}"
        finding = replace(finding, grade=Grade.FAILED, sentence=sentence)
    return replace(finding, figures={PARTITION: partition, **finding.figures})


@dataclass(frozen=True)
class _Input:
    """A source, and how far the rows that are compared have read it."""

    source: FollowedSource
    at: Position
    slice: Slice | None


@dataclass(frozen=True)
class _Comparison:
    """One comparison: of a table, or of one of its partitions, at a cursor."""

    checked: Checked
    asset: dg.AssetsDefinition
    partition: str | None
    cursor: Cursor

    def finding(self, sample: Sample) -> Finding:
        """What the comparison finds, or why it cannot be made now."""
        cursor, name = self.cursor, self.checked.name
        sources = {} if self.checked.followed is None else {s.key: s for s in self.checked.followed.sources}
        names = {source.ref.name for source in sources.values()}
        if self.checked.head is None or not isinstance(cursor, Known) or not names <= cursor.reads.keys():
            return Finding.unavailable(f"'{name}' has not read all its inputs yet.")
        if cursor.stale_base:
            return Finding.unavailable(
                f"'{name}' was written at the same time as a rival's commit: its next run looks at that again."
            )
        if self._is_quarantine_ahead(cursor):
            return Finding.unavailable(
                f"The quarantine of '{name}' is ahead of it, because a run ended in between: its next run makes up for "
                f"that."
            )
        inputs = {
            input_name: _Input(
                source, cursor.reads[source.ref.name], slice_read(self.asset, source.table, self.partition)
            )
            for input_name, key in self.checked.table.inputs.items()
            if (source := sources.get(key)) is not None
        }
        for read in inputs.values():
            reason = self._why_other(read)
            if reason is not None:
                return Finding.unavailable(f"There is nothing to compare with any more: {reason}.")
        versions = ", ".join(f"{source} at {at.version}" for source, at in sorted(cursor.reads.items()))
        try:
            return self._compare(inputs, versions, sample)
        except Exception as error:
            reason = why_unreadable(error)
            if reason is None:
                raise
            return Finding.unavailable(
                f"There is nothing to compare with any more: not all of {versions} can be read. {reason}"
            )

    def _why_other(self, read: _Input) -> str | None:
        """Why the source is no longer what was read, as a clause; None if it still is."""
        source, name = read.source.ref, self.checked.name
        head = source.log(self.checked.session).head()
        if head is not None and head.table_id != read.at.table:
            return f"another table has replaced '{source.name}' since '{name}' read it"
        mapped = None if read.slice is None else digest(partitions(read.slice))
        if mapped != read.at.mapped:
            return (
                f"partition {self.partition} of '{name}' had read other partitions of '{source.name}' than it would now"
            )
        return None

    def _compare(self, inputs: dict[str, _Input], versions: str, sample: Sample) -> Finding:
        checked, spark, head = self.checked, self.checked.session(), self.checked.head
        assert head is not None
        read = {name: self._read(input_) for name, input_ in inputs.items()}
        rows, table = recomputed_rows(self.asset, read, TableVersion.of(spark, checked.ref, head).rows())
        if checked.table.declared.policy.within(checked.io_manager.policy).new_columns == "ignore":
            rows = rows.drop(*(column for column in rows.columns if column.lower() not in fold(table.columns)))
        expected = fit(checked.ref, rows, table.schema, may_add=False)
        with watching(spark, f"comparing {checked.name} with a full recompute"):
            key, holds = checked.table.declared.key_columns, None
            where, of = self._where(table)
            if where is not None:
                expected, table = expected.where(where), table.where(where)
            part = self._part(table, sample) if key else Part()
            if not part.is_all:
                holds, of = part.holds(key, table.schema), f"{of} (part {part} of the keys)"
            expected, table = self._split(expected, table, where)
            if checked.table.declared.quarantines:
                of = f"{of or ' of the table'} and of its quarantine"
            if holds is not None:
                expected, table = expected.where(holds), table.where(holds)
            finding = recompute(checked.name, expected, table, key, versions, of)
            if holds is not None:
                finding = replace(finding, figures={PART: str(part), **finding.figures})
            return finding if where is None or self.partition is not None else self._with_past(finding, head)

    def _with_past(self, finding: Finding, head: Head) -> Finding:
        """The finding with what became of the rows that no run has owned since the last comparison.

        If they changed, the next comparison begins at the same version again, so that it does not hide what was found.
        """
        from lakehouse.views.on_spark.owned_rows import rewritable_since  # it imports sqlglot

        checked, cursor = self.checked, self.cursor
        owned = cursor.mark.owned if isinstance(cursor, Known) else None
        assert owned is not None, "every row was compared"
        last = next(filter(None, (made.text(FROZEN_SINCE) for made in checked.past)), str(head.version))
        past = Past.of(checked.log, head)
        since, rewritable = rewritable_since(past, checked.name, int(last), owned)
        after = replace(
            TableVersion.of(checked.session(), checked.ref, head), where=f"NOT coalesce({rewritable}, FALSE)"
        )
        before = replace(after, version=since)
        try:
            if since >= head.version or is_same(before, after):
                return finding.with_frozen(checked.name, since, head.version)
            diff = diff_versions(before, after, checked.table.declared.key_columns, SHOWN)
        except Exception as error:
            reason = why_unreadable(error)
            if reason is None:
                raise
            grade = Grade.WARNS if finding.grade is Grade.PASSED else finding.grade
            unknown = f"Whether its frozen rows stayed as they were at version {since} is not known: {reason}"
            figures = {**finding.figures, FROZEN_SINCE: str(head.version)}
            return Finding(grade, f"{finding.sentence.rstrip('.')}. {unknown}", figures, finding.records)
        return finding.with_frozen(checked.name, since, head.version, diff.counts, [row.key for row in diff.rows])

    def _where(self, table: DataFrame) -> tuple[str | None, str]:
        """The condition of the rows that are compared, and a clause about them; None if all rows are compared.

        Of a table that owns only some rows, those that its last run could rewrite, and so has made equal, are compared.
        """
        own = None if self.partition is None else self.checked.table.slice([self.partition])
        if own is not None:
            return own.predicate(partition_types(table.schema)), f" of partition {self.partition}"
        texts = self.cursor.mark.owned if isinstance(self.cursor, Known) else None
        if texts is None:
            return None, ""
        from lakehouse.views.sql.owned_text import owned_at  # it imports sqlglot

        moment = datetime.fromisoformat(texts["moment"])
        where = owned_at(self.checked.name, texts["where"], moment, texts.get("thaw")).predicate()
        return where, f" with {where}"

    def _split(self, expected: DataFrame, table: DataFrame, where: str | None) -> tuple[DataFrame, DataFrame]:
        """The expected rows of the table and of its quarantine together, and the rows that both hold."""
        checked, declared = self.checked, self.checked.table.declared
        judged = split(checked.name, expected, declared.key_columns, declared.expectations)
        if judged.rejected is None:
            return judged.taken, table
        rejected, (ref, head) = with_numbers(judged.rejected, declared.key_columns), self._quarantine
        stored = rejected.limit(0)
        if head is not None:
            stored = TableVersion.of(checked.session(), ref, head).rows().drop(RUN_ID)
            stored = stored if where is None else stored.where(where)
        return (
            judged.taken.unionByName(rejected, allowMissingColumns=True),
            table.unionByName(stored, allowMissingColumns=True),
        )

    @property
    def _quarantine(self) -> tuple[TableRef, Head | None]:
        ref = self.checked.ref.beside(SUFFIX)
        return ref, ref.log(self.checked.session).head()

    def _is_quarantine_ahead(self, cursor: Known) -> bool:
        """Whether the quarantine of the table has rows of a run that has not written the table."""
        if not self.checked.table.declared.quarantines:
            return False
        ref, head = self._quarantine
        keys = () if self.partition is None else (self.partition,)
        return head is not None and is_ahead(ref.log(self.checked.session), head, ref.name, cursor, keys)

    def _part(self, table: DataFrame, sample: Sample) -> Part:
        """The part of the keys whose turn it is, given the part that was compared last."""
        head = self.checked.head
        live = None if head is None or self.partition is not None else self.checked.log.live_rows(head.version)
        of = parts(table.count() if live is None else live, sample)
        if of == 1:
            return Part()
        for check in self.checked.past:
            text = check.text(PART) if check.text(PARTITION) == self.partition else None
            last = None if text is None else Part.parse(text)
            if last is not None:
                return last.again(of) if check.differs else last.following(of)
        return Part(self.checked.now // _DAY % of, of)

    def _read(self, read: _Input) -> Changes:
        source, partition = read.source, self.partition
        log = source.ref.log(self.checked.session)
        head = log.head()
        if read.slice is None or partition is None or head is None or not isinstance(log, FileLog):
            return whole(self.checked.session(), source.ref, read.at, read.slice)
        own = frozenset((partition,))
        of_partition = SourcePartitions.of(self.asset, own, source.table, log, head)

        def concerning(commits: Sequence[Commit]) -> Sequence[Commit]:
            changed = of_partition.changed_by(commits)
            return commits if changed is None else changed.get(partition, ())

        return whole(self.checked.session(), source.ref, read.at, read.slice, concerning)
