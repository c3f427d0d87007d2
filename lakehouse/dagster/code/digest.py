"""From a function to the digest of its code, and of the functions, classes and constants that its code names.

Each of them is a node of a graph. Its text names other nodes by their numbers, in the order in which they are met, so
that recursion needs no end and the texts together decide the digest. Values are looked at by their exact types only,
so that no code of the user's is called.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import EnumType
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias, cast

from lakehouse.cursor.code import Code
from lakehouse.dagster.code.objects import (
    MISSING,
    Namespace,
    Printer,
    absolute_name,
    content_of,
    file_of,
    files_named,
    functions_in,
    functions_of,
    inner_of,
    innermost_of,
    is_nobodys,
    names_of,
    namespace_named,
    namespace_of,
    path_of,
    project_around,
    shape_of,
    type_of,
)
from lakehouse.dagster.code.syntax import (
    Chain,
    SourceFile,
    bare_text,
    imports_in,
    names_in,
    origin_of,
    source_file,
    state_in,
    statements_of,
)
from lakehouse.dagster.code.view_texts import with_bare_texts

FORMAT = 2
"""The format of digests. Another one makes all marks be believed once."""
KIND = f"{FORMAT}/{sys.version_info.major}.{sys.version_info.minor}"
MOST = 2_000
"""So many nodes count; no project names as many from one asset."""
_MARK = "\0"
Lines: TypeAlias = Iterator[str]


def code_of(function: Any) -> Code | None:
    """The code of an asset's function; None if its source cannot be read. It raises nothing.

    Args:
        function: The function, however decorated; a partial or a bound method of one.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # Python has warned of the code when it was loaded
            return _Graph.of(function).code()
    except Exception:  # a run does not fail because of how its code is written
        return None


