"""The statements of a module by the names that they make, and names in them; read from its file."""

import ast
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TypeAlias, cast

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Chain: TypeAlias = tuple[str, ...]
"""A name and the attributes that the code takes of it: `helpers.clean` is ("helpers", "clean")."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of Python, as it is now.

    Args:
        tree: Its syntax tree.
        functions: The trees of its functions by their names and first lines; of several lambdas on a line all.
    """

    tree: ast.Module
    functions: Mapping[tuple[str, int], list[ast.AST]]

    def nodes_of(self, code: CodeType) -> list[ast.AST]:
        """The syntax tree of a function's code; empty if there is none at its line."""
        return self.functions.get((code.co_name, code.co_firstlineno), [])

    def statements_of(self, name: str) -> list[ast.stmt]:
        """The statements at the top of the file that make the value of a name, or change it."""
        return [each for each in self.tree.body if _makes(each, name)]

    def origin_of(self, name: str) -> tuple[str, str] | None:
        """The module from which the file imports a name, and the name there; None if it does not."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return "." * node.level + (node.module or ""), alias.name
        return None


def source_file(path: str) -> SourceFile | None:
    """The file of Python at an absolute path; None if there is none. If it is not Python, it is being edited: empty."""
    file = Path(path)
    if not file.is_absolute() or file.suffix != ".py":
        return None
    try:
        stat = file.stat()
        return _parse(path, stat.st_mtime_ns, stat.st_size)
    except (SyntaxError, ValueError, RecursionError):
        return SourceFile(ast.Module([], []), {})
    except OSError:
        return None


@lru_cache(maxsize=128)
def _parse(path: str, modified: int, size: int) -> SourceFile:
    """The file as of a time of modification and a size, which another content changes."""
    with tokenize.open(path) as file:
        tree = ast.parse(file.read())
    functions = defaultdict[tuple[str, int], list[ast.AST]](list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            functions["<lambda>", node.lineno].append(node)
        if isinstance(node, Function):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            functions[node.name, first].append(node)
    return SourceFile(tree, functions)


def _makes(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Import() | ast.ImportFrom():
            return False
        case ast.Assign(targets=targets):  # another name that is made of this one is no part of it
            return any(_has(target, name) for target in targets)
        case ast.AnnAssign(target=target):
            return _has(target, name)
        case _:
            return _has(statement, name)


def _has(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def bare(statements: Iterable[ast.stmt], without: Collection[str] = ()) -> list[ast.AST]:
    """Copies of statements without docstrings and the annotations of functions, and of classes without some methods."""
    copies = deepcopy(list(statements))
    for each in copies:
        if isinstance(each, ast.ClassDef):
            each.body = [one for one in each.body if not (isinstance(one, Function) and one.name in without)]
    return [cast("ast.AST", _Bare().visit(each)) for each in copies]


class _Bare(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def names_in(nodes: Iterable[ast.AST]) -> list[Chain]:
    """The names that statements read, sorted, each with the attributes that they take of it."""
    return sorted({chain for node in nodes for each in ast.walk(node) if (chain := tuple(_chain(each)))})


def _chain(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            yield name
        case ast.Attribute(value=value, attr=attribute, ctx=ast.Load()):
            inner = list(_chain(value))
            yield from [*inner, attribute] if inner else []
        case _:
            pass
