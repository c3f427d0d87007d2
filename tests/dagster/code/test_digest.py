"""The digest of a function's code is another for another code, and the same for the same code written otherwise."""

import ast
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakehouse.cursor.code import Code
from lakehouse.dagster.code.digest import KIND, code_of
from tests.dagster.code.project import Project, projects

PLAIN = "def orders(rows):\n    return rows.where('v > 1')\n"
HELPER = "from shop.rules import clean\n\ndef orders(rows):\n    return clean(rows)\n"
BY_MODULE = "from shop import rules\n\ndef orders(rows):\n    return rules.clean(rows)\n"
CLASS = "from shop.rules import Rules\n\ndef orders(rows):\n    return Rules(rows).clean()\n"
DEEP = "LIMIT = 1\ndef clean(rows):\n    return tidy(rows)\n\ndef tidy(rows):\n    return clean(rows) or LIMIT\n"
WRAPS = """
from functools import wraps
def traced(word):
    def decorator(function):
        {wraps}
        def wrapper(rows):
            return function(rows, {extra})
        return wrapper
    return decorator

@traced({word})
def orders(rows, extra):
    return rows.where({where})
"""
FACTORY = """
def make(limit, then):
    def asset(rows):
        return then(rows.where(limit))
    return asset

def one(rows): return rows + {one}
def two(rows): return rows + 2

orders = make({limit}, {then})
"""
CACHE = "CACHE = {}\n\ndef orders(rows):\n    CACHE[rows] = CACHE.get(rows, 0) + 1\n    return CACHE[rows]\n"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Project]:
    yield from projects(tmp_path)


def wraps(*, wraps: str = "@wraps(function)", extra: str = "word", word: str = "1", where: str = "2") -> dict[str, str]:
    return {"orders": WRAPS.format(wraps=wraps, extra=extra, word=word, where=where)}


def factory(*, one: str = "1", limit: str = "3", then: str = "one") -> dict[str, str]:
    return {"orders": FACTORY.format(one=one, limit=limit, then=then)}


def of(text: str, **modules: str) -> dict[str, str]:
    return {"orders": text, **modules}


def constant(text: str, use: str = "LIMIT") -> dict[str, str]:
    return of(f"{text}\n\ndef orders(rows):\n    return rows, {use}\n")


