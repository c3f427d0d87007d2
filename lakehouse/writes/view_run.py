"""What a run of a view computes, and the write that it completes into; apart, because sqlglot is slow to import."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from logging import INFO, WARNING

from pyspark.sql import DataFrame, SparkSession

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.digests import QueryDigest
from lakehouse.cursor.since_base import why_other_rows
from lakehouse.delta.log import Head, rows_about
from lakehouse.delta.policy import Policy
from lakehouse.delta.text import fold
from lakehouse.difference.frozen_rows import owned_keys
from lakehouse.difference.statements import Planned
from lakehouse.errors.views import ViewError
from lakehouse.read.content import SourceRead
from lakehouse.read.decide import (
    STRICT_REMEDY,
    NeedOfAllRows,
    PolicyAnswer,
    answer_by_policy,
    may_replace,
    replaces_all_rows,
    why_other_query,
)
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey
from lakehouse.spark.progress import Message, tell
from lakehouse.spark.table_version import TableVersion
from lakehouse.views.adding import Added
from lakehouse.views.algebra import FirstRows, Query
from lakehouse.views.analysis import Analysis, ByKeys, CheckedView, Verdict, Whole, check_text
from lakehouse.views.explained import how_followed
from lakehouse.views.on_spark.bound_text import BoundText
from lakehouse.views.on_spark.computing import Computed, OfKeys, Unmoved, compute
from lakehouse.views.on_spark.run_facts import bind, report_of, why_whole, with_key
from lakehouse.views.on_spark.top import OfTable, compute_above
from lakehouse.views.query import names_in
from lakehouse.views.steps.one_row import OneRow
from lakehouse.views.view_text import ViewText, with_place
from lakehouse.writes.aggregate import add_or_recompute
from lakehouse.writes.merge import Merge
from lakehouse.writes.overwrite import Overwrite, Replacement
from lakehouse.writes.sums import Sums, as_marked_before, sums_of, why_other_beginning, why_recomputed
from lakehouse.writes.write import Write

_NO_SUMS_YET = "its log does not say that it holds them. After the next run that computes all rows it is"
_WITHOUT_KEYS: Mapping[PolicyAnswer, Callable[[str], str]] = {
    PolicyAnswer.COMPUTED: "Keys alone are not enough: {}.".format,
    PolicyAnswer.WARNED: "Keys alone are not enough, and a run that changes reach warns of that: {}.".format,
    PolicyAnswer.REFUSED: (
        "Keys alone are not enough, and refresh='strict' refuses a run that changes reach: {}.".format
    ),
}
"""What `explain` says where changes need more than the rows of keys."""


def check_view(
    text: ViewText, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]], policy: Policy
) -> CheckedView:
    """How a view of the text would follow tables with these columns.

    Raises:
        ViewError: A view cannot be kept of the text, or the policy forbids what its changes need.
    """
    checked = check_text(text, schemas, keys)
    is_strict = answer_by_policy(NeedOfAllRows.PLAN, policy.chosen_refresh) is PolicyAnswer.REFUSED
    if is_strict and checked.why_whole is not None:
        raise _refusal(text, f"Keys alone are not enough, because {checked.why_whole}")
    return checked


def explain_view(run: Run, analysis: Analysis) -> tuple[str, ...]:
    """What a run does with changes of each table, and how its policy answers to that, as sentences.

    Raises:
        ViewError: Changes cannot be followed.
    """
    refresh, before_call = run.asset.policy.chosen_refresh, run.facts.view is None
    is_kept = _may_keep_sums(run) if before_call else run.facts.sums is not None
    why_no_sums = None if is_kept and isinstance(analysis.sums, Added) else _clause_of_no_sums(analysis)
    lines = how_followed(analysis, why_no_sums) if run.facts.view is None else run.facts.view.followed
    why = None if why_no_sums is None else analysis.verdict.more
    if why is None:
        return lines
    return (*lines, _WITHOUT_KEYS[answer_by_policy(NeedOfAllRows.PLAN, refresh)](why))


def why_all_rows(run: Run, analysis: Analysis) -> Whole | None:
    """Why a run computes all rows although the changes of its sources can be read, as far as the logs show."""
    # The digest of the text alone, because a log has types that Spark shows differently, such as CHAR.
    other = why_other_query(run.asset, run.cursor, QueryDigest(analysis.digest.text))
    if other is not None:
        return Whole(NeedOfAllRows.READ, other)
    is_kept = _may_keep_sums(run) and isinstance(analysis.sums, Added)
    return analysis.verdict if isinstance(analysis.verdict, Whole) and not is_kept else None


def complete_view(spark: Callable[[], SparkSession], run: Run, text: ViewText) -> tuple[Run, Write | None]:
    """The run with the facts for its mark and its report, and the completed write of the rows that it computes.

    The write is None if no row is computed: no change reaches the result, or the changes are added to sums.

    Raises:
        ViewError: A view cannot be kept of the text; or all rows would be computed, and the policy forbids that.
    """
    bound = bind(spark, run, text)
    query = replace(bound.analysis.digest, columns=run.source_columns)
    run = with_key(run, bound.analysis).with_facts(query=query)
    computed = _compute(spark, run, bound)
    refresh, answer = run.asset.policy.chosen_refresh, PolicyAnswer.COMPUTED
    plan, write = None, None
    match computed:
        case Unmoved():
            how, sums = "nothing, because no change reaches a row of it", _clause_of_no_sums(bound.analysis)
            run = as_marked_before(run).with_facts(query=run.facts.query)
        case Sums(groups=groups):
            how = f"what the changes add to the counts and sums of their groups ({', '.join(groups)})"
            sums = computed
        case OfKeys(rows=rows, touched=touched, plan=plan, need=need, read_whole=read_whole):
            how = f"the rows of touched keys ({', '.join(touched.columns)})"
            sums = _clause_of_no_sums(bound.analysis)
            write = Merge(rows, touched)
            if need is not None:
                how, answer = f"{how}; {read_whole}", answer_by_policy(need, refresh)
        case OfTable(rows=rows, how=how, of_keys=OfKeys(plan=plan, need=need, read_whole=read_whole)):
            sums = _clause_of_no_sums(bound.analysis)
            write = _write_of_rows(run, rows)
            if need is not None:
                how, answer = f"{how}; {read_whole}", answer_by_policy(need, refresh)
        case Whole(need=need):
            write = _write_of_all_rows(spark, run, bound, need)
            how, sums, answer = (
                f"all rows{' and replaces the table' if isinstance(write, Replacement) else ''}, because {computed}",
                _sums_of_view(bound),
                answer_by_policy(need, refresh),
            )
    if not isinstance(computed, Unmoved):
        tell(Message(f"{run.name} computes {how}.", WARNING if answer is PolicyAnswer.WARNED else INFO))
    digest, why_no_sums = (sums.digest, None) if isinstance(sums, Sums) else (None, sums)
    followed = how_followed(bound.analysis, why_no_sums, plan)
    run = run.with_facts(sums=digest, view=report_of(run, bound, how, followed))
    return (run, None) if write is None else write.complete(spark, run)


def _compute(spark: Callable[[], SparkSession], run: Run, bound: BoundText) -> Computed | OfTable | Sums:
    """What the table is to hold; or its sums, if the changes are to be added to them.

    Raises:
        ViewError: All rows would be computed, and the policy forbids that; or no column lets changes be followed.
    """
    refresh = run.asset.policy.chosen_refresh
    if run.head is None and isinstance(read := bound.analysis.read, Query):
        for note in read.notes:
            tell(Message(f"{run.name}: {note}", WARNING))
    computed = why_whole(run, bound) or _kept_sums(spark, run, bound) or _compute_by_verdict(spark, run, bound)
    match computed:
        case Whole() as whole if (beginning := or_beginning(spark, run, whole)) is not whole:
            return beginning
        case Whole(need=need) as whole if answer_by_policy(need, refresh) is PolicyAnswer.REFUSED:
            raise _refusal(bound.text, f"Keys alone are not enough, because {whole}", run.name)
        case Whole(need=need) if _begins(run, need) and isinstance(_sums_of_view(bound), str):
            _tell_of_later_runs(run, bound.analysis.verdict)
        case _:
            pass
    return computed


def or_beginning(spark: Callable[[], SparkSession], run: Run, whole: Whole) -> Whole:
    """Why all rows are computed: `whole`; or, if keys are not enough, an empty table, which no policy forbids."""
    is_empty = whole.need is NeedOfAllRows.PLAN and _rows_of_table(spark, run) == 0
    return Whole(NeedOfAllRows.BEGINNING, "its table is empty") if is_empty else whole


def _compute_by_verdict(spark: Callable[[], SparkSession], run: Run, bound: BoundText) -> Computed | OfTable:
    """What the table is to hold, as far as the verdict of the text lets changes be followed."""
    refresh, head, cursor = run.asset.policy.chosen_refresh, run.head, run.cursor
    match bound.analysis.verdict:
        case ByKeys(above=FirstRows() | OneRow()) if run.owned is not None:
            return Whole(NeedOfAllRows.PLAN, "rows that its table does not own may be others than those of the result")
        case ByKeys(above=FirstRows() | OneRow()) if head and run.slice is None and isinstance(cursor, Known):
            why = [why_other_rows(run.ref.log(spark), head, cursor, run.partitions)]
            why += [why_other_beginning(cursor, read) for read in bound.reads.values()]
            if (first := next(filter(None, why), None)) is not None:
                return Whole(NeedOfAllRows.READ, first)
            return compute_above(bound, refresh, lambda: TableVersion.of(spark(), run.ref, head).rows())
        case ByKeys(above=FirstRows() | OneRow()):
            return Whole(NeedOfAllRows.READ, "its table has no position for all of its rows")
        case _:
            is_replaceable = may_replace(run.asset, head) and not run.may_change_sides
            return compute(
                bound,
                refresh,
                lambda: _rows_of_table(spark, run),
                is_replaceable=is_replaceable,
                owned=partial(owned_keys, run),
            )


def _write_of_all_rows(spark: Callable[[], SparkSession], run: Run, bound: BoundText, need: NeedOfAllRows) -> Write:
    """The write of all rows of the result: compared with the table, unless it is cheaper to replace the table."""
    if not run.may_change_sides and replaces_all_rows(need, run.asset, run.head, _rows_of_table(spark, run)):
        key, own = run.table.key_columns, bound.analysis.key
        return Replacement(bound.rows, may_split_keys=bool(key) and (own is None or not fold(own) <= fold(key)))
    return _write_of_rows(run, bound.rows)


def _write_of_rows(run: Run, rows: DataFrame) -> Write:
    """The write of all rows of the result, compared with the table."""
    key = run.table.key_columns
    return Merge(rows, Touched(key, EveryKey(), None, run.changes)) if key else Overwrite(rows)


def _tell_of_later_runs(run: Run, verdict: Verdict) -> None:
    """Says in a first run what becomes of later runs that changes reach, if keys are not enough for them."""
    match answer_by_policy(NeedOfAllRows.PLAN, run.asset.policy.chosen_refresh):
        case PolicyAnswer.REFUSED if verdict.more is not None:
            tell(Message(f"{run.name} is refused as soon as changes reach it: {verdict.more}. {STRICT_REMEDY}"))
        case answer if isinstance(verdict, Whole):
            level = WARNING if answer is PolicyAnswer.WARNED else INFO
            tell(Message(f"{run.name} will be computed whole by each run that changes reach: {verdict}.", level))
        case _:
            pass


def plan_sums(spark: SparkSession, run: Run, text: ViewText, head: Head) -> Planned:
    """The statement that adds the changes to the sums with which the run has completed."""
    bound = bind(lambda: spark, run, text)
    sums = _sums_of_view(bound)
    assert isinstance(sums, Sums), "the run has completed with these sums"
    return add_or_recompute(spark, run, sums, head, Overwrite(bound.rows))


def rows_of_view(table: DataFrame, text: ViewText, inputs: Mapping[str, SourceRead]) -> DataFrame:
    """The result of the query over all rows of its tables."""
    tables = {name: inputs[text.input_of(name)] for name in names_in(text.text)}
    return BoundText.of(table.sparkSession, text, tables).rows


def _sums_of_view(bound: BoundText) -> Sums | str:
    """The counts and sums that make up a view, over its pinned tables; else why it has none, as a clause."""
    added = bound.analysis.sums
    return added if isinstance(added, str) else sums_of(bound, added)


def _may_keep_sums(run: Run) -> bool:
    """Whether the table of a view of sums is kept by them, or will be: not if its rows were computed without sums."""
    return run.head is None or not isinstance(run.cursor, Known) or run.cursor.mark.aggregate is not None


def _clause_of_no_sums(analysis: Analysis) -> str:
    """Why the table of a view, whose rows are computed by keys, is not kept by sums."""
    return analysis.sums if isinstance(analysis.sums, str) else _NO_SUMS_YET


def _kept_sums(spark: Callable[[], SparkSession], run: Run, bound: BoundText) -> Sums | Whole | None:
    """The sums, if the table has been kept by sums since all of its rows were computed; None if it has not.

    A table that has not been is not kept by sums now, because its log does not show that each group holds them.
    """
    if run.head is None or not isinstance(run.cursor, Known) or run.cursor.mark.aggregate is None:
        return None
    sums = _sums_of_view(bound)
    if isinstance(sums, str) or (run.owned is not None and not run.owned.follows_from(sums.groups)):
        return None
    why = why_recomputed(run.ref.log(spark), run.head, run, sums)
    return sums if why is None else Whole(NeedOfAllRows.READ, why)


def _begins(run: Run, need: NeedOfAllRows) -> bool:
    """Whether a run that computes all rows is the first of its query, so that later runs will follow changes."""
    if need is NeedOfAllRows.NO_SOURCE or run.asset.policy.chosen_refresh == "full":
        return False
    query = run.facts.query
    is_other = query is not None and why_other_query(run.asset, run.cursor, query) is not None
    return need is NeedOfAllRows.BEGINNING or run.head is None or is_other


def _rows_of_table(spark: Callable[[], SparkSession], run: Run) -> int | None:
    """About how many rows the table holds, by its log; None if that is not known without Spark."""
    return None if run.head is None else rows_about(run.ref.log(spark), run.head.version)


def _refusal(text: ViewText, what: str, asset: str | None = None) -> ViewError:
    """The refusal of a view by `refresh="strict"`."""
    cure = f"Nothing was written. {STRICT_REMEDY} Under refresh='incremental' a run does that by itself, and warns."
    return with_place(ViewError("VIEW_NOT_INCREMENTAL", what, None, cure), text.origin, asset)
