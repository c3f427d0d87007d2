"""The syntax tree of a function as text, without what decides nothing, and where its source is."""

import ast
import symtable
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TypeAlias, cast

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Chain: TypeAlias = tuple[str, ...]
"""A name and the attributes that the code takes of it: `helpers.clean` is ("helpers", "clean")."""

_CHANGES = frozenset(
    [
        *("append", "extend", "insert", "sort", "reverse", "remove", "clear", "pop"),
        *("add", "discard", "update", "setdefault", "popitem"),
    ]
)
"""Methods that change a list, a set or a dictionary."""


def bare_text(nodes: Iterable[ast.AST], *, decorators: bool = True, without: frozenset[str] = frozenset()) -> str:
    """The code of nodes without docstrings, annotations, comments and positions.

    The annotations of a class's fields stay, because they make its fields.
    """
    return "\n".join(ast.unparse(_bare_copy(node, without, decorators=decorators)) for node in nodes)


def _bare_copy(node: ast.AST, without: frozenset[str], *, decorators: bool) -> ast.AST:
    copy: ast.AST = deepcopy(node)
    if isinstance(copy, Function) and not decorators:
        copy.decorator_list = []
    if isinstance(copy, ast.ClassDef):
        copy.body = [each for each in copy.body if not (isinstance(each, Function) and each.name in without)]
    return ast.fix_missing_locations(cast("ast.AST", _Bare().visit(copy)))


class _Bare(ast.NodeTransformer):
    """Takes docstrings and annotations out of a tree."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: Function) -> ast.AST:
        self.generic_visit(node)
        node.returns = node.type_comment = None
        _drop_type_parameters(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        fields = {id(each): each.annotation for each in node.body if isinstance(each, ast.AnnAssign)}
        for each in node.body:
            if id(each) in fields:
                self.generic_visit(each)
        node.body = _without_docstring([each if id(each) in fields else self.visit(each) for each in node.body])
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        _drop_type_parameters(node)
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = node.type_comment = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)


def _drop_type_parameters(node: ast.AST) -> None:
    """Python 3.12 and newer have them."""
    if getattr(node, "type_params", None):
        node.type_params = []  # pyright: ignore[reportAttributeAccessIssue]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
        case _:
            return body or [ast.Pass()]


def names_in(text: str) -> list[Chain]:
    """The names that a text takes from outside of itself, sorted, each with the attributes that it takes of it."""
    tree = ast.parse(text)
    outer = _names_from_outside(ast.unparse(_WithoutNonlocal().visit(tree)))
    chains = {chain for node in ast.walk(tree) if (chain := _chain(node)) and chain[0] in outer}
    return sorted(chains)


class _WithoutNonlocal(ast.NodeTransformer):
    """Without its enclosing function a `nonlocal` is an error of syntax."""

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)


def _names_from_outside(text: str) -> set[str]:
    tables = [symtable.symtable(text, "?", "exec")]
    for table in tables:
        tables.extend(table.get_children())
    return {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_global() and symbol.is_referenced()
    }


def _chain(node: ast.AST) -> Chain:
    """The dotted name that an expression is; empty if it is none."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return (name,)
        case ast.Attribute(value=value, attr=attribute, ctx=ast.Load()):
            inner = _chain(value)
            return (*inner, attribute) if inner else ()
        case _:
            return ()


def state_in(text: str) -> set[str]:
    """The captured variables that a function assigns: its state, which is no code."""
    return {name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Nonlocal) for name in node.names}


def imports_in(text: str) -> list[str]:
    """The modules that a function imports when it is called, with leading dots where they are relative."""
    return sorted({module for node in ast.walk(ast.parse(text)) for module in _modules(node)})


def _modules(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            origin = "." * level + (module or "")
            yield origin
            yield from (f"{origin}{'' if origin.endswith('.') else '.'}{alias.name}" for alias in names)
        case _:
            pass


def names_changed_by_functions(tree: ast.Module) -> frozenset[str]:
    """The names of a module whose values its functions change, so that the values depend on what ran before."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function | ast.Lambda)]
    return frozenset(name for function in functions for node in ast.walk(function) for name in _changed_names(node))


def _changed_names(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Global(names=names):
            return names
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return (name,)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if attribute in _CHANGES:
            return (name,)
        case _:
            return ()


def statements_of(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module that make the value of a name: those at its top that name it."""
    return [each for each in tree.body if _makes(each, name)]


def _makes(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, Function | ast.ClassDef):
        return statement.name == name
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return False
    if isinstance(statement, ast.Assign | ast.AnnAssign):  # another name that is made of this one is no part of it
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(_has(target, name) for target in targets)
    return _has(statement, name)


def _has(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def origin_of(tree: ast.Module, name: str) -> tuple[str, str] | None:
    """The module from which a module imports a name, and the name there; None if it does not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return "." * node.level + (node.module or ""), alias.name
    return None


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
        return _parse(path, stat.st_mtime_ns, stat.st_size)
    except (SyntaxError, ValueError, RecursionError):
        return SourceFile(ast.Module([], []), (), frozenset(), {})
    except OSError:
        return None


@lru_cache(maxsize=128)
def _parse(path: str, modified: int, size: int) -> SourceFile:
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
