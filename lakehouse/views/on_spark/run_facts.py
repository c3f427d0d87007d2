"""What a run, or its forecast, knows of a view: its text over the tables, its key, and its report."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Known
from lakehouse.delta.limits import limits
from lakehouse.read.asset import ViewReport
from lakehouse.read.decide import NeedOfAllRows, Reconcile, Refuse, why_other_query
from lakehouse.read.feed_trust import Source
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import as_struct
from lakehouse.views.analysis import Analysis, TableFacts, Whole
from lakehouse.views.input_refusals import computed_column, refuse_other_inputs, refuse_split_keys
from lakehouse.views.on_spark.bound_text import BoundText, types_of
from lakehouse.views.query import names_in
from lakehouse.views.sql.lineage import is_plain, lineage
from lakehouse.views.view_text import Reason, ViewText, with_place


def bind(spark: Callable[[], SparkSession], run: Run, text: ViewText) -> BoundText:
    """A text over the tables that a run has pinned.

    Raises:
        ViewError: The text names other tables than the inputs, or cannot be kept as a view; or the run is for
            partitions by a computed column.
    """
    inputs = {name: read for name in run.asset.inputs if (read := run.read_of(name)) is not None}
    refuse_other_inputs(text, inputs, run.name)
    read = {table: inputs[text.input_of(table)] for table in names_in(text.text)}
    tables = {table: at.rows() if isinstance(at, TableVersion) else at for table, at in read.items()}
    names = {table: run.asset.inputs[text.input_of(table)] for table in tables}
    sources = {table: run.sources[name] for table, name in names.items() if name in run.sources}
    bound = BoundText.of(spark(), text, tables, run.name, _facts_of(run, sources))
    for column in () if run.slice is None else run.slice.columns:
        if isinstance(bound.analysis.read, Reason) or not is_plain(bound.query, column):
            raise with_place(computed_column(column), text.origin, run.name)
    return bound


def _facts_of(run: Run, sources: Mapping[str, Source], followed: tuple[str, ...] = ()) -> TableFacts:
    """What declarations and logs show about the tables of a text, under the names that the text has for them."""
    table, sizes = run.table, {name: source.log.size() for name, source in sources.items()}
    return TableFacts(
        followed,
        [name for name, size in sizes.items() if size is not None and size.rows <= limits().whole_rows],
        {name: source.key for name, source in sources.items() if source.key},
        table.key_columns,
        table.partitioned_by(run.head),
        needs_whole_keys=table.asks_for_unique_keys,
        leaves_rows_out=any(each.leaves_out for each in table.expectations),
    )


def analysis_by_logs(text: ViewText, run: Run, sources: Mapping[str, Source], followed: Collection[str]) -> Analysis:
    """The analysis of a text over its tables as their logs describe them; Spark is started only if a log needs it.

    Raises:
        ViewError: The text cannot be kept as a view.
    """
    inputs = {table: text.input_of(table) for table in names_in(text.text)}
    of_text = {table: sources[name] for table, name in inputs.items()}
    schemas = {table: types_of(_schema(source)) for table, source in of_text.items()}
    of_changes = tuple(table for table, name in inputs.items() if name in followed)
    return Analysis.of(text, schemas, _facts_of(run, of_text, of_changes), run.name)


def _schema(source: Source) -> StructType:
    """The columns of a source."""
    schema = source.log.file_schema(source.at.version)
    return source.at.rows().schema if schema is None else as_struct(schema)


def why_whole(run: Run, bound: BoundText) -> Whole | None:
    """Why a run computes all rows, if that is known before a key is sought; else None."""
    match run.together:
        case Reconcile(reason=reason, on_request=on_request):
            return Whole(NeedOfAllRows.ASKED if on_request else NeedOfAllRows.READ, reason)
        case Refuse() | None:
            pass
    if run.head is None:
        return Whole(NeedOfAllRows.BEGINNING, "there is no table yet")
    if not isinstance(run.cursor, Known):
        return Whole(NeedOfAllRows.BEGINNING, "the table has no position")
    if bound.whole is not None:
        return bound.whole
    other = None if run.facts.query is None else why_other_query(run.asset, run.cursor, run.facts.query)
    return None if other is None else Whole(NeedOfAllRows.READ, other)


def with_key(run: Run, analysis: Analysis) -> Run:
    """The run of a table with the key that follows from the text, unless the table declares one.

    Raises:
        ViewError: The text names touch columns under which a run would see only some of the rows of a key, and the
            table checks how many rows a key has.
    """
    key = run.table.key_columns or analysis.key or ()
    if run.table.asks_for_unique_keys:
        refuse_split_keys(analysis.text, key, run.name)
    return run if run.table.key_columns or not key else run.with_table(replace(run.table, key=key))


def report_of(run: Run, bound: BoundText, computed: str, followed: tuple[str, ...]) -> ViewReport:
    """What a view reports about its run."""
    sources = {table: run.asset.inputs[bound.text.input_of(table)] for table in bound.execution.tables}
    query = bound.analysis.read
    origins = (
        {}
        if isinstance(query, Reason)
        else {
            output.name: tuple((sources[table], column) for table, column in columns)
            for output, columns in zip(query.outputs, lineage(query), strict=True)
        }
    )
    return ViewReport(computed, followed, origins)
