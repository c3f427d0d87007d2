"""From a function to the digest of its code, and of the functions, classes and constants that its code names.

What counts: the compiled code of each function of the project that is reached by name, the statements that make the
classes and constants that these functions name, and the values that a factory, a decorator or a default gave them. Each
is a node of a graph. The text of a node names other nodes by their numbers, in the order in which they are met, so that
recursion ends. To take the text of a whole file would be a shorter rule, but then an edit of one asset would have every
table of its file compared.

What resources hand to the function counts by its values. A field whose name shows that it holds a secret does not
count: a secret decides no row, and not even its digest belongs in a log that others read. In doubt a field counts.
"""

import ast
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from importlib.util import resolve_name
from math import isfinite
from pathlib import Path, PurePath
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias, cast
from uuid import UUID

import dagster as dg
from pydantic import BaseModel, SecretBytes, SecretStr

from lakehouse.cursor.digests import Code
from lakehouse.dagster.code.source import (
    MISSING,
    Chain,
    Namespace,
    SourceFile,
    assigned_in,
    bare,
    content_of,
    file_of,
    files_named,
    functions_in,
    functions_of,
    imports_of,
    inner_of,
    innermost_of,
    is_nobodys,
    listing,
    names_in,
    names_of,
    namespace_named,
    namespace_of,
    path_of,
    project_around,
    source_file,
)
from lakehouse.dagster.code.view_texts import bare_texts

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET = re.compile(
    r"(^| )(passwords?|passwd|pwd|passphrase|secrets?|credentials?)$"
    r"|(^|(^| )(access|api|auth|bearer|oauth|refresh|sas|security|session) )tokens?$"
    r"|(^| )(access|api|encryption|master|private|secret|shared|signing|ssh) keys?$"
    r"|(^|(^| )(db|user) )pass$"
)
"""How the words of a secret's name end. (`account_key`, `eos_token` and `band_pass` do not name secrets.)"""
_SECRET_PARTS = re.compile(
    r"(?<=://)([^/@:\s]*):[^/@\s]*(?=@)|\b(?:password|pwd|account_?key|shared_?access_?key)=[^;\s]*", re.IGNORECASE
)
"""The secret in an address, as `user:password@`, or in a connection string."""


