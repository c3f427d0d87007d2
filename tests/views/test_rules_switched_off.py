"""Each rule of the plans, switched off in the source of its module, gives wrong rows: so the tests cover every rule."""

from pkgutil import resolve_name
from random import Random
from types import ModuleType

import pytest

from tests.support.for_each import for_each
from tests.support.switched_off import switched_off
from tests.views import queries

RULES = {
    "D0: rows that went touch": ("planning", "Image.MOVED", "Image.CAME", ["filter", "group", "semi"]),
    "D3: rows that other tables had": (
        "planning",
        "EVER = (Image.NOW, Image.GONE)",
        "EVER = (Image.NOW,)",
        ["group_other_side", "group_3", "window_join"],
    ),
    "D4: a change of a LEFT item stands for NULL, too": (
        "hops",
        "if nulls and (rows := ",
        "if False and (rows := ",
        ["left_group_right", "left_chain_group"],
    ),
    "D4: NULL goes on": (
        "hops",
        "if graph.is_left(item):\n            of_where",
        "if False:\n            of_where",
        ["left_chain_group", "left_then_inner"],
    ),
    "D6: NULL in NOT IN": (
        "deltas",
        "if node.sought and node.use is not MarkUse.POSITIVE:",
        "if False:",
        ["not_in", "not_in_corr"],
    ),
}


def is_right(duck: ModuleType, name: str, seed: int, rounds: int) -> bool:
    """Whether a table follows a query correctly through some rounds."""
    reading = resolve_name("lakehouse.views.query")
    random = Random(f"{seed}{name}")
    tables, new_row = duck.Tables(queries.TABLES), duck.NewRow(queries.TABLES, random)
    for table in queries.TABLES:
        tables.fill(table, [new_row(table) for _ in range(random.randint(0, 14))])
    table = duck.ViewTable(tables, reading.read(queries.QUERIES[name], queries.TABLES), duck.Searching.LITERALS)
    try:
        duck.follow(table, random, new_row, rounds)
    except duck.WrongRowsError:
        return False
    return True


@pytest.mark.slow
@for_each("rule", RULES)
def test_a_rule_that_is_switched_off_gives_wrong_rows(rule: str):
    module, old, new, names = RULES[rule]
    with switched_off(module, old, new) as duck:
        assert not all(is_right(duck, name, seed, 10) for seed in range(5) for name in names)


R3 = "if other.side is Side.INNER or (not pair.null_safe and rejects_null(pair.equality, of_other))"


@pytest.mark.slow
@for_each("rule", [R3, "if True"])
def test_a_missing_row_asks_for_what_its_null_becomes(rule: str):
    """R3: an order without a customer needs nation 1, which no customer of the touched orders names."""
    with switched_off("restrictions", R3, rule) as duck:
        reading = resolve_name("lakehouse.views.query")
        tables = duck.Tables(queries.TABLES)
        for table in queries.TABLES:
            tables.fill(table, [])
        tables.fill("n", [(1, "a"), (2, "b")])
        tables.fill("c", [(7, "x", 2)])
        view = duck.ViewTable(tables, reading.read(queries.QUERIES["left_then_inner"], queries.TABLES))
        view.compute()
        tables.change("o", [], [(1, 9, 1, 1, "x")], [])
        view.step(("id",), {"o"})
        if rule == R3:
            view.check()
        else:
            with pytest.raises(duck.WrongRowsError):
                view.check()