SAME: list[Any] = [
    pytest.param(of(PLAIN), of("import os\n\n" + PLAIN), id="another line"),
    pytest.param(
        of(PLAIN),
        of(
            'def orders(\n    rows: "Changes",  # all\n) -> int:\n    """Doc."""\n    return (rows\n        .where("v > 1"))\n'
        ),
        id="comments, annotations, docstring, format",
    ),
    pytest.param(
        of("def orders(rows):\n    x = 1\n    return x"),
        of("def orders(rows):\n    x: int = 1\n    return x"),
        id="an annotated variable",
    ),
    pytest.param(of(PLAIN), of(PLAIN + "\ndef other(): return 1\n"), id="a function that is not named"),
    pytest.param(
        of(HELPER, rules="def clean(rows): return 1"),
        of(HELPER, rules="A = 3\ndef clean(rows):\n    return 1\ndef tidy(): ..."),
        id="what a helper does not name",
    ),
    pytest.param(
        of(CLASS, rules="class Rules:\n    def clean(self): return 1"),
        of(
            CLASS,
            rules='class Rules:\n    """Doc."""\n    def clean(self) -> int:\n        """Doc."""\n        return 1',
        ),
        id="the docstrings of a class",
    ),
    pytest.param(
        constant("LIMIT = {'a': 1, 'b': 2}"), constant("LIMIT = dict(b=2, a=1)"), id="the order of a dictionary"
    ),
    pytest.param(constant("LIMIT = {'x', 'y', 'z'}"), constant("LIMIT = {'z', 'y', 'x'}"), id="the order of a set"),
    pytest.param(constant("import os\nLIMIT = 1\n"), constant("LIMIT = 3 - 2\n"), id="a constant of the same value"),
    pytest.param(
        of("def orders(rows):\n    def inner(x):\n        return x\n    return inner"),
        of("def orders(rows):\n    def inner(x: int) -> int:\n        '''Doc.'''\n        return x\n    return inner"),
        id="annotations of an inner function",
    ),
]
OTHER: list[Any] = [
    pytest.param(of(PLAIN), of(PLAIN.replace("> 1", "> 2")), "the code of orders changed", id="the body"),
    pytest.param(
        of(PLAIN), of(PLAIN.replace("(rows)", "(rows, *more)")), "the code of orders changed", id="the parameters"
    ),
    pytest.param(
        of("def orders(rows): return rows + 1"),
        of("async def orders(rows): return rows + 1"),
        "the code of orders changed",
        id="async",
    ),
    pytest.param(
        of(HELPER, rules="def clean(rows): return 1"),
        of(HELPER, rules="def clean(rows): return 2"),
        "the code that orders names changed: clean",
        id="a helper",
    ),
    pytest.param(
        of(BY_MODULE, rules="def clean(rows): return 1"),
        of(BY_MODULE, rules="def clean(rows): return 2"),
        "the code that orders names changed: clean",
        id="a helper of a module",
    ),
    pytest.param(
        of(HELPER, rules=DEEP),
        of(HELPER, rules=DEEP.replace("or LIMIT", "and LIMIT")),
        "names changed: tidy",
        id="functions that call each other",
    ),
    pytest.param(
        of(HELPER, rules=DEEP),
        of(HELPER, rules=DEEP.replace("= 1", "= 2")),
        "names changed: LIMIT",
        id="the constant of a helper's helper",
    ),
    pytest.param(
        of(HELPER, rules="from shop.more import clean", more="def clean(rows): return 1"),
        of(HELPER, rules="from shop.more import clean", more="def clean(rows): return 2"),
        "names changed: clean",
        id="a helper that is imported on",
    ),
    pytest.param(wraps(), wraps(where="3"), "the code of orders changed", id="below a decorator"),
    pytest.param(wraps(), wraps(extra="word + 1"), "names changed: traced.decorator.wrapper", id="a decorator"),
    pytest.param(wraps(), wraps(word="2"), "names changed: traced.decorator.wrapper", id="the argument of a decorator"),
    pytest.param(
        wraps(wraps=""), wraps(wraps="", where="3"), "names changed: orders", id="below a decorator without wraps"
    ),
    pytest.param(
        wraps(wraps=""),
        wraps(wraps="", extra="0"),
        "the code of traced.decorator.wrapper changed",
        id="a decorator without wraps",
    ),
    pytest.param(factory(), factory(limit="4"), "the code of make.asset changed", id="a captured value"),
    pytest.param(
        factory(),
        factory(limit="[1, {2: b'x'}, {'y', None}]"),
        "the code of make.asset changed",
        id="a captured container",
    ),
    pytest.param(
        factory(), factory(then="two"), "the code of make.asset changed, and of", id="another captured function"
    ),
    pytest.param(factory(), factory(one="5"), "names changed: one", id="the code of a captured function"),
    pytest.param(
        factory(then="lambda rows: rows"),
        factory(then="lambda rows: rows * 2"),
        "names changed: <lambda>",
        id="a captured lambda",
    ),
    pytest.param(
        of("orders = lambda rows: rows + 1"),
        of("orders = lambda rows: rows + 2"),
        "the code of <lambda> changed",
        id="a lambda",
    ),
    pytest.param(
        of("pair = (lambda x: x), (lambda x: x + 1)\norders = pair[1]"),
        of("pair = (lambda x: x), (lambda x: x + 2)\norders = pair[1]"),
        "the code of <lambda> changed",
        id="lambdas on one line",
    ),
    pytest.param(
        of("orders = [lambda rows, i=i: rows + i for i in range(3)][1]"),
        of("orders = [lambda rows, i=i: rows + i for i in range(1, 4)][1]"),
        "<lambda> changed",
        id="a default value",
    ),
    pytest.param(
        of("from functools import partial\ndef f(a, rows): return a\norders = partial(f, 1)"),
        of("from functools import partial\ndef f(a, rows): return a\norders = partial(f, 2)"),
        "the code that f names changed",
        id="an argument of a partial",
    ),
    pytest.param(
        of("from functools import partial\ndef f(a, rows): return a\norders = partial(f, 1)"),
        of("from functools import partial\ndef f(a, rows): return [a]\norders = partial(f, 1)"),
        "the code of f changed",
        id="the function of a partial",
    ),
    pytest.param(
        of(CLASS, rules="class Rules:\n    def clean(self): return 1"),
        of(CLASS, rules="class Rules:\n    def clean(self): return 2"),
        "names changed: Rules.clean",
        id="a method",
    ),
    pytest.param(
        of(CLASS, rules="class Rules:\n    a = 1\n    def clean(self): return 1"),
        of(CLASS, rules="class Rules:\n    a = 2\n    def clean(self): return 1"),
        "names changed: Rules",
        id="an attribute of a class",
    ),
    pytest.param(
        of(CLASS, rules="class Base:\n    def b(self): return 1\nclass Rules(Base): ..."),
        of(CLASS, rules="class Base:\n    def b(self): return 2\nclass Rules(Base): ..."),
        "names changed: Base.b",
        id="a base class",
    ),
    pytest.param(
        of(
            CLASS,
            rules="class Rules:\n    @staticmethod\n    def s(): return 1\n    @property\n    def p(self): return 1",
        ),
        of(
            CLASS,
            rules="class Rules:\n    @staticmethod\n    def s(): return 1\n    @property\n    def p(self): return 2",
        ),
        "names changed: Rules.p",
        id="a property",
    ),
    pytest.param(
        of(CLASS, rules="from dataclasses import dataclass\n@dataclass\nclass Rules:\n    a: int = 1"),
        of(CLASS, rules="from dataclasses import dataclass\n@dataclass\nclass Rules:\n    a: int = 2"),
        "names changed: Rules",
        id="a field of a dataclass",
    ),
    pytest.param(constant("LIMIT = 1"), constant("LIMIT = 2"), "names changed: LIMIT", id="a number"),
    pytest.param(
        constant("LIMIT = 1"), constant("LIMIT = True"), "names changed: LIMIT", id="a number that became a boolean"
    ),
    pytest.param(constant("LIMIT = 0.0"), constant("LIMIT = -0.0"), "names changed: LIMIT", id="a sign"),
    pytest.param(
        constant("import datetime as dt\nLIMIT = dt.date(2024, 1, 1)"),
        constant("import datetime as dt\nLIMIT = dt.date(2024, 1, 2)"),
        "names changed: LIMIT",
        id="a date",
    ),
    pytest.param(
        constant("LIMIT = ('a', ['b', {'c': {1, 2}}])"),
        constant("LIMIT = ('a', ['b', {'c': {1, 3}}])"),
        "names changed: LIMIT",
        id="a container",
    ),
    pytest.param(
        constant("BASE = 1\nLIMIT = [BASE + 1]"),
        constant("BASE = 2\nLIMIT = [BASE + 1]"),
        "names changed: LIMIT",
        id="a constant that is computed",
    ),
    pytest.param(
        constant("class C:\n    def __init__(self, x): pass\nLIMIT = C(1)"),
        constant("class C:\n    def __init__(self, x): pass\nLIMIT = C(2)"),
        "names changed: LIMIT",
        id="an object, by what makes it",
    ),
    pytest.param(
        constant("class C:\n    def __init__(self, x): self.x = x\nLIMIT = [C(1)]"),
        constant("class C:\n    def __init__(self, x): self.x = x, 1\nLIMIT = [C(1)]"),
        "names changed: C.__init__",
        id="objects, by their class",
    ),
    pytest.param(
        constant("class C: ...\nLIMIT = C()\nLIMIT.x = 1"),
        constant("class C: ...\nLIMIT = C()\nLIMIT.x = 2"),
        "names changed: LIMIT",
        id="an object, by a statement that changes it",
    ),
    pytest.param(
        constant("def a(): return 1\nLIMIT = {'a': a}"),
        constant("def a(): return 2\nLIMIT = {'a': a}"),
        "names changed: a",
        id="a function in a dictionary",
    ),
    pytest.param(
        of("from shop.rules import L as M\n\ndef orders(rows): return M", rules="class C: ...\nL = C(), 1"),
        of("from shop.rules import L as M\n\ndef orders(rows): return M", rules="class C: ...\nL = C(), 2"),
        "names changed: L",
        id="an imported object",
    ),
    pytest.param(
        of(
            "def orders(rows):\n    from shop.rules import clean\n    return clean(rows)",
            rules="def clean(x): return 1",
        ),
        of(
            "def orders(rows):\n    from shop.rules import clean\n    return clean(rows)",
            rules="def clean(x): return 2",
        ),
        "names changed: shop.rules",
        id="a module that is imported by the function",
    ),
    pytest.param(
        of("def orders(rows):\n    from . import rules\n    return rules.clean(rows)", rules="def clean(x): return 1"),
        of("def orders(rows):\n    from . import rules\n    return rules.clean(rows)", rules="def clean(x): return 2"),
        "names changed: shop.rules",
        id="a relative import",
    ),
    pytest.param(
        of(
            "from enum import Enum\nclass C(Enum):\n    A = 1\n    B = 2\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(C.A)"
        ),
        of(
            "from enum import Enum\nclass C(Enum):\n    A = 1\n    B = 2\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(C.B)"
        ),
        "the code of make.f changed",
        id="a captured member of an enumeration",
    ),
    pytest.param(
        of(
            "def make(n):\n    def f(x): return n\n    return f\na, b = make(1), make(2)\ndef orders(rows): return a(rows) - b(rows)"
        ),
        of(
            "def make(n):\n    def f(x): return n\n    return f\na, b = make(2), make(1)\ndef orders(rows): return a(rows) - b(rows)"
        ),
        "the code",
        id="two functions of one factory, exchanged",
    ),
    pytest.param(
        of("from functools import cache\n@cache\ndef a(x): return 1\ndef orders(rows): return a(rows)"),
        of("from functools import cache\n@cache\ndef a(x): return 2\ndef orders(rows): return a(rows)"),
        "names changed: a",
        id="a function that keeps its answers",
    ),
    pytest.param(
        of(
            "class wrap:\n    def __init__(self, f): self.f = f\n    def __call__(self, x): return self.f(x)\n@wrap\ndef a(x): return 1\ndef orders(rows): return a(rows)"
        ),
        of(
            "class wrap:\n    def __init__(self, f): self.f = f\n    def __call__(self, x): return self.f(x)\n@wrap\ndef a(x): return 2\ndef orders(rows): return a(rows)"
        ),
        "names changed: a",
        id="a decorator that is a class",
    ),
    pytest.param(
        of(
            "from functools import partial\ndef f(x, *, w): return x\na = partial(f, w=1)\ndef orders(rows): return a(rows)"
        ),
        of(
            "from functools import partial\ndef f(x, *, w): return x\na = partial(f, w=2)\ndef orders(rows): return a(rows)"
        ),
        "the code",
        id="a partial as a constant",
    ),
    pytest.param(
        of("from functools import partial\na = partial(int, base=8)\ndef orders(rows): return a(rows)"),
        of("from functools import partial\na = partial(int, base=16)\ndef orders(rows): return a(rows)"),
        "names changed: a",
        id="a partial of a foreign function",
    ),
    pytest.param(
        of("import re, math\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(math.sin)"),
        of("import re, math\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(math.cos)"),
        "the code of make.f changed",
        id="another captured function of a package",
    ),
]
UNSEEN: list[Any] = [
    pytest.param(
        constant("class C:\n    def m(self): return 1\nRULES = [C() for _ in 'ab']\ndef get(): return 1", "get"),
        constant("class C:\n    def m(self): return 2\nRULES = [C() for _ in 'ab']\ndef get(): return 1", "get"),
        id="what nothing names",
    ),
    pytest.param(
        of("def orders(rows): return getattr(rows, 'a')", rules="A = 1"),
        of("def orders(rows): return getattr(rows, 'a')", rules="A = 2"),
        id="getattr",
    ),
]