def fields_of(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The values of resources: a configurable resource field by field, each as `resource.field`; any other whole.

    A resource with a Spark session decides how rows are computed, not which rows: its fields do not count. Neither do
    secrets, nor objects that are not values (a client of another library), because it cannot be found out whether two
    of them are the same.
    """
    values = dict[str, Any]()
    for key, resource in resources.items():
        if _is_resource(resource):
            if not hasattr(resource.__class__, "spark_session"):
                fields = {name: getattr(resource, name) for name in resource.__class__.model_fields}
                values |= {f"{key}.{name}": value for name, value in fields_of(fields).items()}
        elif not is_secret(key):
            with suppress(ValueError, RecursionError):  # it is an object, or contains itself
                values[key] = plain(_value_of(resource))
    return values


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    return _SECRET.search(" ".join(_WORD.findall(name)).lower()) is not None


def _refuse(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} is no value")


def plain(value: Any, other: Callable[[Any], Any] = _refuse) -> Any:
    """A value as JSON, without the secrets in it; a set in an order that is the same in every process.

    Only values of some known types are read: reading an iterator, or an open file, would use it up.

    Args:
        value: The value.
        other: Gives what replaces an object of any other type; not used in a set, whose order it would decide.

    Raises:
        ValueError: The value, or a part of it, is an object of another type.
    """

    def without_secrets(values: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(plain(name)): plain(each, other) for name, each in values.items() if not is_secret(str(name))}

    match value:
        case Enum():
            return plain(value.value, other)
        case str():
            return _SECRET_PARTS.sub(r"\1", value)
        case float():
            return value if isfinite(value) else repr(value)
        case None | int():
            return value
        case bytes():
            return value.hex()
        case SecretStr() | SecretBytes():
            return None
        case BaseModel():
            return without_secrets({name: getattr(value, name) for name in type(value).model_fields})
        case Mapping():
            return without_secrets(cast("Mapping[Any, Any]", value))
        case set() | frozenset():
            return sorted(map(plain, cast("frozenset[Any]", value)), key=json.dumps)
        case list() | tuple():
            return [plain(each, other) for each in cast("list[Any]", value)]
        case date() | time() | timedelta() | Decimal() | UUID() | PurePath() | re.Pattern():
            return str(cast("Any", value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return without_secrets({field.name: getattr(value, field.name) for field in fields(value)})
        case _:
            return other(value)


def _is_resource(value: Any) -> bool:
    return isinstance(value, dg.ConfigurableResource)


def _value_of(value: Any) -> Any:
    """A field's value. In a run Dagster has resolved an environment variable; for a command it is resolved here."""
    ask = (
        getattr(value, "get_value", None) if isinstance(value, str | int) else None
    )  # an EnvVar is a str, an EnvVar.int an int
    return value if ask is None else ask()


FORMAT = 3
"""The format of digests. If it changes, every mark is believed once."""
KIND = f"{FORMAT}/{sys.version_info.major}.{sys.version_info.minor}"
MOST = 2_000
"""How many nodes count at most; no project reaches as many from one asset."""
_MARK = "\x7f"
Lines: TypeAlias = Iterator[str]


def code_of(function: Any) -> Code | None:
    """The code of an asset's function; None if its source cannot be read. Never raises."""
    try:
        with warnings.catch_warnings(action="ignore"):  # Python warned of the code when it was loaded
            return _Graph.of(function).code()
    except Exception:  # a run does not fail because of how its code is written
        return None


@dataclass
class _Graph:
    """The nodes of the code that have been met so far."""

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
        made_of = [each for each in functions_in(function) if not is_nobodys(path_of(each), home)]
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
        """The text with the names of nodes in place of their numbers, which shift when another node changes."""
        return re.sub(f"{_MARK}([0-9]+){_MARK}", lambda number: self._nodes[int(number[1])][0], text)

    def _node(self, key: tuple[Any, ...], name: str, lines: Callable[[], Lines]) -> str:
        """The token that stands for a node in texts."""
        if key not in self._numbers:
            self._numbers[key] = len(self._nodes)
            self._nodes.append((name, lines))
        return f"{_MARK}{self._numbers[key]}{_MARK}"

    def _is_own(self, path: str) -> bool:
        """Whether a file is the project's and can be read."""
        roots = (root for root in self.roots if Path(path).is_relative_to(root))
        return any(not is_nobodys(path, root) for root in roots) and source_file(path) is not None

    def _refer(self, value: Any) -> str:
        """The token for a function, a class, or something that wraps one; `~` for every other object."""
        kind = cast("type[Any]", type(value))
        if kind is FunctionType and self._is_own(path_of(value)):
            name = value.__code__.co_qualname
            return self._node(("function", id(value)), _short(name), lambda: self._function(value))
        if issubclass(kind, type):
            name = cast("str", type.__getattribute__(value, "__qualname__"))
            namespace = namespace_named(type.__getattribute__(value, "__module__"))
            if namespace is None or not self._is_own(file_of(namespace)):
                return name
            return self._node(("class", id(value)), _short(name), lambda: self._class(value, name, namespace))
        if kind is partial:
            return f"{self._refer(value.func)} of {self._value([value.args, value.keywords])}"
        inner = inner_of(value)
        if inner is not None:
            return self._refer(inner)
        return value.__qualname__ if kind in (FunctionType, BuiltinFunctionType) else "~"

    def _value(self, value: Any) -> str:
        """A given value, as text; `~` if it cannot be written as text."""
        try:
            text = json.dumps(plain(value, self._refer), sort_keys=True, ensure_ascii=False)
        except Exception:  # it is an object of the user's, which may raise anything, or contains itself
            return "~"
        return text.replace(str(self.roots[0]), ".") if self.roots else text

    def _function(self, function: FunctionType) -> Lines:
        """The text of a function of the project."""
        code = function.__code__
        yield from listing(code, bare_texts(function))
        yield f"defaults {self._value([function.__defaults__, function.__kwdefaults__])}"
        captured = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for name in sorted(captured.keys() - assigned_in(code)):
            yield f"{name} = {self._value(content_of(captured[name]))}"
        yield from self._meanings(names_of(code), function.__globals__)
        package = function.__globals__.get("__package__")
        for name in imports_of(code, package if type(package) is str else ""):
            for path in {path: None for root in self.roots for path in files_named(root, name)}:
                if self._is_own(path):  # it may not be loaded yet
                    yield f"{name}: {self._node(('module', path), name, lambda path=path: _module(path))}"

    def _class(self, kind: type, name: str, namespace: Namespace) -> Lines:
        """The text of a class of the project; its methods are nodes of their own."""
        path = file_of(namespace)
        members = type.__getattribute__(kind, "__dict__").items()
        methods = {key: each for key, value in members for each in functions_of(value) if path_of(each) == path}
        yield from self._statements(name.split(".", maxsplit=1)[0], namespace, frozenset(methods))
        yield from (f"{key} is {self._refer(methods[key])}" for key in sorted(methods))

    def _statements(self, name: str, namespace: Namespace, without: frozenset[str] = frozenset()) -> Lines:
        """The statements of a module that make the value of a name, and what their names mean."""
        nodes = bare(cast("SourceFile", source_file(file_of(namespace))).statements_of(name), without)
        yield "\n".join(map(ast.unparse, nodes)) or name
        yield from self._meanings((chain for chain in names_in(nodes) if chain[0] != name), namespace)

    def _meanings(self, chains: Iterable[Chain], namespace: Namespace) -> Lines:
        """What the names in a text mean in a module."""
        for chain in chains:
            token = self._meaning(chain, namespace)
            if token is not None:
                yield f"{'.'.join(chain)}: {token}"

    def _meaning(self, chain: Chain, namespace: Namespace) -> str | None:
        """The token for what a name of the project means; None for a name from elsewhere, or one that is not set."""
        name, *attributes = chain
        value = namespace.get(name, MISSING)
        if value is MISSING:
            return None
        inner = namespace_of(value)
        if inner is not None:
            is_own = self._is_own(file_of(inner)) or not file_of(inner)  # a folder without `__init__.py` has no file
            return self._meaning(tuple(attributes), inner) if attributes and is_own else None
        if issubclass(type(value), (type, FunctionType, BuiltinFunctionType)):
            token = self._refer(value)
            return token if _MARK in token else None
        if not self._is_own(file_of(namespace)):
            return None
        return self._node(("constant", id(namespace), name), name, lambda: self._constant(name, namespace))

    def _constant(self, name: str, namespace: Namespace) -> Lines:
        """A constant, by the statements that make it, in each module where they are, and the functions in it."""
        file, meanings = cast("SourceFile", source_file(file_of(namespace))), list[str]()
        for module, original in file.origins_of(name):
            home = namespace_named(_absolute(module, namespace))
            if home is not None and home is not namespace and self._is_own(file_of(home)):
                meanings += filter(None, [self._meaning((original,), home)])
        yield from meanings
        if file.statements_of(name) or not meanings:
            yield from self._statements(name, namespace)
        yield from filter(_MARK.__contains__, map(self._refer, _members_of(namespace.get(name))))


def _members_of(value: Any) -> Iterable[Any]:
    """The functions and classes that a container holds, as a decorator registers them there."""
    members: list[Any] = []
    if type(value) in (list, tuple):
        members = list(value)
    elif type(value) is dict:
        members = list(cast("dict[Any, Any]", value).values())
    return [each for each in members if issubclass(type(each), (type, FunctionType))]


def _module(path: str) -> Lines:
    yield from map(ast.unparse, bare(cast("SourceFile", source_file(path)).tree.body))


def _absolute(module: str, namespace: Namespace) -> str:
    package = namespace.get("__package__")
    try:
        return resolve_name(module, package if type(package) is str else "")
    except ImportError:  # the name leaves its package
        return ""


def _short(qualname: str) -> str:
    return qualname.replace("<locals>.", "")[-64:]
