"""The digest of a function's code differs for different code, and is the same for the same code written differently.

In the texts, `«1→2»` stands for 1 before an edit, and for 2 after it.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakehouse.cursor.digests import Code
from lakehouse.dagster.code.digest import code_of
from tests.dagster.code.project import CLASS, HELPER, Project
from tests.support.for_each import for_each

EDIT = re.compile("«([^»]*)→([^»]*)»")
PLAIN = "def orders(rows):\n    return rows.where('v > 1')\n"
BY_MODULE = "from shop import rules\n\ndef orders(rows):\n    return rules.clean(rows)\n"
IN_THE_FUNCTION = "def orders(rows):\n    from shop.rules import clean\n    return clean(rows)"
RELATIVE = "def orders(rows):\n    from . import rules\n    return rules.clean(rows)"
RENAMED = "from shop.rules import L as M\n\ndef orders(rows): return M"
CLEAN = "def clean(rows): return «1→2»"
TWO = "class Rules:\n    @staticmethod\n    def s(): return 1\n    @property\n    def p(self): return «1→2»"
CHAIN = "LIMIT = {}\ndef clean(rows):\n    return tidy(rows)\n\ndef tidy(rows):\n    return clean(rows) {} LIMIT\n"
GIVEN = """
import re
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
from math import sin, cos
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
DATACLASS = "@dataclass\nclass Spec:\n    least: Any"
KINDS = [
    DATACLASS,
    "@dataclass(frozen=True, slots=True)\nclass Spec:\n    least: Any",
    "@dataclass\nclass Base:\n    least: Any\nclass Spec(Base): ...",
    "class Spec(NamedTuple):\n    least: Any",
    "Spec = namedtuple('Spec', ['least'])",
    "class Spec(BaseModel):\n    least: Any\n    def __init__(self, least): super().__init__(least=least)",
]
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
PARTIAL = "from functools import partial\n"
EXCHANGED = "def make(n):\n    def f(x): return n\n    return f\na, b = «make(1), make(2)→make(2), make(1)»\n"
BY_CLASS = "class wrap:\n    def __init__(self, f): self.f = f\n    def __call__(self, x): return self.f(x)\n"


def given_to_it(value: str, kind: str = "") -> str:
    return GIVEN.format(kind=kind, given=value)


def wraps(*, wraps: str = "@wraps(function)", extra: str = "word", word: str = "1", where: str = "2") -> str:
    return WRAPS.format(wraps=wraps, extra=extra, word=word, where=where)


def factory(*, one: str = "1", limit: str = "3", then: str = "one") -> str:
    return FACTORY.format(one=one, limit=limit, then=then)


def constant(text: str, use: str = "LIMIT") -> str:
    return f"{text}\n\ndef orders(rows):\n    return rows, {use}\n"