@pytest.mark.parametrize(("before", "after"), SAME + UNSEEN)
def test_the_same_code_has_the_same_digest(shop: Project, before: dict[str, str], after: dict[str, str]) -> None:
    code = shop.code(**before)
    assert code is not None and code.parts
    assert shop.code(**after) == code


@pytest.mark.parametrize(("before", "after", "why"), OTHER)
def test_other_code_has_another_digest_and_is_named(
    shop: Project, before: dict[str, str], after: dict[str, str], why: str
) -> None:
    code = shop.code(**before)
    assert code is not None
    assert shop.code() == code, "loaded again"
    other = shop.code(**after)
    assert other is not None and other.digest != code.digest
    assert why in str(other.why_other(code))
    assert shop.code(**before) == code, "and back"


def test_state_is_no_code(shop: Project) -> None:
    shop.write(orders=CACHE)
    function = shop.load()
    code = code_of(function)
    function("a")
    assert code is not None and code_of(function) == code
    counted = "def counting(f):\n    n = 0\n    def counted(rows):\n        nonlocal n\n        n += 1\n        return f(rows)\n    return counted\n@counting\ndef orders(rows): return 1\n"
    shop.write(orders=counted)
    function = shop.load()
    code = code_of(function)
    function("a")
    assert code is not None and code_of(function) == code
    client = "CLIENT = None\ndef client():\n    global CLIENT\n    CLIENT = CLIENT or object()\n    return CLIENT\ndef orders(rows): return client()\n"
    shop.write(orders=client)
    function = shop.load()
    code = code_of(function)
    function("a")
    assert code is not None and code_of(function) == code


