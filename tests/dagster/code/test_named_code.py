"""The digest of a function's code has what the function names: functions, classes, constants, and what those name."""

from typing import Any

import pytest

from tests.dagster.code.project import CLASS, HELPER, Project, assert_differs, constant, of

BY_MODULE = "from shop import rules\n\ndef orders(rows):\n    return rules.clean(rows)\n"
DEEP = "LIMIT = 1\ndef clean(rows):\n    return tidy(rows)\n\ndef tidy(rows):\n    return clean(rows) or LIMIT\n"
OTHER: list[Any] = [
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
        "names changed: BASE",
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
]


@pytest.mark.parametrize(("before", "after", "why"), OTHER)
def test_other_code_that_a_function_names_has_another_digest_and_is_named(
    shop: Project, before: dict[str, str], after: dict[str, str], why: str
) -> None:
    assert_differs(shop, before, after, why)
