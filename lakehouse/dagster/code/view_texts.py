"""The texts that a function returns as its view, found in its syntax tree without a call of the function."""

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from lakehouse.dagster.code.source import MISSING, Function, Namespace, innermost_of, namespace_of, path_of, source_file
from lakehouse.errors.views import ViewError
from lakehouse.views.files.query_file import read_query
from lakehouse.views.sql.tokens import canonical
from lakehouse.views.view_text import Origin, ViewText
from lakehouse.writes.view import View

TEXT = "__lakehouse_view__"
"""The attribute of a function that returns a view from a file of `views_from`: its text."""


_QUOTES = re.compile(r"[rRuU]?(?:\"{3}|'{3}|\"|')")


@dataclass(frozen=True, slots=True)
class KnownText:
    """A text that a function returns as its view.

    Args:
        text: The text; its arguments and `touch` as far as they are known.
        has_known_args: Whether the arguments are known.
        has_known_touch: Whether it is known by which columns changes are to be followed.
    """

    text: ViewText
    has_known_args: bool = True
    has_known_touch: bool = True


def texts_of(function: Any) -> tuple[KnownText, ...]:
    """The constant texts among those that a function returns as its view.

    A text that is made when the function is called is not among them: only a run can read it.

    Raises:
        ViewError: A file that the function names cannot be read, or holds no query.
    """
    return tuple(text for text in _returned_texts(function) if text is not None)


def only_text_of(function: Any) -> ViewText | None:
    """The text of the view that a function returns, without its values; None if only a run shows all of the text."""
    match _returned_texts(function):
        case [KnownText(text, has_known_args=True, has_known_touch=True)]:
            return text
        case _:
            return None


def _returned_texts(function: Any) -> list[KnownText | None]:
    """The text of each value that a function returns; None for a value that is not a view with a constant text."""
    innermost = innermost_of(function)
    if type(innermost) is not FunctionType:
        return []
    text: Any = getattr(innermost, TEXT, None)
    if isinstance(text, ViewText):
        return [KnownText(text)]
    values = (value for node in _nodes_of(innermost) for value in _returned_values(node))
    return [_text_of(value, innermost) if isinstance(value, ast.Call) else None for value in values]


def _nodes_of(function: FunctionType) -> list[ast.AST]:
    file = source_file(path_of(function))
    return [] if file is None else file.nodes_of(function.__code__)


def _returned_values(node: ast.AST) -> Iterator[ast.expr | None]:
    """The values that a function itself returns, without those that functions inside it return."""
    if isinstance(node, ast.Return):
        yield node.value
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            yield from _returned_values(child)


def _text_of(call: ast.Call, function: FunctionType) -> KnownText | None:
    """The text of the view that a call makes; None if the call makes no view, or its text is not constant."""
    constant = _constant_of(call)
    if constant is None:
        return None
    text = cast("str", constant.value)
    named = {each.arg: each.value for each in call.keywords}
    values = _values(call.args[1] if len(call.args) > 1 else named.get("args"))
    touch = _names(call.args[2] if len(call.args) > 2 else named.get("touch"))
    if is_view(call.func, function.__globals__):
        view = ViewText(text, origin=_origin_of(constant, function))
    elif _is_view_of(call.func, function.__globals__):
        view = read_query(text, path_of(function))
    else:
        return None
    text_of_view = replace(view, args=values or {}, touch=touch or ())
    return KnownText(text_of_view, has_known_args=values is not None, has_known_touch=touch is not None)


def _constant_of(call: ast.Call) -> ast.Constant | None:
    """The constant text that a call takes as its first argument."""
    named = (each.value for each in call.keywords if each.arg in ("query", "path"))
    first = call.args[0] if call.args else next(named, None)
    return first if isinstance(first, ast.Constant) and type(first.value) is str else None


def _values(args: ast.expr | None) -> Mapping[str, Any] | None:
    """The arguments by the names that the code gives, without their values; None if the names are not constant."""
    match args:
        case None | ast.Constant(value=None):
            return {}
        case ast.Dict(keys=keys) if all(isinstance(key, ast.Constant) for key in keys):
            return {str(cast("ast.Constant", key).value): None for key in keys}
        case _:
            return None


def _names(touch: ast.expr | None) -> tuple[str, ...] | None:
    """The columns that the code names for `touch`; None if they are not constant."""
    match touch:
        case None | ast.Constant(value=None):
            return ()
        case ast.Constant(value=str(name)):
            return (name,)
        case ast.Tuple(elts=names) | ast.List(elts=names) if all(isinstance(name, ast.Constant) for name in names):
            return tuple(str(cast("ast.Constant", name).value) for name in names)
        case _:
            return None


def is_view(expression: ast.expr, namespace: Namespace) -> bool:
    """Whether an expression of a module is the class `View`."""
    match expression:
        case ast.Name(id=name):
            return namespace.get(name) is View
        case ast.Attribute(value=ast.Name(id=name), attr="View"):
            module = namespace_of(namespace.get(name, MISSING))
            if module is None:
                return False
            # The package loads its names when they are first asked for.
            return module.get("View", View if module.get("__name__") == "lakehouse" else None) is View
        case _:
            return False


def _is_view_of(expression: ast.expr, namespace: Namespace) -> bool:
    return isinstance(expression, ast.Attribute) and expression.attr == "of" and is_view(expression.value, namespace)


def _origin_of(constant: ast.Constant, function: FunctionType) -> Origin:
    """Where a text begins in its Python file, after its quotes."""
    path = Path(path_of(function))
    with suppress(OSError, SyntaxError), tokenize.open(path) as lines:
        segment = ast.get_source_segment(lines.read(), constant) or ""
        quotes = _QUOTES.match(segment)
        if quotes is not None and segment[quotes.end() :].startswith(cast("str", constant.value)):
            return Origin(str(path), constant.lineno, constant.col_offset + 1 + quotes.end())
    return Origin(str(path), constant.lineno, constant.col_offset + 1, is_verbatim=False)


def bare_texts(function: FunctionType) -> dict[str, str]:
    """What replaces the texts of views in a function: their tokens, or those of the query in the file that they name.

    A text that is not SQL, or the name of a file that cannot be read, is not replaced.
    """
    texts = dict[str, str]()
    for call in (each for node in _nodes_of(function) for each in ast.walk(node) if isinstance(each, ast.Call)):
        constant, namespace = _constant_of(call), function.__globals__
        if constant is None or not (is_view(call.func, namespace) or _is_view_of(call.func, namespace)):
            continue
        text = cast("str", constant.value)
        with suppress(ViewError):
            query = text if is_view(call.func, namespace) else read_query(text, path_of(function)).text
            texts[text] = "\n".join(canonical(query))
    return texts
