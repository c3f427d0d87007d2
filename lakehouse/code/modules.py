"""Which files are a project's, and which modules, as far as Python has loaded them; nothing is imported."""

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

Namespace: TypeAlias = Mapping[str, Any]
"""The names of a loaded module."""

_INSTALLED = frozenset(["site-packages", "dist-packages"])
_NOBODYS = (Path(sysconfig.get_path("stdlib")), Path(__file__).parents[1])
"""The standard library and this library, which no project owns."""


@cache
def is_nobodys(path: str) -> bool:
    """Whether a file belongs to an installed package, to Python or to this library."""
    file = Path(path)
    return not _INSTALLED.isdisjoint(file.parts) or any(file.is_relative_to(folder) for folder in _NOBODYS)


def project_of(path: str, module: str) -> Path:
    """The folder of a file's top-level package, or the folder of the file if it is in no package.

    Args:
        path: The file.
        module: The name under which it was loaded: folders need no `__init__.py`.
    """
    file = Path(path)
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
