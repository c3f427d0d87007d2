"""What a run knows of a view: its text over the pinned tables, its key, and what it says of itself."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from lakehouse.delta.file_ranges import FileRanges
from lakehouse.delta.limits import limits
from lakehouse.errors.views import ViewError
from lakehouse.read.content import SourceRead
from lakehouse.read.run import Run, ViewReport
from lakehouse.spark.table_version import TableVersion
from lakehouse.views.input_refusals import computed_column, refuse_other_inputs
from lakehouse.views.on_spark.bound_text import BoundText, TableFacts
from lakehouse.views.on_spark.computing import Computed, following
from lakehouse.views.query import names_in
from lakehouse.views.view_text import ViewText, with_place


def bind(spark: Callable[[], SparkSession], run: Run, text: ViewText) -> BoundText:
    """A text over the tables that a run has pinned.

    Raises:
        ViewError: The text names other tables than the inputs, or a view cannot be kept of it; or the run is about
            partitions, and their column is computed.
    """
    inputs = {name: read for name in run.asset.inputs if (read := run.read_of(name)) is not None}
    refuse_other_inputs(text, inputs, run.name)
    read = {table: inputs[text.input_of(table)] for table in names_in(text.text)}
    tables = {table: at.rows() if isinstance(at, TableVersion) else at for table, at in read.items()}
    facts = _facts(run, {table: text.input_of(table) for table in tables})
    bound = BoundText.of(spark(), text, tables, run.name, facts)
    for column in () if run.slice is None else run.slice.columns:
        if not bound.is_plain(column):
            raise with_place(computed_column(column), text.origin, run.name)
    return bound


def _facts(run: Run, inputs: Mapping[str, str]) -> TableFacts:
    """What is known of the tables of a text.

    Args:
        run: The run.
        inputs: The input behind each table.
    """
    sources = {table: run.asset.inputs[name] for table, name in inputs.items()}
    keys = {table: run.sources[source].key for table, source in sources.items() if source in run.sources}

    def ranges_of(table: str, columns: Collection[str]) -> FileRanges | None:
        read, source = run.read_of(inputs[table]), run.sources.get(sources[table])
        at = read.source_at if isinstance(read, SourceRead) else read
        return None if source is None or at is None else source.log.file_ranges(at.version, columns)

    small = [table for table, source in sources.items() if _is_small(run, source)]
    return TableFacts(small, {table: key for table, key in keys.items() if key}, ranges_of)


def _is_small(run: Run, source: str) -> bool:
    """Whether a source has so few rows that it is cheaper to read it whole than to ask for keys first."""
    size = run.sources[source].log.size() if source in run.sources else None
    return size is not None and size.rows <= limits().whole_rows


def with_key(run: Run, bound: BoundText) -> Run:
    """The run of a table with the key that follows from the text, unless the table declares one."""
    if run.table.key_columns:
        return run
    return run.with_table(replace(run.table, key=bound.key)) if bound.key else run


def report_of(run: Run, bound: BoundText, computed: str, followed: tuple[str, ...]) -> ViewReport:
    """What a view says of itself in its run.

    Args:
        run: The run.
        bound: The text.
        computed: What was computed, and why, as a clause.
        followed: How its tables are followed, as sentences.
    """
    sources = {table: run.asset.inputs[bound.text.input_of(table)] for table in bound.execution.tables}
    lineage = {
        name: tuple((sources[table], column) for table, column in columns) for name, columns in bound.lineage.items()
    }
    return ViewReport(computed, followed, lineage)


def sentences_of(bound: BoundText, key: tuple[str, ...], computed: Computed | None = None) -> tuple[str, ...]:
    """How the tables of a text are followed, as sentences; none if none is followed."""
    try:
        return following(bound, key, computed).sentences if bound.reads else ()
    except ViewError as error:
        return (f"Changes cannot be followed: {error.what}.",)