SAME: list[tuple[str, ...]] = [
    ("«→import os\n\n»" + PLAIN,),
    (
        (
            'def orders(«rows→\n    rows: "Changes",  # all\n»)«→ -> int»:\n«→    """Doc."""\n»'
            "    return «→(»rows«→\n        ».where(«'v > 1'→\"v > 1\"»)«→)»\n"
        ),
    ),
    ("def orders(rows):\n    x«→: int» = 1\n    return x",),
    (PLAIN + "«→\ndef other(): return 1\n»",),
    (HELPER, "«→A = 3\n»def clean(rows):«→\n   » return 1«→\ndef tidy(): ...»"),
    (CLASS, 'class Rules:\n«→    """Doc."""\n»    def clean(self)«→ -> int»:\n«→        """Doc."""\n»        return 1'),
    # What cannot be seen, or must not be: a secret, an object without fields, code that is not named, a name in a text.
    (
        given_to_it(
            "Spec(«1→2»)",
            "class Spec(BaseModel):\n    api_key: Any\n    def __init__(self, key): super().__init__(api_key=key)",
        ),
    ),
    (given_to_it("Spec(«1→2»)", "class Spec:\n    def __init__(self, least): self.least = least"),),
    (
        constant(
            "class C:\n    def m(self): return «1→2»\nRULES = [C() for _ in 'ab']\ndef get(): return 1",
            "get",
        ),
    ),
    ("def orders(rows): return getattr(rows, 'a')", "A = «1→2»"),
]
OTHER: list[tuple[str, ...]] = [
    ("the code of orders changed", PLAIN.replace("1", "«1→2»")),
    ("the code of orders changed", PLAIN.replace("(rows)", "(rows«→, *more»)")),
    ("the code of orders changed", "«→async »def orders(rows): return rows + 1"),
    ("the code of orders changed", wraps(where="«2→3»")),
    ("names changed: traced.decorator.wrapper", wraps(extra="word«→ + 1»")),
    ("names changed: traced.decorator.wrapper", wraps(word="«1→2»")),
    ("names changed: orders", wraps(wraps="", where="«2→3»")),
    ("the code of traced.decorator.wrapper changed", wraps(wraps="", extra="«word→0»")),
    ("the code of make.asset changed", factory(limit="«3→4»")),
    ("the code of make.asset changed", factory(limit="«3→[1, {2: b'x'}, {'y', None}]»")),
    ("the code of make.asset changed, and of", factory(then="«one→two»")),
    ("names changed: one", factory(one="«1→5»")),
    ("names changed: <lambda>", factory(then="lambda rows: rows«→ * 2»")),
    ("the code of <lambda> changed", "orders = lambda rows: rows + «1→2»"),
    ("the code of <lambda> changed", "pair = (lambda x: x), (lambda x: x + «1→2»)\norders = pair[1]"),
    ("<lambda> changed", "orders = [lambda rows, i=i: rows + i for i in range(«3→1, 4»)][1]"),
    ("the code that f names changed", PARTIAL + "def f(a, rows): return a\norders = partial(f, «1→2»)"),
    ("the code of f changed", PARTIAL + "def f(a, rows): return «a→[a]»\norders = partial(f, 1)"),
    ("the code of make.orders changed", given_to_it("C.«A→B»", "class C(Enum):\n    A = 1\n    B = 2")),
    ("the code of make.orders changed", given_to_it("«sin→cos»")),
    ("the code of make.orders changed", given_to_it("Path('«a→b»')")),
    ("the code of make.orders changed", given_to_it("re.compile('a'«→, re.IGNORECASE»)")),
    ("the code of make.orders changed", given_to_it("UUID(int=«1→2»)")),
    ("the code of make.orders changed", given_to_it("[{'a': Spec(Spec(«1→2»))}]", DATACLASS)),
    *(("the code of make.orders changed", given_to_it("Spec(«1→2»)", kind)) for kind in KINDS),
    # What the function names: functions, classes, constants, and what these name in turn.
    ("the code that orders names changed: clean", HELPER, CLEAN),
    ("the code that orders names changed: clean", BY_MODULE, CLEAN),
    ("names changed: tidy", HELPER, CHAIN.format("1", "«or→and»")),
    ("names changed: LIMIT", HELPER, CHAIN.format("«1→2»", "or")),
    ("names changed: clean", HELPER, "from shop.more import clean", CLEAN),
    ("names changed: Rules.clean", CLASS, "class Rules:\n    def clean(self): return «1→2»"),
    ("names changed: Rules", CLASS, "class Rules:\n    a = «1→2»\n    def clean(self): return 1"),
    ("names changed: Base.b", CLASS, "class Base:\n    def b(self): return «1→2»\nclass Rules(Base): ..."),
    ("names changed: Rules.p", CLASS, TWO),
    ("names changed: Rules", CLASS, "from dataclasses import dataclass\n@dataclass\nclass Rules:\n    a: int = «1→2»"),
    ("names changed: LIMIT", constant("LIMIT = «1→2»")),
    ("names changed: LIMIT", constant("LIMIT = «1→True»")),
    ("names changed: LIMIT", constant("from shop.rules import *"), "LIMIT = «1→2»"),
    ("names changed: LIMIT", constant("from shop.rules import LIMIT\nLIMIT «→+»= 1"), "LIMIT = 1"),
    ("names changed: LIMIT", constant("from shop.rules import LIMIT\nLIMIT['a'] = «1→2»"), "LIMIT = {}"),
    ("names changed: LIMIT", constant("OTHER = (LIMIT := «1→2»)")),
    (
        "names changed: LIMIT",
        constant("try:\n    from lacking import LIMIT\nexcept ImportError:\n    from shop.rules import LIMIT"),
        "LIMIT = «1→2»",
    ),
    (
        "names changed: LIMIT",
        constant("LIMIT = «1→2»\ndef other():\n    from shop.rules import LIMIT\n    return LIMIT"),
        "LIMIT = 9",
    ),
    (
        "names changed: one",
        constant("LIMIT = []\n\n@LIMIT.append\ndef none(): ...\n\ndef one(): return «1→2»\nLIMIT[0] = one"),
    ),
    (
        "names changed: one",
        constant("LIMIT = []\ndef rule(f):\n    LIMIT.append(f)\n    return f\n\n@rule\ndef one(): return «1→2»"),
    ),
    ("names changed: LIMIT", constant("LIMIT = «→-»0.0")),
    ("names changed: LIMIT", constant("import datetime as dt\nLIMIT = dt.date(2024, 1, «1→2»)")),
    ("names changed: LIMIT", constant("LIMIT = ('a', ['b', {'c': {1, «2→3»}}])")),
    ("names changed: BASE", constant("BASE = «1→2»\nLIMIT = [BASE + 1]")),
    ("names changed: LIMIT", constant("class C:\n    def __init__(self, x): pass\nLIMIT = C(«1→2»)")),
    ("names changed: C.__init__", constant("class C:\n    def __init__(self, x): self.x = x«→, 1»\nLIMIT = [C(1)]")),
    ("names changed: LIMIT", constant("class C: ...\nLIMIT = C()\nLIMIT.x = «1→2»")),
    ("names changed: a", constant("def a(): return «1→2»\nLIMIT = {'a': a}")),
    ("names changed: L", RENAMED, "class C: ...\nL = C(), «1→2»"),
    ("names changed: shop.rules", IN_THE_FUNCTION, CLEAN),
    ("names changed: shop.rules", RELATIVE, CLEAN),
    ("the code", EXCHANGED + "def orders(rows): return a(rows) - b(rows)"),
    ("names changed: a", constant("from functools import cache\n@cache\ndef a(x): return «1→2»", "a(rows)")),
    ("names changed: a", constant(BY_CLASS + "@wrap\ndef a(x): return «1→2»", "a(rows)")),
    ("the code", constant(PARTIAL + "def f(x, *, w): return x\na = partial(f, w=«1→2»)", "a(rows)")),
    ("names changed: a", constant(PARTIAL + "a = partial(int, base=«8→16»)", "a(rows)")),
]


def states(texts: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The modules of a project before an edit, and after it."""
    assert any(EDIT.search(text) for text in texts)
    for group in (r"\1", r"\2"):
        yield dict(zip(("orders", "rules", "more"), (EDIT.sub(group, text) for text in texts), strict=False))


@for_each("texts", SAME)
def test_the_same_code_has_the_same_digest(shop: Project, texts: tuple[str, ...]) -> None:
    before, after = states(texts)
    code = shop.code(**before)
    assert code is not None and code.parts
    assert shop.code(**after) == code


@for_each("case", OTHER)
def test_a_function_of_other_code_has_another_digest_and_what_changed_is_named(
    shop: Project, case: tuple[str, ...]
) -> None:
    why, *texts = case
    before, after = states(tuple(texts))
    code = shop.code(**before)
    assert code is not None
    assert shop.code() == code, "loaded again"
    other = shop.code(**after)
    assert other is not None and other.digest != code.digest
    assert why in str(other.why_other(code))
    assert shop.code(**before) == code, "and back"


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
    at = "0x[0-9a-f]+"  # the address of a function that is returned
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
