"""Switches off a rule of the plans of views in its module's source, so that a test can show that this is noticed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

RELOADED = ("lakehouse.views", "tests.support.views_in_duckdb")


class _Finder(PathFinder):
    """Finds one module with a replacement in its source."""

    def __init__(self, name: str, old: str, new: str) -> None:
        self.name, self.old, self.new = f"lakehouse.views.steps.{name}", old, new

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self.name else None
        if spec is not None:
            assert spec.origin is not None
            spec.loader = _Loader(fullname, spec.origin, self.old, self.new)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, old: str, new: str) -> None:
        super().__init__(fullname, path)
        self.old, self.new = old, new

    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path).decode()
        assert source.count(self.old) == 1, f"{fullname} has {self.old!r} no longer once"
        return self.source_to_code(source.replace(self.old, self.new).encode(), self.path)


@contextmanager
def switched_off(module: str, old: str, new: str) -> Iterator[ModuleType]:
    """Loads `views_in_duckdb` and the views anew, with a replacement in the source of one module."""
    kept_modules = {name: each for name, each in sys.modules.items() if name.startswith(RELOADED)}
    for name in kept_modules:
        del sys.modules[name]
    finder = _Finder(module, old, new)
    sys.meta_path.insert(0, finder)
    try:
        yield resolve_name("tests.support.views_in_duckdb")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(RELOADED)]:
            del sys.modules[name]
        sys.modules.update(kept_modules)
