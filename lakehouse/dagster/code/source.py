"""What decides, as text: the statements of a file that make a name, and what a function does that was compiled from it.

A function is told by its instructions with their values, wherever it stands: they have no comments, format, docstrings
and annotations, and an edit of the file since does not change them, because they are what runs.
"""

import ast
import dis
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias, cast

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


@lru_cache(maxsize=1_024)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


def listing(code: CodeType, instead: Mapping[str, str]) -> Iterator[str]:
    """The lines of a function and of the functions in it.

    Args:
        code: The function's code.
        instead: What stands for some of its texts.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield f"{code.co_name} {code.co_varnames} {counts} {code.co_flags & 0x3FF} {code.co_exceptiontable.hex()}"
    for each in _instructions(code):
        if type(each.argval) is CodeType:
            yield from listing(each.argval, instead)
        elif each.opcode in dis.hasconst:
            text = instead.get(each.argval) if type(each.argval) is str else None
            yield f"{each.opname} {_constant(each.argval) if text is None else text}"
        else:
            yield f"{each.opname} {each.argval}"


def _constant(value: Any) -> str:
    if type(value) is frozenset:  # each process has another order
        return f"{{{', '.join(sorted(map(_constant, cast('frozenset[Any]', value))))}}}"
    if type(value) is tuple:
        return f"({', '.join(map(_constant, cast('tuple[Any, ...]', value)))})"
    return hex(value) if type(value) is int else repr(value)


def names_of(code: CodeType) -> list[Chain]:
    """The names that a function takes from its module, sorted, each with the attributes that it takes of it."""
    return sorted(set(_names(code)))


def _names(code: CodeType) -> Iterator[Chain]:
    chain = list[str]()
    for each in _instructions(code):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(each.argval))
            continue
        if chain:
            yield tuple(chain)
        chain = [str(each.argval)] if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") else []
        if type(each.argval) is CodeType:
            yield from _names(each.argval)


def assigned_in(code: CodeType) -> set[str]:
    """The captured variables that a function assigns: its state, which is no code."""
    return {str(each.argval) for each in _instructions(code) if each.opname in ("STORE_DEREF", "DELETE_DEREF")}


def imports_of(code: CodeType, package: str) -> Iterator[str]:
    """The modules that a function may import when it is called, by their whole names."""
    before = list[Any]()
    for each in _instructions(code):
        if each.opname == "IMPORT_NAME":
            level, names = before[-2:]
            module = resolve_name("." * level + str(each.argval), package) if level else str(each.argval)
            yield module
            yield from (f"{module}.{name}" for name in names or ())
        if type(each.argval) is CodeType:
            yield from imports_of(each.argval, package)
        before.append(each.argval)
