"""The digest of a function's code is another for another code, and the same for the same code written otherwise."""

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakehouse.cursor.digests import Code
from lakehouse.dagster.code.digest import code_of
from tests.dagster.code.project import CLASS, HELPER, Project, assert_differs, constant, of

PLAIN = "def orders(rows):\n    return rows.where('v > 1')\n"
GIVEN = """
import re
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from pydantic import BaseModel

{kind}

def make(given):
    def orders(rows):
        return rows.where(given.least)
    return orders

orders = make({given})
"""
KINDS = {
    "a data class": "@dataclass\nclass Spec:\n    least: Any",
    "a frozen data class with slots": "@dataclass(frozen=True, slots=True)\nclass Spec:\n    least: Any",
    "a data class below another": "@dataclass\nclass Base:\n    least: Any\nclass Spec(Base): ...",
    "a named tuple": "class Spec(NamedTuple):\n    least: Any",
    "a named tuple by its function": "Spec = namedtuple('Spec', ['least'])",
    "a model": "class Spec(BaseModel):\n    least: Any\n    def __init__(self, least): super().__init__(least=least)",
}


def handed(kind: str, value: str) -> dict[str, str]:
    return {"orders": GIVEN.format(kind=kind, given=value)}


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


def wraps(*, wraps: str = "@wraps(function)", extra: str = "word", word: str = "1", where: str = "2") -> dict[str, str]:
    return {"orders": WRAPS.format(wraps=wraps, extra=extra, word=word, where=where)}


def factory(*, one: str = "1", limit: str = "3", then: str = "one") -> dict[str, str]:
    return {"orders": FACTORY.format(one=one, limit=limit, then=then)}


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
        of("import re, math\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(math.sin)"),
        of("import re, math\ndef make(x):\n    def f(rows): return x\n    return f\norders = make(math.cos)"),
        "the code of make.f changed",
        id="another captured function of a package",
    ),
]
OTHER += [
    pytest.param(
        handed(kind, "Spec(1)"), handed(kind, "Spec(2)"), "the code of make.orders changed", id=f"{name} given"
    )
    for name, kind in KINDS.items()
]
OTHER += [
    pytest.param(handed("", one), handed("", other), "the code of make.orders changed", id=f"{one} given")
    for one, other in [
        ("Path('a')", "Path('b')"),
        ("re.compile('a')", "re.compile('a', re.IGNORECASE)"),
        ("UUID(int=1)", "UUID(int=2)"),
    ]
]
OTHER += [
    pytest.param(
        handed(KINDS["a data class"], "[{'a': Spec(Spec(1))}]"),
        handed(KINDS["a data class"], "[{'a': Spec(Spec(2))}]"),
        "the code of make.orders changed",
        id="a data class within others",
    ),
]
UNSEEN: list[Any] = [
    *(
        pytest.param(handed(kind, "Spec(1)"), handed(kind, "Spec(2)"), id=name)
        for name, kind in {
            "a secret that is given": "class Spec(BaseModel):\n    api_key: Any\n    def __init__(self, key): super().__init__(api_key=key)",
            "an object that is given": "class Spec:\n    def __init__(self, least): self.least = least",
        }.items()
    ),
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
def test_a_function_of_other_code_has_another_digest_and_is_named(
    shop: Project, before: dict[str, str], after: dict[str, str], why: str
) -> None:
    assert_differs(shop, before, after, why)


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


def outcome(text: str) -> str:
    names = dict[str, Any]()
    with warnings.catch_warnings(action="ignore"):
        exec(text, names)
    try:
        return repr(names["orders"]([1, 2], 2, "x"))
    except Exception as error:
        return repr(error)


@given(BODIES, BODIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_functions_of_one_tree_have_one_digest_and_functions_of_one_digest_do_the_same(
    tmp_path: Path, body: str, other: str
) -> None:
    one, two = (f"def orders(rows, a, b):\n{text}\n" for text in (body, other))
    same = digest(tmp_path / "made.py", one) == digest(tmp_path / "made.py", two)
    assert same or ast.unparse(ast.parse(one)) != ast.unparse(ast.parse(two))
    at = "0x[0-9a-f]+"  # of a function that is returned
    assert not same or re.sub(at, "", outcome(one)) == re.sub(at, "", outcome(two))


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
