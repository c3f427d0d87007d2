"""`View`: the table is the result of a query over the inputs, of which a run computes the keys that may differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import currentframe
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from pyspark.sql import DataFrame, SparkSession

from lakehouse.conflicts.operations import Operation
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.query_digest import QueryDigest
from lakehouse.delta.log import Head, rows_about
from lakehouse.delta.policy import Policy
from lakehouse.difference.statements import Planned, Skip
from lakehouse.errors.views import ViewError
from lakehouse.read.asset import PastRows
from lakehouse.read.content import SourceRead
from lakehouse.read.decide import (
    STRICT_REMEDY,
    NeedOfAllRows,
    PolicyAnswer,
    Reconcile,
    Refuse,
    answer_by_policy,
    why_other_query,
)
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey
from lakehouse.spark.listeners import Message, tell
from lakehouse.spark.session import interpreting
from lakehouse.views.view_text import Origin, ViewText, refusal_of_a_part, with_place
from lakehouse.writes.aggregate import add_or_recompute
from lakehouse.writes.incremental_sums import (
    NO_SUMS_YET,
    counts_and_sums,
    may_keep_sums,
    sums_of_view,
    why_no_sums_yet,
    why_recomputed,
)
from lakehouse.writes.merge import Merge
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.sums import Sums
from lakehouse.writes.write import Basis, Declaration, Write, rest_of

if TYPE_CHECKING:
    from lakehouse.views.analysis import Analysis, CheckedView, Verdict, Whole
    from lakehouse.views.on_spark.bound_text import BoundText
    from lakehouse.views.on_spark.computing import Computed

_NOT_INCREMENTAL = "VIEW_NOT_INCREMENTAL"
_WITHOUT_KEYS: Mapping[PolicyAnswer, Callable[[str], str]] = {
    PolicyAnswer.COMPUTED: "Keys alone are not enough: {}.".format,
    PolicyAnswer.WARNED: "Keys alone are not enough, and a run that changes reach warns of that: {}.".format,
    PolicyAnswer.REFUSED: (
        "Keys alone are not enough, and refresh='strict' refuses a run that changes reach: {}.".format
    ),
}
"""What `explain` says where changes need more than the rows of keys."""


@final
@dataclass(frozen=True)
class View(Write):
    """The table is the result of this query over the asset's inputs, which are its tables by their names.

    Inputs read as `Changes` are followed. A `DataFrame` input is a snapshot: rows that were already written do not
    follow its changes. A run computes the rows of the keys that the changes may have touched, with the query itself,
    and writes those that differ. Everything is computed and compared if the keys cannot be known.

    Args:
        query: One query of Spark SQL.
        args: The values of Spark's named parameters in it.
        touch: The column of the result by which changes are followed, or several; None for those that cost least.

    Raises:
        TypeError: Something else than text.

    Recomputing affected keys: Gupta and Mumick, "Maintenance of Materialized Views" (1995).
    """

    query: str | ViewText
    args: Mapping[str, Any] | None = None
    touch: str | Sequence[str] | None = None

    needs_key = False
    past = PastRows.COMPUTED
    ends_early = False
    follows_snapshot_inputs = False
    counts_touched_keys = True
    follows_columns = True
    why_all_rows = None

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.query), str | ViewText):
            raise TypeError(f"The argument `query` of View is SQL text, and not: {type(self.query).__name__}.")

    @classmethod
    def of(
        cls, path: str | Path, args: Mapping[str, Any] | None = None, touch: str | Sequence[str] | None = None
    ) -> "View":
        """A view whose query is in a file, without a head.

        Args:
            path: The file; a path that is not absolute begins at the folder of the calling file.
            args: The values of Spark's named parameters in the query.
            touch: As of `View`.

        Raises:
            ViewError: There is no such file, or it holds a statement with a head.
        """
        from lakehouse.views.files.query_file import calling_file, read_query

        return cls(read_query(path, calling_file(currentframe())), args, touch)

    @cached_property
    def text(self) -> ViewText:
        """The query with its arguments and what its file says of it."""
        text = self.query if isinstance(self.query, ViewText) else ViewText(self.query)
        touch = (self.touch,) if isinstance(self.touch, str) else tuple(self.touch or text.touch)
        return replace(text, args={**text.args, **(self.args or {})}, touch=touch)

    def check(
        self,
        schemas: Mapping[str, Mapping[str, str]],
        keys: Mapping[str, tuple[str, ...]] | None = None,
        policy: Policy = Policy(),
    ) -> "CheckedView":
        """How the view would follow tables of these columns, none of which is small: for a test, without Spark.

        Args:
            schemas: For each table of the text, its columns, and their types as Spark's `simpleString()` has them.
            keys: The keys of tables, where they have one.
            policy: That of its table, if the test is to fail where a run would be refused.

        Raises:
            ViewError: A view cannot be kept of the text, or the policy forbids what its changes need.
        """
        from lakehouse.views.analysis import check_text

        checked = check_text(self.text, schemas, keys or {})
        is_strict = answer_by_policy(NeedOfAllRows.PLAN, policy.chosen_refresh) is PolicyAnswer.REFUSED
        if is_strict and checked.why_whole is not None:
            raise refusal(self.text, f"Keys alone are not enough, because {checked.why_whole}")
        return checked

    @classmethod
    def refuse(cls, asset: Declaration) -> None:
        """Refuses what no text could make up for: a source of which rows are left out, and nothing to follow.

        Raises:
            ViewError: An input leaves changes out; or the table declares `refresh="strict"` and reads no changes.
        """
        partial = next((name for name, read in asset.changes.items() if not read.is_whole), None)
        if partial is not None:
            raise refusal_of_a_part(asset.name, partial)
        if asset.table.policy.refresh == "strict" and not asset.changes:
            what = "Its policy is refresh='strict', and no input is read as Changes, so every run computes all rows"
            error = ViewError(_NOT_INCREMENTAL, what, None, "Read an input as Changes, or leave the word out.")
            raise with_place(error, Origin(), asset.name)

    @classmethod
    def operation(cls, asset: Declaration) -> Operation:
        return Operation.CHANGE if asset.table.key_columns else Operation.OVERWRITE

    @classmethod
    def strategy(cls, run: Run, basis: Basis) -> str:
        where = "the table" if run.slice is None else "the partition"
        if basis is Basis.EVERYTHING:
            return f"every row of {where} is compared with the query's result, and those that differ are written"
        return f"the query is computed for the keys that the changes touch, and rows of {where} that differ are written"

    def answers_for(self, changes: SourceRead) -> bool:
        """Always: `complete` refuses an input that the text does not name."""
        return True

    def complete_without_rows(self, run: Run) -> Run | None:
        return _as_marked_before(run) if self._is_held(run) else None

    def complete(self, spark: Callable[[], SparkSession], run: Run) -> tuple[Run, Write]:
        partial = next((changes.name for changes in run.changes if run.leaves_out(changes.name)), None)
        if partial is not None:
            raise refusal_of_a_part(run.name, partial)
        if self._is_held(run):
            return _as_marked_before(run), self
        from lakehouse.views.on_spark.run_facts import bind, with_key

        with interpreting(spark(), run.inputs):
            bound = bind(spark, run, self.text)
            query = replace(bound.analysis.digest, columns=run.source_columns)
            run = with_key(run, bound.analysis).with_facts(query=query)
            return self._complete(spark, run, bound, self._compute(spark, run, bound))

    @staticmethod
    def explain(run: Run, analysis: "Analysis") -> tuple[str, ...]:
        """What a run does with changes of each table, and what its policy says of that, as sentences.

        Args:
            run: The run of a table with its key; if its result was planned, with what was planned.
            analysis: What the text says over the tables of the run.

        Raises:
            ViewError: Changes cannot be followed.
        """
        from lakehouse.views.analysis import why_more_than_keys
        from lakehouse.views.explained import how_followed

        key, added, refresh = run.table.key_columns, counts_and_sums(run, analysis), run.asset.policy.chosen_refresh
        is_kept = may_keep_sums(run) if run.facts.view is None else run.facts.sums is not None
        why_no_sums = added if isinstance(added, str) else None if is_kept else NO_SUMS_YET
        lines = how_followed(analysis, key, why_no_sums) if run.facts.view is None else run.facts.view.followed
        # Of the text alone: a log has types that Spark shows otherwise, such as CHAR.
        other = why_other_query(run.asset, run.cursor, QueryDigest(analysis.digest.text))
        if other is not None:
            is_refused = answer_by_policy(NeedOfAllRows.READ, refresh) is PolicyAnswer.REFUSED
            becomes = "is refused by refresh='strict'" if is_refused else "computes all rows"
            lines = (*lines, f"The next run {becomes}, because {other}.")
        verdict = None if why_no_sums is None else analysis.verdict(key, has_key=bool(key))
        why = None if verdict is None else why_more_than_keys(verdict)
        if why is None:
            return lines
        return (*lines, _WITHOUT_KEYS[answer_by_policy(NeedOfAllRows.PLAN, refresh)](why))

    def _is_held(self, run: Run) -> bool:
        """Whether the table holds the result: no source has changes or other columns, and the query is the same."""
        if not _has_no_changes(run) or run.columns_changed or run.source_columns is None:
            return False
        from lakehouse.views.sql.tokens import digest_of_view

        return why_other_query(run.asset, run.cursor, QueryDigest(digest_of_view(self.text))) is None

    def _compute(self, spark: Callable[[], SparkSession], run: Run, bound: "BoundText") -> "Computed | Sums":
        """What the table is to hold; the sums if what changes bring and take away is to be added to them.

        Raises:
            ViewError: All rows would be computed, and the policy forbids that; or changes can be followed by no column.
        """
        from lakehouse.views.analysis import Whole
        from lakehouse.views.on_spark.computing import compute
        from lakehouse.views.on_spark.run_facts import why_dear

        key, refresh = run.table.key_columns, run.asset.policy.chosen_refresh
        other = None if run.facts.query is None else why_other_query(run.asset, run.cursor, run.facts.query)
        computed = (
            _why_whole(run)
            or bound.whole
            or (None if other is None else Whole(NeedOfAllRows.READ, other))
            or _kept_sums(spark, run, bound)
            or why_dear(run)
        )
        computed = computed or compute(bound, key, refresh, lambda: _rows_of_table(spark, run))
        match computed:
            case Whole(need=NeedOfAllRows.PLAN) if _rows_of_table(spark, run) == 0:
                return Whole(NeedOfAllRows.BEGINNING, "its table is empty")
            case Whole(need=need) as whole if answer_by_policy(need, refresh) is PolicyAnswer.REFUSED:
                raise refusal(self.text, f"Keys alone are not enough, because {whole}", run.name)
            case Whole(need=need) if _begins(run, need, other) and isinstance(sums_of_view(run, bound), str):
                self._tell_of_later_runs(run, bound.analysis.verdict(key, has_key=bool(key)))
            case _:
                pass
        return computed

    @staticmethod
    def _tell_of_later_runs(run: Run, verdict: "Verdict") -> None:
        """Says in a run that begins what becomes of the runs that changes reach, if keys are not enough for them."""
        from lakehouse.views.analysis import Whole, why_more_than_keys

        later = why_more_than_keys(verdict)
        match answer_by_policy(NeedOfAllRows.PLAN, run.asset.policy.chosen_refresh):
            case PolicyAnswer.REFUSED if later is not None:
                tell(Message(f"{run.name} is refused as soon as changes reach it: {later}. {STRICT_REMEDY}"))
            case answer if isinstance(verdict, Whole):
                level = WARNING if answer is PolicyAnswer.WARNED else INFO
                tell(Message(f"{run.name} will be computed whole by each run that changes reach: {verdict}.", level))
            case _:
                pass

    def _complete(
        self, spark: Callable[[], SparkSession], run: Run, bound: "BoundText", computed: "Computed | Sums"
    ) -> tuple[Run, Write]:
        """The write of what is computed, completed."""
        from lakehouse.views.analysis import Whole
        from lakehouse.views.explained import how_followed
        from lakehouse.views.on_spark.computing import OfKeys, Unmoved
        from lakehouse.views.on_spark.run_facts import report_of

        key, refresh, answer = run.table.key_columns, run.asset.policy.chosen_refresh, PolicyAnswer.COMPUTED
        plan, write = None, None
        match computed:
            case Unmoved():
                how, sums = "nothing, because no change reaches a row of it", why_no_sums_yet(run, bound.analysis)
                run = _as_marked_before(run).with_facts(query=run.facts.query)
            case Sums(groups=groups):
                how = f"what the changes add to the counts and sums of their groups ({', '.join(groups)})"
                sums = computed
            case OfKeys(rows=rows, touched=touched, plan=plan, need=need, read_whole=read_whole):
                how, sums = (
                    f"the rows of touched keys ({', '.join(touched.columns)})",
                    why_no_sums_yet(run, bound.analysis),
                )
                write = Merge(rows, touched)
                if need is not None:
                    how, answer = f"{how}; {read_whole}", answer_by_policy(need, refresh)
            case Whole(need=need):
                how, sums, answer = (
                    f"all rows, because {computed}",
                    sums_of_view(run, bound),
                    answer_by_policy(need, refresh),
                )
                write = Merge(bound.rows, Touched(key, EveryKey(), None, run.changes)) if key else Overwrite(bound.rows)
        if not isinstance(computed, Unmoved):
            tell(Message(f"{run.name} computes {how}.", WARNING if answer is PolicyAnswer.WARNED else INFO))
        digest, why_no_sums = (sums.digest, None) if isinstance(sums, Sums) else (None, sums)
        followed = how_followed(bound.analysis, key, why_no_sums, plan)
        run = run.with_facts(sums=digest, view=report_of(run, bound, how, followed))
        return (run, self) if write is None else write.complete(spark, run)

    def plan(self, spark: SparkSession, run: Run, head: Head | None) -> Planned:
        """Adds to the sums if the table is kept by sums; else nothing but a mark, because rows are another write's."""
        if run.has_nothing_to_do():
            return Skip()
        if head is None or not _adds(run):
            return rest_of(run)
        from lakehouse.views.on_spark.run_facts import bind

        bound = bind(lambda: spark, run, self.text)
        sums = sums_of_view(run, bound)
        assert isinstance(sums, Sums), "the run has completed with these sums"
        return add_or_recompute(spark, run, sums, head, Overwrite(bound.rows))

    def restrict_feed(self, run: Run, feed: DataFrame) -> DataFrame:
        """All of the rows if sums are added to; else none, because none was computed."""
        return feed if _adds(run) else feed.limit(0)

    def count_outside(self, run: Run) -> None:
        """Nothing: no row was computed."""

    def rows_to_compare(self, table: DataFrame, inputs: Mapping[str, SourceRead]) -> tuple[DataFrame, DataFrame]:
        """The result of the query over all rows of its tables."""
        from lakehouse.views.on_spark.bound_text import BoundText
        from lakehouse.views.query import names_in

        tables = {name: inputs[self.text.input_of(name)] for name in names_in(self.text.text)}
        return BoundText.of(table.sparkSession, self.text, tables).rows, table


