"""From a function's code to its syntax tree in a file, unless the file has been edited since the code was loaded."""

import ast
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType

from lakehouse.code.syntax import Function, names_changed_by_functions


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of Python, as it is now.

    Args:
        tree: Its syntax tree.
        codes: The code of each function in it.
        changed: The names whose values its functions change.
        functions: The trees of its functions by their names and first lines.
    """

    tree: ast.Module
    codes: tuple[CodeType, ...]
    changed: frozenset[str]
    functions: Mapping[tuple[str, int], list[ast.AST]]

    def nodes_of(self, code: CodeType) -> list[ast.AST]:
        """The syntax tree of a function's code; empty if the file no longer says what the code does.

        Several lambdas on one line count together.
        """
        lines = [each.co_firstlineno for each in self.codes if _is_same(each, code)]
        if not lines:
            return []
        line = code.co_firstlineno if code.co_firstlineno in lines else lines[0]
        return self.functions[code.co_name, line]

    def class_of(self, qualname: str) -> list[ast.AST]:
        """The syntax trees of the classes of a qualified name."""
        return [node for name, node in _classes(self.tree, "") if name == qualname]


def source_file(path: str) -> SourceFile | None:
    """The file of Python at an absolute path; None if there is none.

    A file that is no Python is one that somebody is editing: it says nothing of the code that runs.
    """
    file = Path(path)
    if not file.is_absolute() or file.suffix != ".py":
        return None
    try:
        stat = file.stat()
        return _parsed(path, stat.st_mtime_ns, stat.st_size)
    except (SyntaxError, ValueError, RecursionError):
        return SourceFile(ast.Module([], []), (), frozenset(), {})
    except OSError:
        return None


@lru_cache(maxsize=128)
def _parsed(path: str, modified: int, size: int) -> SourceFile:
    """The file as of a time of modification and a size, which another content changes."""
    with tokenize.open(path) as file:
        text = file.read()
    tree = ast.parse(text)
    codes = compile(text, path, "exec", dont_inherit=True)
    functions = defaultdict[tuple[str, int], list[ast.AST]](list)
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.Lambda):
            functions[_begin(node)].append(node)
    return SourceFile(tree, tuple(_within(codes)), names_changed_by_functions(tree), functions)


def _within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield constant
            yield from _within(constant)


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Whether two functions do the same, wherever they stand."""
    return (
        (code.co_qualname, code.co_code, code.co_names, code.co_varnames)
        == (other.co_qualname, other.co_code, other.co_names, other.co_varnames)
        and len(code.co_consts) == len(other.co_consts)
        and all(_is_same_constant(*pair) for pair in zip(code.co_consts, other.co_consts, strict=True))
    )


def _is_same_constant(value: object, other: object) -> bool:
    if type(value) is CodeType and type(other) is CodeType:
        return _is_same(value, other)
    return type(value) is type(other) and value == other


def _begin(node: Function | ast.Lambda) -> tuple[str, int]:
    """The name and the first line of a function's code."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, Function):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)
