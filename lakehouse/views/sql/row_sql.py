"""Whether SQL that is put into other SQL goes by the columns of one row alone, by its words."""

import re

from lakehouse.errors.views import ViewError
from lakehouse.views.functions import ROW_FUNCTIONS
from lakehouse.views.sql.tokens import TokenKind, cut, replace_tokens

TIME = r"T?\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?(?:\s*[a-z+-][\w:/+-]*)?"
"""A time without a date, perhaps with a zone, which Spark takes for that time on the day of the run."""
_OF_THE_RUN = re.compile(rf"['\"]\s*(?:(?:now|today|tomorrow|yesterday)\b|{TIME}\s*['\"])|\$\{{", re.IGNORECASE)
"""Texts that Spark takes for the day of the run, and those that it takes from the session."""
_NOT_OF_THE_ROW = re.compile(
    r"(?:^|[(,])\s*\*|(?:[a-z_]\w*|`)\s*\.\s*\*|\bselect\b|\(\s*(?:table|from|values)\b|"
    r"(?<![.`\w])(?:localtimestamp|(?:session_|system_|current_)?user|current_(?:date|time|timestamp))\b|"
    r"\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
"""Stars, which name columns that are not there yet, other tables, and functions that are called without brackets."""
_CALL = re.compile(r"(?P<quoted>[`\"])\s*\(|(?P<part>\.\s*)?\b(?P<name>[a-z_]\w*)\s*\(", re.IGNORECASE)

WORDS = frozenset(
    {
        *("and", "or", "not", "in", "is", "like", "ilike", "rlike", "regexp", "between", "case", "when", "then"),
        *("else", "end", "as", "distinct", "from", "on", "div", "escape", "any", "some", "all", "exists", "decimal"),
        *("dec", "numeric", "char", "varchar", "character", "array", "map", "struct", "interval", "cast", "try_cast"),
        *("if",),
    }
)
"""What may stand before a bracket without being a function, and forms that the parser treats as functions."""


def names_in(sql: str) -> str:
    """The SQL without its texts; what double quotes hold may be a name."""
    texts = (token for token in cut(sql) if token.kind is TokenKind.TEXT and token.text.endswith("'"))
    return replace_tokens(sql, ((text, "''") for text in texts))


def why_not_of_the_row(sql: str) -> str | None:
    """Why SQL may go by more than the columns of one row, as a sentence; None if it does not."""
    try:
        names, rest = names_in(sql), replace_tokens(sql, ((token, "") for token in cut(sql)))
    except ViewError as error:
        return f"An Aggregate's SQL is put into other SQL, and in {sql!r} {error.what}."
    if rest.strip():
        return f"An Aggregate's SQL is put into other SQL, so it has no comments: {sql!r}."
    match = _OF_THE_RUN.search(sql) or _NOT_OF_THE_ROW.search(names)
    if match is not None:
        return f"An Aggregate goes by the columns of one row; {sql!r} says {match[0].strip()!r}."
    unknown = next((call for call in _CALL.finditer(names) if not _is_known(call)), None)
    if unknown is None:
        return None
    return (
        f"An Aggregate goes by the columns of one row; {sql!r} calls {unknown[0].rstrip('( ')!r}, of which that is not "
        f"known. Compute the column in an asset of its own and sum that, or return a Merge."
    )


def _is_known(call: re.Match[str]) -> bool:
    if call["quoted"] is not None or call["part"] is not None:
        return False  # a function by a quoted or a qualified name is somebody's own
    return call["name"].lower() in ROW_FUNCTIONS | WORDS
