"""A text over pinned tables: what was read of them, and the result under the names and types that a head declares."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lakehouse.delta.text import literal, quote
from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.read.content import Everything, SourceRead
from lakehouse.read.decide import NeedOfAllRows
from lakehouse.spark.broken_promises import Breach, breach_text
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.types import can_be_told_apart, char_type, is_assignable, sql_type, widens
from lakehouse.views.algebra import Output, Query
from lakehouse.views.analysis import Analysis, TableFacts, Whole
from lakehouse.views.on_spark.running import Execution, PinnedTable
from lakehouse.views.plan import TouchedPlan
from lakehouse.views.planner import text_over
from lakehouse.views.sql.look import look_through
from lakehouse.views.view_text import OutputColumn, Reason, ViewText, with_place

READ_AS = {
    "spark.sql.caseSensitive": ("false", "names that differ in the case of their letters would be two"),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false", "what stands in double quotes would be a name, and not a text"),
    "spark.sql.parser.quotedRegexColumnNames": ("false", "a name in backticks would be a pattern of names"),
    "spark.sql.legacy.setopsPrecedence.enabled": ("false", "INTERSECT would not go before UNION"),
    "spark.sql.legacy.ctePrecedencePolicy": ("corrected", "an outer WITH would win over an inner one of that name"),
    "spark.sql.legacy.bangEqualsNot": ("false", "! would be another word for NOT"),
    "spark.sql.groupByOrdinal": ("true", "a number after GROUP BY would be a constant, and not a column"),
    "spark.sql.orderByOrdinal": ("true", "a number after ORDER BY would be a constant, and not a column"),
    "spark.sql.groupByAliases": ("true", "an alias after GROUP BY would be no column"),
    "spark.sql.lateralColumnAlias.enableImplicitResolution": ("true", "an alias in SELECT would be no column there"),
}
"""Session settings: the value under which Spark reads a text as its algebra does, and what another value would do."""


_AT = re.compile(r"\(line (\d+), pos (\d+)\)")
"""Where the parser of Spark says that a text cannot be read."""


@dataclass(frozen=True, eq=False)
class BoundText:
    """A text whose tables are pinned; `of` makes it.

    Args:
        analysis: What the text says.
        execution: Its plans in this run.
    """

    analysis: Analysis
    execution: Execution

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        text: ViewText,
        tables: Mapping[str, PinnedTable],
        asset: str | None = None,
        facts: TableFacts = TableFacts(),
    ) -> Self:
        """A text over pinned tables.

        Raises:
            ViewError: The text cannot be kept as a view.
        """
        refuse_other_dialect(spark)
        execution = Execution(spark, tables, text.args)
        schemas = {name: types_of(execution.source(name).schema) for name in tables}
        followed = tuple(name for name, table in tables.items() if isinstance(table, SourceRead))
        return cls(Analysis.of(text, schemas, replace(facts, followed=followed), asset), execution).named_by_spark()

    def named_by_spark(self) -> Self:
        """The text whose columns have the names that Spark gives to expressions without a name."""
        given, query = self.analysis.given, self.analysis.read
        if isinstance(query, Reason) or self.text.columns or all(map(_NAME.fullmatch, given)):
            return self
        names = tuple(self.rows.columns)
        if not are_as_read(names, given):
            return self
        outputs = tuple(Output(name, output.column) for name, output in zip(names, query.outputs, strict=True))
        return replace(self, analysis=replace(self.analysis, read=replace(query, outputs=outputs), given=names))

    @property
    def text(self) -> ViewText:
        return self.analysis.text

    @property
    def query(self) -> Query:
        return self.analysis.query

    @property
    def facts(self) -> TableFacts:
        return self.analysis.facts

    @cached_property
    def rows(self) -> DataFrame:
        """All rows of the result."""
        text = self.analysis.settled_text
        self._refuse_unordered()
        sql = text_over(text, look_through(text).tables)
        try:
            return self.as_declared(self.execution.frame(sql))
        except ParseException as error:
            raise self._not_read(error) from error

    def _refuse_unordered(self) -> None:
        """Refuses a last LIMIT if its ORDER BY leaves rows equal, and Spark has no order for another of their columns.

        Raises:
            ViewError (VIEW_NOT_DETERMINISTIC): The text has such a LIMIT.
        """
        if not self.analysis.ties:
            return
        text = self.text.text
        fields = self.execution.frame(text_over(text, look_through(text).tables)).schema.fields
        kinds = {fields[place - 1].name: fields[place - 1].dataType for place in self.analysis.ties}
        unordered = [name for name, kind in kinds.items() if not can_be_told_apart(kind)]
        if unordered:
            what = "Rows that are equal in the ORDER BY of its LIMIT are taken in any order"
            cure = (
                f"Spark has no order for {', '.join(unordered)}. Add columns to the ORDER BY that tell all rows apart."
            )
            raise with_place(
                ViewError("VIEW_NOT_DETERMINISTIC", what, None, cure), self.text.origin, self.analysis.asset
            )

    @property
    def reads(self) -> dict[str, SourceRead]:
        """The tables whose changes are followed."""
        tables = self.execution.tables.items()
        return {name: table for name, table in tables if isinstance(table, SourceRead)}

    @property
    def whole(self) -> Whole | None:
        """Why all rows are computed, if that follows from what was read; else None."""
        if not self.reads:
            return Whole(NeedOfAllRows.NO_SOURCE, "it follows no source")
        contents = {table.name: table.content for table in self.reads.values()}
        whole = {name: content for name, content in contents.items() if isinstance(content, Everything)}
        for content in sorted(whole.values(), key=lambda content: not content.for_cost):
            if content.reason is not None:
                return Whole(NeedOfAllRows.COST if content.for_cost else NeedOfAllRows.READ, content.reason)
        return Whole(NeedOfAllRows.BEGINNING, f"'{next(iter(whole))}' is read for the first time") if whole else None

    def _not_read(self, error: ParseException) -> ViewError:
        """The refusal of a text that Spark cannot parse either, at the place of the error in the text."""
        try:
            self.execution.spark.sql(self.text.text, dict(self.text.args))
        except PySparkException as of_text:
            error = of_text if isinstance(of_text, ParseException) else error
        lines, at = str(error).split("\n"), _AT.search(str(error))
        why = look_through(self.text.text).why
        place = None if why is None else why.place
        if at is not None:
            line, column = int(at[1]), int(at[2])
            words = self.text.text.split("\n")[line - 1][column:]
            place = TextPlace(line, column + 1, words)
        what = f"Spark cannot read the text: {next(filter(None, lines), '')}"
        return with_place(
            ViewError("VIEW_SYNTAX", what, place, "Correct the text."), self.text.origin, self.analysis.asset
        )

    def as_declared(self, rows: DataFrame) -> DataFrame:
        """Rows of the query under the names and types that the view declares."""
        try:
            return with_declared_columns(rows, self.text)
        except ViewError as error:
            raise with_place(error, self.text.origin) from error.__cause__

    def plan(self, touch: tuple[str, ...]) -> TouchedPlan:
        """How touched keys, in some columns of the result, are found for the tables that have changed.

        Raises:
            ViewError: The result has no such column.
            NotFollowedError: No step can compute the keys.
        """
        return self.analysis.plan(touch, [name for name, table in self.reads.items() if not table.is_empty])


def refuse_other_dialect(spark: SparkSession) -> None:
    """Refuses a session that reads SQL differently: changes would be followed by columns that the text does not mean.

    Raises:
        ViewError (VIEW_SETTING): A setting has another value.
    """
    for name, value in spark.conf.getAll.items():
        wanted, otherwise = READ_AS.get(name, (value.lower(), ""))
        if value.lower() != wanted:
            what = f"The Spark session has {name}={value}, under which {otherwise}"
            raise ViewError(
                "VIEW_SETTING", what, None, f"Unset it, or set it to {wanted}; or write the asset in Python."
            )


def types_of(schema: StructType) -> dict[str, str]:
    """The columns of a table, each with its type as SQL: CHARs of different lengths are different types."""
    return {field.name: char_type(field) or field.dataType.simpleString() for field in schema.fields}


_NAME = re.compile(r"[A-Za-z_]\w*")


def are_as_read(columns: Sequence[str], read: Sequence[str]) -> bool:
    """Whether Spark has the columns of a query in the order in which its text was read: keys are found by position.

    Args:
        columns: The columns as Spark has them.
        read: The columns as the text was read; an expression without a name is called by its words.
    """
    if len(columns) != len(read):
        return False
    named = [(one, other) for one, other in zip(columns, read, strict=True) if _NAME.fullmatch(other)]
    return all(one.lower() == other.lower() for one, other in named)


def with_declared_columns(frame: DataFrame, text: ViewText) -> DataFrame:
    """The rows of a query under the declared names and types, by position, with an error where a NULL is refused.

    Raises:
        ViewError: INSERT would not cast a column to its declared type.
    """
    if not text.columns and not text.required:
        return frame
    columns = text.columns or [OutputColumn(name) for name in frame.columns]
    named = frame.toDF(*(column.name for column in columns))
    fields = named.schema.fields
    result = named.selectExpr(
        *(_as_declared(text, column, field) for column, field in zip(columns, fields, strict=True))
    )
    for given, field in zip(fields, result.schema.fields, strict=True):
        if not is_assignable(given.dataType, field.dataType):
            raise ViewError(
                "VIEW_HEAD",
                f"The head declares {field.name} as {sql_type(field.dataType)}, and the query gives "
                f"{sql_type(given.dataType)}, which INSERT would not cast",
                None,
                "Cast the column in the query, or declare the type that the query gives.",
            )
    return result


def _as_declared(text: ViewText, column: OutputColumn, given: StructField) -> str:
    """A column as SQL under its declared type, which raises an error where a value does not fit or NULL is refused."""
    name = quote(column.name)
    value = name if column.type is None else _cast(name, column, given.dataType)
    value = refuse_null(value, column.name, text)
    return value if value == name else f"{value} AS {name}"


def refuse_null(value: str, column: str, text: ViewText) -> str:
    """The SQL of a value, which raises an error at NULL if NULL is refused in its column."""
    if column.lower() not in text.required:
        return value
    return f"coalesce({value}, raise_error({literal(breach_text(Breach.REQUIRED, column=column))}))"


def _cast(name: str, column: OutputColumn, given: DataType) -> str:
    """A value cast as INSERT casts: a plain CAST wraps numbers in a session without ANSI mode."""
    if str(column.type).replace(" ", "").lower() == given.simpleString():
        return name
    if isinstance(given, ArrayType | MapType | StructType):  # within them `try_cast` puts NULL for what does not fit
        return f"CAST({name} AS {column.type})"
    cast = f"try_cast({name} AS {column.type})"
    text = literal(breach_text(Breach.UNFIT, column=column.name, type=str(column.type)))
    unfit = f"CAST(raise_error({text}) AS {column.type})"
    return f"CASE WHEN {cast} IS NULL AND {name} IS NOT NULL THEN {unfit} ELSE {cast} END"


def keeps_keys_apart(key: DataType, column: DataType) -> bool:
    """Whether two different keys stay different if they are cast to the type of a column."""
    return key == column or (not isinstance(key, StringType) and widens(key, column))


def convert_keys(keys: Local | DataFrame, columns: Sequence[str], fields: Sequence[StructField]) -> Local | DataFrame:
    """Columns of keys under the names and types of some fields. `Local` keys need Spark only if a type differs."""
    frame = keys.frame if isinstance(keys, Local) else keys
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    if isinstance(keys, Local) and all(
        kinds[column.lower()] == field.dataType for column, field in zip(columns, fields, strict=True)
    ):
        rows = keys.select(columns)
        schema = StructType([StructField(field.name, field.dataType) for field in fields])
        return Local(rows.spark, schema, rows.arrow.rename_columns([field.name for field in fields]))
    named = frame.select(
        *(
            F.col(quote(column)).cast(field.dataType).alias(field.name)
            for column, field in zip(columns, fields, strict=True)
        )
    )
    return (small(named) or named) if isinstance(keys, Local) else named
