"""Refuses what the texts of views say about columns that are known without reading rows; for `lakehouse check`."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakehouse.cursor.mark import mark_in
from lakehouse.dagster.code.digest import code_of
from lakehouse.dagster.code.view_texts import only_text_of
from lakehouse.dagster.code_location import AssetTable, CodeLocation, function_of, is_function
from lakehouse.delta.log import Log
from lakehouse.errors import DefinitionError, LakehouseError
from lakehouse.errors.base import apart
from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.spark.types import as_struct
from lakehouse.views.algebra import Query
from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.on_spark.bound_text import types_of
from lakehouse.views.query import names_in, read
from lakehouse.views.sql.owned_text import read_owned
from lakehouse.views.view_text import NotFollowedError, Origin, ViewText, with_place

_UNKNOWN_COLUMN = "VIEW_UNKNOWN_COLUMN"


def refuse_unknown_columns(code_location: CodeLocation, logs: Mapping[str, Log]) -> None:
    """Refuses unknown columns in the texts of views, their tables and expectations, where the columns are known.

    The columns of a view follow from its text. The columns of any other table are in its log, unless its code has
    changed since; otherwise its spec may declare them.

    Raises:
        ViewError: There is no such column, or the text says something else that can never be computed.
    """
    columns = _Columns(code_location, logs)
    for key in code_location.tables:
        columns.of(key)


@dataclass
class _Columns:
    """The columns of the tables of a code location, with their types; the type is empty where it is not known."""

    code_location: CodeLocation
    logs: Mapping[str, Log]
    _columns: dict[dg.AssetKey, Mapping[str, str] | None] = field(
        default_factory=dict[dg.AssetKey, Mapping[str, str] | None]
    )

    def of(self, key: dg.AssetKey) -> Mapping[str, str] | None:
        """The columns of a table; None if they are not known."""
        if key not in self._columns:
            self._columns[key] = None  # ends the recursion over views that read each other
            table = self.code_location.tables.get(key)
            text = only_text_of(function_of(table.asset)) if table is not None and is_function(table.asset) else None
            if table is not None:
                self._columns[key] = self._of_log_or_spec(table) if text is None else self._of_view(table, text)
        return self._columns[key]

    def _of_view(self, table: AssetTable, text: ViewText) -> Mapping[str, str] | None:
        declared = {column.name: "" if column.type is None else _type(column.type) for column in text.columns}
        columns: Mapping[str, str] | None = declared or None
        with apart(table.name):
            try:
                names = names_in(text.text)
            except ViewError as error:  # with its place: `check` reports once what is refused twice at one place
                raise with_place(error, text.origin, table.name) from error.__cause__
            sources = {name: table.inputs.get(text.input_of(name)) for name in names}
            schemas = {name: None if key is None else self.of(key) for name, key in sources.items()}
            of_sources = {name: schema for name, schema in schemas.items() if schema is not None}
            if len(of_sources) == len(schemas):
                query = Analysis.of(text, of_sources, TableFacts(), table.name).read
                if isinstance(query, Query):  # else Spark alone knows its columns
                    of_query = {output.name: query.types.get(output.column, "") for output in query.outputs}
                    columns = {name: declared.get(name) or of_query[name] for name in of_query}
        if columns is not None:
            _refuse_columns_of_table(table, text, columns)
        return columns

    def _of_log_or_spec(self, table: AssetTable) -> Mapping[str, str] | None:
        log, definition = self.logs.get(table.name), table.definition
        head = schema = None
        if log is not None:
            with suppress(LakehouseError):  # `lakehouse status` and `doctor` say what is wrong with a log
                head = log.head()
                schema = None if head is None or _is_of_other_code(table, log) else log.file_schema(head.version)
        if schema is not None:
            return types_of(as_struct(schema))
        if definition is None or table.asset is not None:  # the page of an asset shows the columns of its log
            return None
        declared: Any = definition.specs_by_key[table.key].metadata.get("dagster/column_schema")
        schema = getattr(declared, "schema", declared)  # a user's schema, or Dagster's value of one
        return None if schema is None else {each.name: _type(each.type) for each in schema.columns}


def _is_of_other_code(table: AssetTable, log: Log) -> bool:
    """Whether the code of a table's function has changed since the table was written, so that columns may differ."""
    if not is_function(table.asset) or (head := log.head()) is None:
        return False
    marks = (mark_in(commit) for commit in log.commits(head.version))
    mark = next((mark for mark in marks if mark is not None), None)
    code = code_of(function_of(table.asset))
    return mark is not None and code is not None and code.why_other(mark.code) is not None


def _type(sql: str) -> str:
    """A type as Spark's `simpleString()` writes it; empty if it is not a type of Spark SQL."""
    try:
        return exp.DataType.build(sql, dialect="spark").sql(dialect="spark").lower().replace(" ", "")
    except SqlglotError:
        return ""


def _refuse_columns_of_table(table: AssetTable, text: ViewText, columns: Mapping[str, str]) -> None:
    """Refuses a key, a layout, owned rows and expectations over columns that a view does not have."""
    names, declared = {name.lower() for name in columns}, table.declared
    owns = list[str]()
    with suppress(DefinitionError):  # `validate` says what is wrong with the condition
        owns += [] if declared.owns is None else sorted(read_owned(table.name, declared.owns).columns)
    roles = (
        ("key", declared.key_columns),
        ("partition_by", declared.partition_columns),
        ("cluster_by", declared.cluster_columns),
        ("owns", owns),
    )
    for role, of_role in roles:
        for name in (name for name in of_role if name.lower() not in names):
            with apart(table.name):
                what = f"Its table has {name} in its {role}, and the query gives the columns {', '.join(columns)}"
                error = ViewError(_UNKNOWN_COLUMN, what, None, "Correct the name, or select the column.")
                raise with_place(error, text.origin, table.name)
    for each in declared.expectations:
        if not each.is_of_key:
            with apart(table.name):
                _refuse_condition(each.condition, columns, text, table.name)


def _refuse_condition(condition: str, columns: Mapping[str, str], text: ViewText, asset: str) -> None:
    """Refuses an expectation over columns that do not exist; `validate` finds what else is wrong with its text."""
    try:
        with suppress(NotFollowedError):
            read(f"SELECT (\n{condition}\n) AS holds FROM row", {"row": columns})
    except ViewError as error:
        if error.code != _UNKNOWN_COLUMN or error.place is None:
            return
        place = TextPlace(error.place.line - 1, error.place.column, error.place.words)
        of_condition = ViewError(error.code, f"EXPECT ({condition}): {error.what}", place, error.remedy)
        file = text.origin.file
        whole = Path(file).read_text(encoding="utf-8-sig") if file is not None else ""
        begin = whole.find(condition)
        if begin < 0:
            raise with_place(ViewError(error.code, of_condition.what, None, error.remedy), text.origin, asset) from None
        raise with_place(of_condition, Origin(file).after(whole, begin), asset) from None