def test_code_that_was_edited_since_it_was_loaded_has_a_digest_of_its_own(shop: Project) -> None:
    """A run that began before the edit must not put down the code after it."""
    old = shop.code(orders=PLAIN)
    function = shop.load()
    shop.write(orders="'''Moved.'''\n\n" + PLAIN)
    assert code_of(function) == old, "the file says the same at another line"
    for text in (PLAIN.replace("> 1", "> 2"), "def orders(", ""):
        shop.write(orders=text)
        meanwhile = code_of(function)
        assert meanwhile is not None and old is not None
        assert meanwhile.why_other(old) == "the code of orders changed"
    new = shop.code(orders=PLAIN.replace("> 1", "> 2"))
    assert new is not None and new.why_other(meanwhile) == "the code of orders changed"


def raising() -> Any:
    """A class and an object of it, of which whatever is asked raises."""

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


@pytest.mark.parametrize(
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
    ids=["object", "list", "dict", "cycle", "huge", "plain", "namespace", "modules"],
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
    # As `dagster dev -f` loads a file: as a module of its own, of no package.
    by_file = (
        "from importlib.util import module_from_spec, spec_from_file_location as at; from lakehouse.dagster.code.digest import code_of\n"
        f"spec = at('orders', {str(tmp_path / 'a' / 'shop' / 'orders.py')!r}); module = module_from_spec(spec)\n"
        "spec.loader.exec_module(module); print(code_of(module.orders))"
    )
    answers.add(answer(tmp_path / "a", "3", by_file))
    assert len(answers) == 1 and KIND in answers.pop()


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


NAMES = st.sampled_from(["a", "b", "rows"])
ATOMS = NAMES | st.integers(0, 3).map(str) | st.sampled_from(["'x'", "'a  b'", "None", "True", "1.5", "b'z'"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "and", "or", "<", "in", "is not"]), inner)
        | st.builds("{}.{}({})".format, NAMES, st.sampled_from(["where", "select"]), inner)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("{{{}: {}}}".format, inner, inner)
        | st.builds("(lambda a, b={}: {})".format, inner, inner)
        | st.builds("[{} for b in {}]".format, inner, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("f'{{{}}}!'".format, NAMES)
    ),
    max_leaves=6,
)
STATEMENTS = st.builds("{} = {}".format, NAMES, EXPRESSIONS) | st.builds(
    "if {}:\n        b = {}".format, EXPRESSIONS, EXPRESSIONS
)
BODIES = st.lists(STATEMENTS, max_size=3).flatmap(
    lambda lines: EXPRESSIONS.map(lambda last: "\n".join(f"    {line}" for line in [*lines, f"return {last}"]))
)