@dataclass
class _Graph:
    """What has been met of the code.

    Args:
        function: The asset's function as Dagster has it.
        innermost: The function in it that no decorator made.
        roots: The folders of the projects of the functions that the function is made of.
    """

    function: Any
    innermost: Any
    roots: tuple[Path, ...]
    _numbers: dict[tuple[Any, ...], int] = field(init=False, default_factory=dict[tuple[Any, ...], int])
    _nodes: list[tuple[str, Callable[[], Lines]]] = field(
        init=False, default_factory=list[tuple[str, Callable[[], Lines]]]
    )

    @classmethod
    def of(cls, function: Any) -> "_Graph":
        innermost = innermost_of(function)
        home = project_around(innermost) if type(innermost) is FunctionType else None  # it may be installed
        made_of = [each for each in functions_in(function, lambda _: True) if not is_nobodys(path_of(each), home)]
        roots = {project_around(each): None for each in made_of if source_file(path_of(each)) is not None}
        return cls(function, innermost, tuple(roots))

    def code(self) -> Code | None:
        first, texts = self._refer(self.innermost), list[str]()
        whole = [first, self._refer(self.function)]
        while len(texts) < min(len(self._nodes), MOST):
            texts.append("\n".join(self._nodes[len(texts)][1]()))
        if not texts:
            return None
        parts = dict[str, str]()
        for (name, _), text in zip(self._nodes, texts, strict=False):
            parts[name] = parts.get(name, "") + self._with_names(text)
        return Code.of(KIND, (*map(str, whole), *texts), parts)

    def _with_names(self, text: str) -> str:
        """The text with names of nodes in place of their numbers, which a change of another node moves."""
        pieces = text.split(_MARK)
        pieces[1::2] = (self._nodes[int(number)][0] for number in pieces[1::2])
        return "".join(pieces)

    def _node(self, key: tuple[Any, ...], name: str, lines: Callable[[], Lines]) -> str:
        """What stands for a node in texts."""
        if key not in self._numbers:
            self._numbers[key] = len(self._nodes)
            self._nodes.append((name, lines))
        return f"{_MARK}{self._numbers[key]}{_MARK}"

    def _is_own(self, path: str) -> bool:
        """Whether a file is the project's and can be read."""
        roots = (root for root in self.roots if Path(path).is_relative_to(root))
        return any(not is_nobodys(path, root) for root in roots) and source_file(path) is not None

    def _refer(self, value: Any) -> str | None:
        """What stands for a function, a class or a member of an enumeration; None for every other value."""
        kind = type_of(value)
        if kind is FunctionType and self._is_own(path_of(value)):
            name = value.__code__.co_qualname
            return self._node(("function", id(value)), _short(name), lambda: self._function(value))
        if kind is partial:
            return f"partial {self._refer(value.func)} {self._print(value.args)} {self._print(value.keywords)}"
        if issubclass(kind, type):
            name = cast("str", type.__getattribute__(value, "__qualname__"))
            namespace = namespace_named(type.__getattribute__(value, "__module__"))
            if namespace is None or not self._is_own(file_of(namespace)):
                return name
            return self._node(("class", id(value)), _short(name), lambda: self._class(value, name, namespace))
        if issubclass(type(kind), EnumType):
            return f"{self._refer(kind)}.{object.__getattribute__(value, '__dict__').get('_name_')}"
        made_of = functions_in(value, lambda each: not self._is_own(path_of(each)))
        own = [str(self._refer(each)) for each in made_of if self._is_own(path_of(each))]
        if own:
            return ", ".join(own)
        return value.__qualname__ if kind in (FunctionType, BuiltinFunctionType) else None

    def _print(self, value: Any) -> str:
        return self._printer().text(value)

    def _printer(self) -> Printer:
        return Printer(str(self.roots[0]) if self.roots else _MARK, self._refer)

    def _function(self, function: FunctionType) -> Lines:
        """The text of a function of the project."""
        code = function.__code__
        file = cast("SourceFile", source_file(code.co_filename))
        nodes = [with_bare_texts(node, function.__globals__, code.co_filename) for node in file.nodes_of(code)]
        # The file has been edited since, or the code was rewritten when it was loaded: then what runs decides.
        text = bare_text(nodes, decorators=function is not self.innermost) if nodes else ""
        yield text or self._print(shape_of(code))
        yield f"defaults {self._print(function.__defaults__)} {self._print(function.__kwdefaults__)}"
        yield f"wraps {self._refer(inner_of(function))}"
        captured = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for name in sorted(captured.keys() - state_in(text)):
            yield f"{name} = {self._print(content_of(captured[name]))}"
        chains = names_in(text) if nodes else sorted((name,) for name in names_of(code))
        yield from self._meanings((chain for chain in chains if chain[0] not in captured), function.__globals__)
        yield from self._import_lines(text, function.__globals__)

    def _class(self, kind: type, name: str, namespace: Namespace) -> Lines:
        """The text of a class of the project; its methods are nodes of their own."""
        path = file_of(namespace)
        nodes = cast("SourceFile", source_file(path)).class_of(name)
        members = type.__getattribute__(kind, "__dict__").items()
        methods = {key: each for key, value in members for each in functions_of(value) if path_of(each) == path}
        text = bare_text(nodes, without=frozenset(methods))
        yield text or name
        yield from self._meanings(names_in(text), namespace)
        yield from (f"{key} is {self._refer(methods[key])}" for key in sorted(methods))

    def _meanings(self, chains: Iterable[Chain], namespace: Namespace) -> Lines:
        """What the names in a text mean in a module."""
        for chain in chains:
            token = self._meaning(chain, namespace)
            if token is not None:
                yield f"{'.'.join(chain)}: {token}"

    def _meaning(self, chain: Chain, namespace: Namespace) -> str | None:
        """What a name of the project means; None for a name of nobody's, or one that is not there yet."""
        name, *attributes = chain
        value = namespace.get(name, MISSING)
        if value is MISSING:
            return None
        inner = namespace_of(value)
        if inner is not None:
            is_own = self._is_own(file_of(inner)) or not file_of(inner)  # a folder without `__init__.py` has no file
            return self._meaning(tuple(attributes), inner) if attributes and is_own else None
        token = self._refer(value)
        if token is not None and _MARK in token:
            return token
        if issubclass(type(value), (type, FunctionType, BuiltinFunctionType)):
            return None
        return self._constant(name, value, namespace) if self._is_own(file_of(namespace)) else None

    def _constant(self, name: str, value: Any, namespace: Namespace) -> str:
        return self._node(("constant", id(namespace), name), name, lambda: self._constant_lines(name, value, namespace))

    def _constant_lines(self, name: str, value: Any, namespace: Namespace) -> Lines:
        """A constant by its value, or by the statements that make it if its value does not count, or does not last."""
        file = cast("SourceFile", source_file(file_of(namespace)))
        origin = origin_of(file.tree, name)
        if origin is not None:
            home = namespace_named(absolute_name(origin[0], namespace))
            if home is not None and home is not namespace and self._is_own(file_of(home)):
                yield str(self._meaning((origin[1],), home))
                return
        printer = self._printer()
        text = printer.text(value)
        if printer.is_complete and name not in file.changed:
            yield text
            return
        statements = bare_text(statements_of(file.tree, name))
        yield statements
        yield from self._meanings((chain for chain in names_in(statements) if chain != (name,)), namespace)

    def _import_lines(self, text: str, namespace: Namespace) -> Lines:
        """The modules of the project that a function imports when it is called. They may not be loaded yet."""
        for module in imports_in(text):
            name = absolute_name(module, namespace)
            for path in {path: None for root in self.roots for path in files_named(root, name)}:
                if self._is_own(path):
                    yield f"{module}: {self._node(('module', path), name, lambda path=path: _module(path))}"


def _module(path: str) -> Lines:
    yield bare_text([cast("SourceFile", source_file(path)).tree])


def _short(qualname: str) -> str:
    return qualname.replace("<locals>.", "")[-64:]