def _has_no_changes(run: Run) -> bool:
    """Whether no source that is followed has changes, so that the table holds the result."""
    if not isinstance(run.cursor, Known) or run.compares_everything or not run.changes:
        return False
    return all(read.is_empty for read in run.changes)


def _as_marked_before(run: Run) -> Run:
    """The run with the columns, the sums and the query of the newest mark, because the table still holds them."""
    if not isinstance(run.cursor, Known):
        return run
    mark = run.cursor.mark
    return run.with_facts(columns=mark.columns, sums=mark.aggregate, query=mark.query or run.facts.query)


def _adds(run: Run) -> bool:
    """Whether a completed run adds what its changes bring and take away to the sums that its table holds."""
    return run.facts.sums is not None and not _has_no_changes(run)


def _kept_sums(spark: Callable[[], SparkSession], run: Run, bound: "BoundText") -> "Sums | Whole | None":
    """The sums, if the table has been kept by sums since all of its rows were computed; None if it has not.

    A table that has not stays as it is, because its log does not say that each group holds the sums.
    """
    from lakehouse.views.analysis import Whole

    if run.head is None or not isinstance(run.cursor, Known) or run.cursor.mark.aggregate is None:
        return None
    sums = sums_of_view(run, bound)
    if isinstance(sums, str):
        return None
    why = why_recomputed(run.ref.log(spark), run.head, run, sums)
    return sums if why is None else Whole(NeedOfAllRows.READ, why)