def digest(path: Path, text: str) -> Code:
    names = {"__name__": "made", "__file__": str(path)}
    path.write_text(text)
    with warnings.catch_warnings(action="ignore"):
        exec(compile(text, str(path), "exec", dont_inherit=True), names)
    code = code_of(names["orders"])
    assert code is not None
    return code


@given(BODIES, BODIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_two_functions_have_one_digest_if_their_trees_are_one(tmp_path: Path, body: str, other: str) -> None:
    one, two = (f"def orders(rows, a, b):\n{text}\n" for text in (body, other))
    same = ast.unparse(ast.parse(one)) == ast.unparse(ast.parse(two))
    assert (digest(tmp_path / "made.py", one) == digest(tmp_path / "made.py", two)) is same


@given(body=BODIES, lines=st.integers(0, 3), annotated=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_function_has_one_digest_however_it_is_written(
    tmp_path: Path, body: str, lines: int, *, annotated: bool
) -> None:
    plain = f"def orders(rows, a, b):\n{body}\n"
    head = "def orders(rows: int, a: 'str',\n    b: list[int]) -> None:" if annotated else "def orders(rows, a, b):"
    spaced = body.replace("\n", "  # why\n" + "\n" * lines)
    written = "\n" * lines + f"{head}\n    '''What it does.'''\n{spaced}\n"
    assume(ast.unparse(ast.parse(plain)) != "")
    assert digest(tmp_path / "made.py", written) == digest(tmp_path / "made.py", plain)
