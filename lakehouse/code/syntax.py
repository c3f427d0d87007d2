"""A syntax tree as text without what decides nothing, and the names that the text takes from outside of itself."""

import ast
import symtable
from collections.abc import Iterable, Iterator
from copy import deepcopy
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

    Args:
        nodes: Statements or expressions.
        decorators: Whether the decorators of a function among the nodes count.
        without: Functions directly in a class among the nodes that do not count.
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
