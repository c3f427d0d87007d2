"""`CREATE MATERIALIZED VIEW ... AS SELECT ...`: the head as values, and the query as its author wrote it.

The grammar is Spark's, with what Databricks adds: constraints, expectations, CLUSTER BY, REFRESH POLICY.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lakehouse.delta.expect import Expect, OnFailure, is_unique_key
from lakehouse.delta.policy import Refresh
from lakehouse.errors.base import clause
from lakehouse.errors.views import ViewError
from lakehouse.views.files.other_statements import refuse_other_statement
from lakehouse.views.files.token_reader import TokenReader
from lakehouse.views.sql.conditions import why_not_of_the_row
from lakehouse.views.sql.tokens import Token, spell, tokens
from lakehouse.views.view_text import Origin, OutputColumn, ViewText


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column as the head declares it. A type or a comment that is not given is None."""

    name: str
    type: str | None = None
    required: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of a file, as values.

    Args:
        name: The parts of the view's name.
        columns: The declared columns, in order; empty if the query alone decides.
        key: The columns of PRIMARY KEY.
        expectations: What must hold of each row.
        comment: What the view is.
        partitioned_by: The columns by which the files are partitioned.
        clustered_by: The columns of liquid clustering.
        properties: The table properties.
        refresh: The refresh policy; None if the file names none.
        query: The query, letter by letter.
        query_offset: Where the query begins in the file.
    """

    name: tuple[str, ...]
    query: str = ""
    query_offset: int = 0
    columns: tuple[DeclaredColumn, ...] = ()
    key: tuple[str, ...] = ()
    expectations: tuple[Expect, ...] = ()
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType(dict[str, str]()))
    refresh: Refresh | None = None


def read_statement(text: str, file: str | None = None) -> Statement:
    """The statement of a file.

    Raises:
        ViewError: The file holds another statement, several, or a clause that means nothing here.
    """
    origin = Origin(file)
    reader = TokenReader(text, tokens(text, origin), origin)
    refuse_other_statement(reader)
    return _statement(reader)


def name_of_view(text: str) -> tuple[str, ...] | None:
    """The parts of the name of the view that a file makes, whatever else the file says; None if it makes none."""
    try:
        return _name(TokenReader(text, tokens(text), Origin()))
    except ViewError:
        return None


def query_of(text: str, statement: Statement, file: str | None = None) -> ViewText:
    """The query of a statement, with the place where it begins. NULL is refused in each column of the primary key."""
    origin = Origin(file).after(text, statement.query_offset)
    columns = tuple(OutputColumn(column.name, column.type) for column in statement.columns)
    required = (*statement.key, *(column.name for column in statement.columns if column.required))
    return ViewText(statement.query, origin=origin, columns=columns, required=frozenset(map(str.lower, required)))


_COLUMN_ENDS = ("NOT", "NULL", "COMMENT", "CONSTRAINT", "PRIMARY", "MASK", "DEFAULT", "GENERATED")
"""The words that end the type of a column."""
_KEY_OPTIONS = ("NOT", "ENFORCED", "NORELY", "RELY", "DEFERRABLE", "INITIALLY", "DEFERRED")
"""Options that Databricks allows after a primary key, and that change nothing here."""


def _statement(reader: TokenReader) -> Statement:
    statement = Statement(_name(reader))
    if reader.accept_symbol("("):
        statement = _with_elements(reader, statement)
    clauses = dict[str, Token]()
    while not reader.accept("AS"):
        statement = _with_clause(reader, statement, clauses)
    _refuse_unknown_columns(reader, statement, clauses)
    return _with_query(reader, statement)


def _name(reader: TokenReader) -> tuple[str, ...]:
    """The name of the view, with which the head begins."""
    reader.expect("CREATE")
    if reader.accept("OR"):
        reader.expect("REFRESH", "REPLACE")
    reader.expect("MATERIALIZED")
    reader.expect("VIEW")
    if reader.accept("IF"):
        reader.expect("NOT")
        reader.expect("EXISTS")
    return reader.dotted_name("the name of the view")


def _with_elements(reader: TokenReader, statement: Statement) -> Statement:
    """The statement with the columns and constraints in the parentheses after its name."""
    while True:
        if reader.peek_word("CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK", "EXPECT"):
            statement = _with_constraint(reader, statement)
        else:
            statement = _with_column(reader, statement)
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return statement


def _with_constraint(reader: TokenReader, statement: Statement) -> Statement:
    begin = reader.next()
    name = reader.name("the name of the constraint") if reader.accept("CONSTRAINT") else ""
    if reader.accept("PRIMARY"):
        return _with_key(reader, statement, begin)
    if reader.accept("EXPECT"):
        condition = reader.in_parentheses("the condition")
        if not name:
            reader.refuse("an expectation without a name", "Write CONSTRAINT <name> EXPECT (...).", begin)
        if any(name.lower() == other.check_name.lower() for other in statement.expectations):
            reader.refuse(f"a second constraint {name}", "Give each constraint a name of its own.", begin)
        expectation = _expectation(reader, name, condition, _on_violation(reader), begin)
        return replace(statement, expectations=(*statement.expectations, expectation))
    return reader.refuse(
        "a constraint that nothing here holds", "Give PRIMARY KEY (...) or EXPECT (...), or remove it.", begin
    )


def _expectation(reader: TokenReader, name: str, condition: str, on_failure: OnFailure, begin: Token) -> Expect:
    """What a constraint expects of each row; refused without a condition on one row, or a name of an asset check."""
    why = None if is_unique_key(condition) else why_not_of_the_row(condition)
    what = f"EXPECT ({condition}) cannot be evaluated: {why}"
    remedy = "Write a condition that is true or false of one row, and compute what it needs as a column of the query."
    if why is None:
        try:
            return Expect(condition, on_failure, name)
        except ValueError as error:
            what, remedy = clause(str(error)), "Give the constraint another name: an asset check will have it."
            if is_unique_key(condition):
                remedy = "Write ON VIOLATION QUARANTINE ROW, or ON VIOLATION FAIL UPDATE."
    return reader.refuse(what, remedy, begin, "VIEW_EXPECT")


def _with_key(reader: TokenReader, statement: Statement, begin: Token, column: str | None = None) -> Statement:
    """The statement with the key after PRIMARY: the column it is written at, or the columns in parentheses after it."""
    reader.expect("KEY")
    key = reader.names() if column is None else (column,)
    while reader.accept(*_KEY_OPTIONS):
        pass
    if statement.key:
        reader.refuse("a second primary key", "Name all columns of the key in one PRIMARY KEY (...).", begin)
    return replace(statement, key=key)


def _on_violation(reader: TokenReader) -> OnFailure:
    if not reader.accept("ON"):
        return "warn"
    reader.expect("VIOLATION")
    word = reader.expect("FAIL", "DROP", "QUARANTINE")
    if word.is_word("FAIL"):
        reader.expect("UPDATE")
        return "fail"
    reader.expect("ROW")
    return "drop" if word.is_word("DROP") else "quarantine"


def _with_column(reader: TokenReader, statement: Statement) -> Statement:
    begin = reader.next()
    column = DeclaredColumn(reader.name("a column"), _type(reader))
    if any(column.name.lower() == other.name.lower() for other in statement.columns):
        reader.refuse(f"a second column {column.name}", "Give each column a name of its own.", begin)
    while not (reader.peek_symbol(",") or reader.peek_symbol(")")):
        word = reader.next()
        if reader.accept("NOT"):
            reader.expect("NULL")
            column = replace(column, required=True)
        elif reader.accept("COMMENT"):
            column = replace(column, comment=reader.string())
        elif reader.accept("CONSTRAINT"):
            reader.name("the name of the constraint")
        elif reader.accept("PRIMARY"):
            statement = _with_key(reader, statement, word, column.name)
        else:
            reader.refuse_next("what a column may have: a type, NOT NULL, COMMENT '...' or PRIMARY KEY")
    return replace(statement, columns=(*statement.columns, column))


def _type(reader: TokenReader) -> str | None:
    """The type of a column as SQL; None if the head gives none."""
    parts, depth = list[Token](), 0
    while not reader.is_at_end:
        token = reader.next()
        if depth == 0 and (token.is_word(*_COLUMN_ENDS) or token.text in (",", ")")):
            break
        depth += 1 if token.text in ("(", "<") else -1 if token.text in (")", ">") else 0
        parts.append(reader.take())
    return spell(tuple(parts)) or None


def _with_clause(reader: TokenReader, statement: Statement, clauses: dict[str, Token]) -> Statement:
    """The statement with the clause that comes next; `clauses` holds the first word of each clause so far."""
    begin = reader.next()
    word = begin.text.upper()
    if word in clauses:
        reader.refuse(f"a second {word}", "Write each clause once.", begin)
    clauses[word] = begin
    if reader.accept("COMMENT"):
        return replace(statement, comment=reader.string())
    if reader.accept("PARTITIONED"):
        reader.expect("BY")
        return replace(statement, partitioned_by=reader.names())
    if reader.accept("CLUSTER"):
        reader.expect("BY")
        return replace(statement, clustered_by=reader.names())
    if reader.accept("TBLPROPERTIES"):
        return replace(statement, properties=MappingProxyType(reader.properties()))
    if reader.accept("REFRESH"):
        reader.expect("POLICY")
        return replace(statement, refresh=_refresh(reader))
    if reader.accept("USING"):
        reader.expect("DELTA")
        return statement
    remedy = _OTHER_CLAUSES.get(word, f"The clauses are: {_CLAUSES}; then AS and the query.")
    return reader.refuse(
        f"{word} is not a clause that means something here" if word else "AS is missing", remedy, begin
    )


_CLAUSES = "COMMENT, PARTITIONED BY, CLUSTER BY, TBLPROPERTIES, REFRESH POLICY, USING DELTA"
_OTHER_CLAUSES = {
    "SCHEDULE": "Remove it, and say when the view is materialized: views_from(..., automation_condition=automation()).",
    "TRIGGER": "Remove it, and say when the view is materialized: views_from(..., automation_condition=automation()).",
    "LOCATION": "Remove it: the table lies below the root of its IO manager, at its name.",
    "WITH": "Row filters are Databricks'. Remove the clause, and filter in WHERE.",
    "OPTIONS": "Remove it, and give properties of the table as TBLPROPERTIES.",
}


def _refresh(reader: TokenReader) -> Refresh:
    word = reader.expect("AUTO", "INCREMENTAL", "FULL")
    if word.is_word("AUTO"):
        return "auto"
    if word.is_word("FULL"):
        return "full"
    return "strict" if reader.accept("STRICT") else "incremental"


def _refuse_unknown_columns(reader: TokenReader, statement: Statement, clauses: Mapping[str, Token]) -> None:
    """Refuses two layouts at once, and a key or a layout by columns that the list of columns lacks."""
    if statement.partitioned_by and statement.clustered_by:
        reader.refuse("a table is partitioned or clustered, not both", "Remove one of the clauses.", clauses["CLUSTER"])
    declared = {column.name.lower() for column in statement.columns}
    by_role = {"PRIMARY": statement.key, "PARTITIONED": statement.partitioned_by, "CLUSTER": statement.clustered_by}
    for role, columns in by_role.items():
        for column in columns:
            if declared and column.lower() not in declared:
                reader.refuse(
                    f"the list of columns has no column {column}",
                    f"Name one of its columns: {', '.join(each.name for each in statement.columns)}.",
                    clauses.get(role),
                )


def _with_query(reader: TokenReader, statement: Statement) -> Statement:
    """The statement with its query, after which nothing but a semicolon may come."""
    if reader.is_at_end or reader.peek_symbol(";"):
        reader.refuse_next("the query")
    begin = last = reader.take()
    while not reader.is_at_end and not reader.peek_symbol(";"):
        last = reader.take()
    while reader.accept_symbol(";"):
        pass
    if not reader.is_at_end:
        reader.refuse(
            "a second statement begins here", "Give each view a file of its own.", reader.next(), "VIEW_STATEMENT"
        )
    return replace(statement, query=reader.text[begin.start : last.end], query_offset=begin.start)
