"""Small projects in a directory; their modules are loaded again after each edit."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from lakehouse.cursor.digests import Code
from lakehouse.dagster.code.digest import code_of

ASSET = "shop.orders:orders"
HELPER = "from shop.rules import clean\n\ndef orders(rows):\n    return clean(rows)\n"
CLASS = "from shop.rules import Rules\n\ndef orders(rows):\n    return Rules(rows).clean()\n"


@dataclass(frozen=True)
class Project:
    """A package `shop` below a directory.

    Args:
        root: The directory.
    """

    root: Path

    def write(self, **modules: str) -> None:
        folder = self.root / "shop"
        folder.mkdir(exist_ok=True, parents=True)
        for name, text in {"__init__": "", **modules}.items():
            (folder / f"{name}.py").write_text(text)

    def load(self, name: str = ASSET) -> Any:
        """An object of the project, from modules that are loaded now."""
        _forget_modules()
        sys.path.insert(0, str(self.root))
        sys.path_importer_cache.clear()
        try:
            return resolve_name(name)
        finally:
            sys.path.remove(str(self.root))

    def code(self, name: str = ASSET, **modules: str) -> Code | None:
        """The code of the asset's function, after modules have been edited."""
        if modules:
            self.write(**modules)
        return code_of(self.load(name))


def projects(root: Path) -> Iterator[Project]:
    """A project without compiled files: after another edit within the same second, Python would still use those."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield Project(root)
    finally:
        sys.dont_write_bytecode = before
        _forget_modules()


def _forget_modules() -> None:
    """Removes the package `shop`, so that other tests in this process do not find it."""
    for module in [module for module in sys.modules if module.split(".")[0] == "shop"]:
        del sys.modules[module]
