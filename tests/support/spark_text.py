"""How Spark reads names and literals in the text of a statement: an oracle, written from its grammar.

Grammar: SqlBaseLexer.g4 (STRING_LITERAL, BACKQUOTED_IDENTIFIER); unescaping: SparkParserUtils.unescapeSQLString;
substitution before all of that: VariableSubstitution, `${...}` anywhere in the text.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.|'')*')|(?P<name>`(?:[^`]|``)*`)|(?P<word>[A-Za-z_]+)|(?P<number>\d+)"""
    r"""|(?P<sign><=>|>=|<=|<>|[=<>(),.+-])|(?P<space>\s+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\([0-3][0-7]{2})|\\(.)|''", re.DOTALL)
_SHORT = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """The kind and value of every token; strings and names decoded.

    Raises:
        ValueError: The text would be substituted, or is not made of tokens.
    """
    if re.search(r"\$\{[^}$\s]+\}", text):
        raise ValueError(f"Spark would substitute a variable in {text!r}")
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"no token at {text[at:]!r}")
        at, kind = found.end(), str(found.lastgroup)
        if kind != "space":
            yield kind, _decoded(kind, found.group())


def _decoded(kind: str, text: str) -> str:
    match kind:
        case "string":
            return _ESCAPE.sub(_character, text[1:-1])
        case "name":
            return text[1:-1].replace("``", "`")
        case _:
            return text


def _character(escape: re.Match[str]) -> str:
    if escape.group() == "''":
        return "'"
    if escape.group(1):
        return chr(int(escape.group(1), 16))
    if escape.group(2):
        return chr(int(escape.group(2), 8))
    return _SHORT.get(escape.group(3), escape.group(3))
