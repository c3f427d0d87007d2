"""What counts in the objects that a function holds or names: no state, no other package, and no call into them."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.dagster.code.digest import KIND, code_of
from tests.dagster.code.project import HELPER, Project, projects
from tests.support.for_each import for_each

PLAIN = "def orders(rows):\n    return rows.where('v > 1')\n"
STATES = [
    "CACHE = {}\n\ndef orders(rows):\n    CACHE[rows] = CACHE.get(rows, 0) + 1\n    return CACHE[rows]\n",
    (
        "def counting(f):\n    n = 0\n    def counted(rows):\n        nonlocal n\n        n += 1\n        return f(rows)\n"
        "    return counted\n@counting\ndef orders(rows): return 1\n"
    ),
    (
        "CLIENT = None\ndef client():\n    global CLIENT\n    CLIENT = CLIENT or object()\n    return CLIENT\n"
        "def orders(rows): return client()\n"
    ),
    (
        "from dataclasses import dataclass\n@dataclass\nclass Stats:\n    rows: int = 0\nSTATS = Stats()\n"
        "def orders(rows):\n    STATS.rows += 1\n    return rows\n"
    ),
]


@for_each("text", STATES)
def test_state_is_no_code(shop: Project, text: str) -> None:
    shop.write(orders=text)
    function = shop.load()
    code = code_of(function)
    function("a")
    assert code is not None and code_of(function) == code


def test_an_edit_of_the_file_is_no_other_code_until_it_is_loaded(shop: Project) -> None:
    """A run that began before the edit must not record the code after it."""
    old = shop.code(orders=PLAIN)
    function = shop.load()
    for text in ("'''Moved.'''\n\n" + PLAIN, PLAIN.replace("> 1", "> 2"), "def orders(", ""):
        shop.write(orders=text)
        assert code_of(function) == old
    new = shop.code(orders=PLAIN.replace("> 1", "> 2"))
    assert old is not None and new is not None and new.why_other(old) == "the code of orders changed"


def raising() -> Any:
    """A class and an object of it that raise whatever attribute is read."""

    class Evil(type):
        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError(name)

    def asked(self: Any, name: str) -> Any:
        raise AssertionError(name)

    members = {"__getattribute__": asked} | dict.fromkeys(["__hash__", "__eq__", "__repr__", "__len__"])
    kind = Evil("Raising", (), members)
    return kind, object.__new__(kind)


def capturing(value: Any) -> Any:
    def asset(rows: Any) -> Any:
        return value

    return asset


def cycle() -> Any:
    listed = list[Any]()
    listed.append(listed)
    return listed


@for_each(
    "value",
    [
        raising,
        lambda: [raising()],
        lambda: {1: raising()},
        cycle,
        lambda: list(range(1_000_000)),
        lambda: ["\ud800", 10**6000, float("nan"), ..., {(): {()}}],
        lambda: SimpleNamespace(a=1),
        lambda: sys.modules,
    ],
)
def test_no_value_is_asked_anything(value: Any) -> None:
    code = code_of(capturing(value()))
    assert code is not None and code == code_of(capturing(value()))


def test_a_function_without_source_has_no_digest() -> None:
    names = dict[str, Any]()
    exec("def orders(rows): return 1", names)
    assert code_of(names["orders"]) is None
    exec(compile("def orders(rows): return 1", "/nowhere/orders.py", "exec"), names)
    assert code_of(names["orders"]) is None
    nothings: list[Any] = [len, None, 1, *raising(), partial(len), [].append]
    for nothing in nothings:
        assert code_of(nothing) is None


def recursive() -> Any:
    def inner(rows: Any) -> Any:
        return inner if rows else late

    code = code_of(inner)
    late = 1
    return code


def test_a_variable_that_is_not_set_yet_and_one_that_holds_the_function_are_no_obstacle() -> None:
    assert recursive() is not None


def answer(root: Path, seed: str, program: str) -> str:
    command = [sys.executable, "-B", "-c", program]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}{os.pathsep}{Path.cwd()}"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_digest_is_the_same_in_each_process_and_in_each_checkout(tmp_path: Path) -> None:
    text = (
        "import os\nHERE = os.path.join(os.path.dirname(__file__), 'data')\nNAMES = {str(i): {i, 'x', b'y'} for i in range(9)}\n"
        "from shop.rules import clean, Rules\n"
        "def make(names):\n    def orders(rows):\n        return clean(rows, names, HERE, Rules, [x for x in {'p', 'q'} if x in {'a', 'b'}])\n    return orders\n"
        "orders = make(frozenset(NAMES['1']) | frozenset('abc'))\n"
    )
    rules = "from enum import Enum\nclass Rules(Enum):\n    A = 1\ndef clean(*x): return CODES\nCODES = frozenset({Rules.A, 'b', 'c'})\n"
    answers = set[str]()
    by_name = (
        "from lakehouse.dagster.code.digest import code_of; from shop.orders import orders; print(code_of(orders))"
    )
    for seed, folder in (("1", "a"), ("2", "elsewhere/b")):
        Project(tmp_path / folder).write(orders=text, rules=rules)
        answers.add(answer(tmp_path / folder, seed, by_name))
    # As `dagster dev -f` loads a file: as a module of its own, outside any package.
    by_file = (
        "from importlib.util import module_from_spec, spec_from_file_location as at; from lakehouse.dagster.code.digest import code_of\n"
        f"spec = at('orders', {str(tmp_path / 'a' / 'shop' / 'orders.py')!r}); module = module_from_spec(spec)\n"
        "spec.loader.exec_module(module); print(code_of(module.orders))"
    )
    answers.add(answer(tmp_path / "a", "3", by_file))
    assert len(answers) == 1 and KIND in answers.pop()


@pytest.mark.parametrize("folder", ["site-packages", "lib/python3.12/dist-packages"])
def test_the_package_of_the_function_counts_where_it_is_installed_and_others_there_do_not(
    tmp_path: Path, folder: str
) -> None:
    installed = tmp_path / folder
    helper = "import foreign\n" + HELPER.replace("clean(rows)", "foreign.tidy(clean(rows))")
    for shop in projects(installed):
        installed.mkdir(parents=True)
        (installed / "foreign.py").write_text("def tidy(rows): return 1\n")
        code = shop.code(orders=helper, rules="def clean(rows): return 1\n")
        sys.modules.pop("foreign")
        (installed / "foreign.py").write_text("def tidy(rows): return 2\n")
        assert code is not None and shop.code() == code
        sys.modules.pop("foreign")
        other = shop.code(orders=helper, rules="def clean(rows): return 2\n")
        assert other is not None and "names changed: clean" in str(other.why_other(code))
        sys.modules.pop("foreign")


def test_a_module_that_is_installed_without_a_package_is_a_project_of_its_own(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    for shop in projects(installed):
        installed.mkdir()
        (installed / "foreign.py").write_text("LEAST = 1\n")
        codes = list[Any]()
        for least, foreign in ((1, 1), (1, 2), (2, 2)):
            (installed / "foreign.py").write_text(f"LEAST = {foreign}\n")
            (installed / "shop.py").write_text(f"import foreign\ndef orders(rows): return {least}, foreign.LEAST\n")
            codes.append(code_of(shop.load("shop:orders")))
            sys.modules.pop("foreign")
        assert codes[0] is not None and codes[0] == codes[1] != codes[2]


def test_other_packages_do_not_count(tmp_path: Path) -> None:
    for shop in projects(tmp_path):
        installed = tmp_path / "shop" / ".venv" / "site-packages"
        installed.mkdir(parents=True)
        (installed / "foreign.py").write_text("def clean(rows): return 1\n")
        (tmp_path / "sibling.py").write_text("def tidy(rows): return 1\n")
        text = "import sys\nsys.path[:0] = [{!r}]\nfrom foreign import clean\nfrom sibling import tidy\ndef orders(rows): return clean(tidy(rows))\n"
        code = shop.code(orders=text.format(str(installed)))
        (installed / "foreign.py").write_text("def clean(rows): return 2\n")
        (tmp_path / "sibling.py").write_text("def tidy(rows): return 2\n")
        for name in ("foreign", "sibling"):
            del sys.modules[name]
        assert code is not None and shop.code() == code
        for name in ("foreign", "sibling"):
            del sys.modules[name]
        sys.path.remove(str(installed))
