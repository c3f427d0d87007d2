"""The objects that a function's code names: to which project they belong, and constants as text."""

import json
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from re import Pattern
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, TypeAlias, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from lakehouse.dagster.code.resource_fields import is_secret

MOST = 10_000
"""So many items of a value count. A larger value would take longer to print than a small step takes."""
DEEPEST = 20
_UNSEEN = "~"
_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: hex,
    float: repr,
    complex: repr,
    Decimal: repr,
    date: repr,
    timedelta: repr,
    bytes: bytes.hex,
    type(...): repr,
    Pattern: repr,
    UUID: repr,
}
_PATHS = (PosixPath, PurePosixPath, WindowsPath, PureWindowsPath)
_ZONES = (type(None), timezone, ZoneInfo)
"""Time zones whose `repr` is no code of the user's."""


@dataclass
class Printer:
    """Prints one value.

    Args:
        root: The directory of the project, which a text may hold.
        refer: What stands for a function or a class; None for every other value.
        is_complete: Whether all that has been printed counts by its value.
    """

    root: str
    refer: Callable[[Any], str | None]
    is_complete: bool = True
    _budget: int = field(init=False, default=MOST)

    def text(self, value: Any, inside: tuple[int, ...] = ()) -> str:
        """The value as text; what does not count is `~`. Types are exact, so that nothing of the user's is called."""
        kind = type_of(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {_PLAIN[kind](value)}"
        if kind is str:
            return json.dumps(value.replace(self.root, "."))
        if kind in (datetime, time) and type(value.tzinfo) in _ZONES:
            return repr(value)
        if kind in _PATHS:
            return f"path {json.dumps(str(value).replace(self.root, '.'))}"
        if kind in (list, tuple, set, frozenset, dict):
            return self._items(kind, value, inside)
        token = self.refer(value)
        if token is not None:
            return token
        fields = fields_in(value)
        return self._unseen() if fields is None else self._fields(kind, value, fields, inside)

    def _fields(self, kind: type[Any], value: Any, fields: Mapping[str, Any], inside: tuple[int, ...]) -> str:
        self.is_complete = False  # the fields may be state, and the class may compute what they do not tell
        self._budget -= len(fields)
        if self._budget < 0 or id(value) in inside or len(inside) == DEEPEST:
            return self._unseen()
        within = (*inside, id(value))
        texts = (f"{name}: {self.text(field, within)}" for name, field in sorted(fields.items()))
        return f"{self.refer(kind) or type.__getattribute__(kind, '__qualname__')}({', '.join(texts)})"

    def _items(self, kind: type[Any], value: Any, inside: tuple[int, ...]) -> str:
        self._budget -= len(value)
        if self._budget < 0 or id(value) in inside or len(inside) == DEEPEST:
            return self._unseen()
        within = (*inside, id(value))
        if kind is dict:
            items = sorted(((self.text(key, within), item) for key, item in list(value.items())), key=_first)
            texts = [f"{key}: {self.text(item, within)}" for key, item in items]
        elif kind in (list, tuple):
            texts = [self.text(item, within) for item in list(value)]
        else:
            texts = sorted(self._of_set(item, within) for item in list(value))
        return f"{kind.__name__}({', '.join(texts)})"

    def _of_set(self, item: Any, inside: tuple[int, ...]) -> str:
        """An item of a set; functions do not count there, because they are met in another order in each process."""
        printer = Printer(self.root, lambda _: None)
        text = printer.text(item, inside)
        self.is_complete &= printer.is_complete
        return text

    def _unseen(self) -> str:
        self.is_complete = False
        return _UNSEEN


def type_of(value: Any) -> type[Any]:
    """The exact type, whatever the value says of itself."""
    return cast("type[Any]", type(value))


def fields_in(value: Any) -> dict[str, Any] | None:
    """The fields of a named tuple, a data class, a model of pydantic or attrs, but no secrets; None of other values."""
    kind = type_of(value)
    bases = [type.__getattribute__(base, "__dict__") for base in type.__getattribute__(kind, "__mro__")]
    members: dict[str, Any] = {name: member for base in reversed(bases) for name, member in base.items()}
    if issubclass(kind, tuple):
        names = cast("tuple[str, ...]", members.get("_fields", ()))
        items: Iterator[Any] = cast("Any", tuple.__iter__)(value)
        return _without_secrets(zip(names, items, strict=False)) if names else None
    declared = next((members[each] for each in _DECLARED if each in members), None)
    match declared:
        case dict():
            fields = cast("dict[str, Any]", declared)
            names = [name for name, field in fields.items() if type(field) is not Field or field.compare]
        case tuple():
            names = [field.name for field in cast("tuple[Any, ...]", declared)]
        case _:
            return None
    state: Any = state_of(value)
    return _without_secrets((name, _value_of(value, name, state, members.get(name))) for name in names)


_DECLARED = ("__dataclass_fields__", "__pydantic_fields__", "model_fields", "__attrs_attrs__")
"""Where a class keeps its fields: a data class, a model of pydantic, one of an older pydantic, a class of attrs."""


def _value_of(value: Any, name: str, state: Mapping[str, Any], member: Any) -> Any:
    """The value of a field, without code of the user's; `MISSING` if it is not set, or if code would compute it."""
    if name in state:
        return state[name]
    if type(member) is not MemberDescriptorType:
        return MISSING
    try:
        return member.__get__(value)
    except AttributeError:  # a slot that is not set
        return MISSING


def _without_secrets(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: field for name, field in fields if field is not MISSING and not is_secret(name)}


def state_of(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own; none if it has slots, or hides them."""
    try:
        attributes: Any = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return cast("dict[str, Any]", attributes) if type_of(attributes) is dict else {}


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


Namespace: TypeAlias = Mapping[str, Any]
"""The names of a loaded module."""

_INSTALLED = frozenset(["site-packages", "dist-packages"])
_STANDARD = Path(sysconfig.get_path("stdlib"))
_LIBRARY = (Path(__file__).parents[2], Path(__file__).parents[3] / "dagster_delta_lakehouse")
"""The packages of this library, which no project owns."""


@cache
def is_nobodys(path: str, root: Path | None = None) -> bool:
    """Whether a file belongs to this library, to Python, or to an installed package other than one below a folder.

    Args:
        path: The file.
        root: The folder, or the module of a project without a package; None if nothing that is installed counts.
    """
    file = Path(path)
    if any(file.is_relative_to(folder) for folder in _LIBRARY):
        return True
    below = root.parts if root is not None and file.is_relative_to(root) else ()
    is_installed = not _INSTALLED.isdisjoint(file.parts[len(below) :])
    return is_installed or (file.is_relative_to(_STANDARD) and _INSTALLED.isdisjoint(below))


def project_of(path: str, module: str) -> Path:
    """The folder of a file's top-level package; of a file in no package its folder, or the file if it is installed."""
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
    """The names of a loaded module; None if the value is no module."""
    return object.__getattribute__(module, "__dict__") if issubclass(type(module), ModuleType) else None


def namespace_named(name: Any) -> Namespace | None:
    """The names of a module by the module's name; None if it has not been loaded."""
    return namespace_of(sys.modules.get(name)) if type(name) is str else None


def file_of(namespace: Namespace) -> str:
    """The file of a module; empty if it has none."""
    path = namespace.get("__file__")
    return path if type(path) is str else ""


def absolute_name(module: str, namespace: Namespace) -> str:
    """The whole name of a module that another module imports; empty if the name leaves the other's package."""
    if not module.startswith("."):
        return module
    package = namespace.get("__package__")
    parts = package.split(".") if type(package) is str else []
    name = module.lstrip(".")
    above = len(module) - len(name) - 1
    package_parts = parts[: len(parts) - above]
    return ".".join([*package_parts, *([name] if name else [])]) if package_parts else ""


def files_named(root: Path, module: str) -> Iterator[str]:
    """The files below a project's folder that a module's name may mean, by the folders alone."""
    parts = module.split(".") if module else []
    relative = parts[1:] if parts[:1] == [root.name] else parts
    for path in (root.joinpath(*relative, "__init__.py"), root.joinpath(*relative).with_suffix(".py")):
        if relative and path.is_file():
            yield str(path)


MISSING = object()
"""In place of a value that is not there."""


def project_around(function: FunctionType) -> Path:
    """The folder of the project that a function belongs to."""
    module: Any = function.__module__
    return project_of(path_of(function), module if type(module) is str else "")


def path_of(function: FunctionType) -> str:
    """The file in which a function was written."""
    return function.__code__.co_filename


def content_of(cell: Any) -> Any:
    """The value of a captured variable; one that is not set yet is none of the values that count."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def functions_of(member: Any) -> list[FunctionType]:
    """The functions that a member of a class is made of."""
    kind = type_of(member)
    if kind is property:
        return [each for each in (member.fget, member.fset, member.fdel) if type(each) is FunctionType]
    function = member.__func__ if kind in (staticmethod, classmethod) else member
    return [function] if type(function) is FunctionType else []


def innermost_of(function: Any) -> Any:
    """The function that no decorator made, as far as decorators say what they wrap."""
    passed = set[int]()
    while id(function) not in passed:
        passed.add(id(function))
        function = next(parts_of(function, captured=False), function)
    return function


def functions_in(value: Any, goes_on: Callable[[FunctionType], bool]) -> Iterator[FunctionType]:
    """The functions that a value is made of: what it wraps, and what its functions have captured."""
    waiting, passed = [value], set[int]()
    for each in waiting:
        if id(each) in passed:
            continue
        passed.add(id(each))
        if type(each) is FunctionType:
            yield each
        if each is value or type(each) is not FunctionType or goes_on(each):
            waiting.extend(parts_of(each))


def parts_of(value: Any, *, captured: bool = True) -> Iterator[Any]:
    """What a function, a partial, a method or a wrapper holds that may be a function, too."""
    kind = type_of(value)
    if kind is partial:
        yield value.func
    elif kind in (MethodType, staticmethod, classmethod):
        yield value.__func__
    else:
        wrapped = inner_of(value)
        if wrapped is not None:
            yield wrapped
    if kind is FunctionType and captured:
        contents = (content_of(cell) for cell in value.__closure__ or ())
        yield from (each for each in contents if type(each) in (FunctionType, partial, MethodType))


def inner_of(value: Any) -> Any:
    """What a wrapper says that it wraps; None if it says nothing."""
    return state_of(value).get("__wrapped__")


def names_of(code: CodeType) -> set[str]:
    """The names and attributes that code takes from outside of itself."""
    inner = (each for each in code.co_consts if type(each) is CodeType)
    return set(code.co_names).union(*map(names_of, inner))


def shape_of(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it stands."""
    constants = tuple(shape_of(each) if type(each) is CodeType else each for each in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, constants
