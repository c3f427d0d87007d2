"""To which project the functions belong that an asset's function is made of, and the modules that they name."""

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias, cast

Namespace: TypeAlias = Mapping[str, Any]
"""The names of a loaded module."""
MISSING = object()
"""In place of a value that is not there."""
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
    """The value of a captured variable; one that is not set yet is none of the values that count."""
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
    """The function that no decorator made, as far as decorators say what they wrap."""
    passed = set[int]()
    while id(function) not in passed:
        passed.add(id(function))
        inner = inner_of(function)
        function = function if inner is None else inner
    return function


def inner_of(value: Any) -> Any:
    """What a partial, a method or a wrapper wraps, as far as it says; None if it says nothing."""
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
