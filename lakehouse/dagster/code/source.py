"""What code does, as text: the statements of a file that make a name, and the instructions of a compiled function.

A function is identified by its instructions with their values, wherever it is in a file. They have no comments, format,
docstrings or annotations, and a later edit of the file does not change them, because they are what runs.
"""

import ast
import dis
import sys
import sysconfig
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias, cast

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Chain: TypeAlias = tuple[str, ...]
"""A name and the attributes that the code takes of it: `helpers.clean` is ("helpers", "clean")."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file, with its content of now."""

    tree: ast.Module
    functions: Mapping[tuple[str, int], list[ast.AST]]

    def nodes_of(self, code: CodeType) -> list[ast.AST]:
        """The syntax tree of a function's code; empty if there is none at its line."""
        return self.functions.get((code.co_name, code.co_firstlineno), [])

    def statements_of(self, name: str) -> list[ast.stmt]:
        """The statements at the top of the file that make the value of a name, or change it."""
        return [each for each in self.tree.body if _makes(each, name)]

    def origins_of(self, name: str) -> Iterator[tuple[str, str]]:
        """The modules from which the file may import a name when it is loaded, each with the name there."""
        for node in _run_at_load(self.tree):
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    if alias.name == "*" or (alias.asname or alias.name) == name:
                        yield module, name if alias.name == "*" else alias.name


def source_file(path: str) -> SourceFile | None:
    """The Python file at an absolute path; None if there is none. Empty if it does not parse: it is being edited."""
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
    """The file. The cache also goes by its time of modification and its size, which change with the content."""
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


def _run_at_load(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node that are executed when the file is loaded: those of no function."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from _run_at_load(child)


def _makes(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Import() | ast.ImportFrom():
            return False
        case ast.Assign(targets=targets, value=value):  # another name that is made from this one is not part of it
            within = [each.target for each in ast.walk(value) if isinstance(each, ast.NamedExpr)]
            return any(_has(target, name) for target in (*targets, *within))
        case ast.AnnAssign(target=target):
            return _has(target, name)
        case _:
            return _has(statement, name)


def _has(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def bare(statements: Iterable[ast.stmt], without: Collection[str] = ()) -> list[ast.AST]:
    """Copies of statements, without docstrings and annotations of functions, and without some methods of classes."""
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
    """The lines that describe a function and the functions in it; `instead` replaces texts."""
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
    if type(value) is frozenset:  # its order differs between processes
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
    """The captured variables that a function assigns: its state, which is not code."""
    return {str(each.argval) for each in _instructions(code) if each.opname in ("STORE_DEREF", "DELETE_DEREF")}


def imports_of(code: CodeType, package: str) -> Iterator[str]:
    """The modules that a function may import when it is called, by their full names."""
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


Namespace: TypeAlias = Mapping[str, Any]
"""The names of a loaded module."""
MISSING = object()
"""Takes the place of a value that does not exist."""
_INSTALLED = frozenset(["site-packages", "dist-packages"])
_STANDARD = Path(sysconfig.get_path("stdlib"))
_LIBRARY = (Path(__file__).parents[2], Path(__file__).parents[3] / "dagster_delta_lakehouse")
"""The packages of this library, which no project owns."""


@cache
def is_nobodys(path: str, root: Path | None = None) -> bool:
    """Whether a file belongs to this library, to Python, or to an installed package other than the one at `root`."""
    file = Path(path)
    if any(file.is_relative_to(folder) for folder in _LIBRARY):
        return True
    below = root.parts if root is not None and file.is_relative_to(root) else ()
    is_installed = not _INSTALLED.isdisjoint(file.parts[len(below) :])
    return is_installed or (file.is_relative_to(_STANDARD) and _INSTALLED.isdisjoint(below))


def project_of(path: str, module: str) -> Path:
    """The folder of a file's top-level package; without a package, the file's folder, or an installed file itself."""
    file = Path(path)
    if file.parent.name in _INSTALLED:
        return file
    top = folder = file.parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        top, folder = folder, folder.parent
    names = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
    if names and list(file.parent.parts[-len(names) :]) == names:
        by_name = Path(*file.parent.parts[: len(file.parent.parts) - len(names) + 1])
        return min(top, by_name, key=lambda each: len(each.parts))
    return top


def namespace_of(module: Any) -> Namespace | None:
    """The names of a loaded module; None if the value is not a module."""
    return object.__getattribute__(module, "__dict__") if issubclass(type(module), ModuleType) else None


def namespace_named(name: Any) -> Namespace | None:
    """The names of a module by the module's name; None if it has not been loaded."""
    return namespace_of(sys.modules.get(name)) if type(name) is str else None


def file_of(namespace: Namespace) -> str:
    """The file of a module; empty if it has none."""
    path = namespace.get("__file__")
    return path if type(path) is str else ""


def files_named(root: Path, module: str) -> Iterator[str]:
    """The files below a project's folder that a module's name may mean, by the folders alone."""
    parts = module.split(".") if module else []
    relative = parts[1:] if parts[:1] == [root.name] else parts
    for path in (root.joinpath(*relative, "__init__.py"), root.joinpath(*relative).with_suffix(".py")):
        if relative and path.is_file():
            yield str(path)


def project_around(function: FunctionType) -> Path:
    """The folder of the project that a function belongs to."""
    module: Any = function.__module__
    return project_of(path_of(function), module if type(module) is str else "")


def path_of(function: FunctionType) -> str:
    """The file in which a function was written."""
    return function.__code__.co_filename


def content_of(cell: Any) -> Any:
    """The value of a captured variable; `MISSING` if the variable is not set yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def functions_of(member: Any) -> list[FunctionType]:
    """The functions that a member of a class is made of."""
    if type(member) is property:
        made = [member.fget, member.fset, member.fdel]
    else:
        made = [member.__func__ if type(member) in (staticmethod, classmethod) else member]
    return [each for each in made if type(each) is FunctionType]


def innermost_of(function: Any) -> Any:
    """The function inside all decorators, as far as decorators record what they wrap."""
    passed = set[int]()
    while id(function) not in passed:
        passed.add(id(function))
        inner = inner_of(function)
        function = function if inner is None else inner
    return function


def inner_of(value: Any) -> Any:
    """What a partial, a method or a wrapper wraps; None if the value does not record that."""
    if type(value) is partial:
        return cast("partial[Any]", value).func
    if type(value) in (MethodType, staticmethod, classmethod):
        return value.__func__
    try:
        attributes: Any = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return cast("dict[str, Any]", attributes).get("__wrapped__") if type(attributes) is dict else None


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions that a function is made of: what it wraps, and what its functions have captured."""
    waiting, passed = [value], set[int]()
    for each in waiting:
        if id(each) in passed:
            continue
        passed.add(id(each))
        waiting.append(inner_of(each))
        if type(each) is FunctionType:
            yield each
            captured = (content_of(cell) for cell in each.__closure__ or ())
            waiting.extend(one for one in captured if type(one) in (FunctionType, partial, MethodType))