def _why_whole(run: Run) -> "Whole | None":
    """Why the run computes all rows, if that is known before a key is sought; else None."""
    from lakehouse.views.analysis import Whole

    match run.together:
        case Reconcile(reason=reason, on_request=on_request):
            return Whole(NeedOfAllRows.ASKED if on_request else NeedOfAllRows.READ, reason)
        case Refuse() | None:
            pass
    if run.head is None:
        return Whole(NeedOfAllRows.BEGINNING, "there is no table yet")
    return None if isinstance(run.cursor, Known) else Whole(NeedOfAllRows.BEGINNING, "the table has no position")


def _begins(run: Run, need: NeedOfAllRows, other: str | None) -> bool:
    """Whether later runs will follow changes for which this one, which computes all rows, has no plan yet."""
    if need is NeedOfAllRows.NO_SOURCE or run.asset.policy.chosen_refresh == "full":
        return False
    return need is NeedOfAllRows.BEGINNING or run.head is None or other is not None


def _rows_of_table(spark: Callable[[], SparkSession], run: Run) -> int | None:
    """About how many rows the table holds, by its log; None if nobody knows without Spark."""
    return None if run.head is None else rows_about(run.ref.log(spark), run.head.version)


def refusal(text: ViewText, what: str, asset: str | None = None) -> ViewError:
    """The refusal of a view by `refresh="strict"`."""
    cure = f"Nothing was written. {STRICT_REMEDY} Under refresh='incremental' a run does that by itself, and warns."
    return with_place(ViewError(_NOT_INCREMENTAL, what, None, cure), text.origin, asset)
