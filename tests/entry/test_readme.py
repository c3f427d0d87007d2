"""The code in the documentation runs, and the files and make targets that it names exist."""

import datetime as dt
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.definitions import defs
from dagster_delta_lakehouse.project import write_project
from lakehouse import DeltaIOManager, Policy, Read, Table, __version__, checks, validate, views_from
from lakehouse.cli.main import COMMANDS
from tests.support.lake import Lake
from tests.support.slow import slow

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
SQL_FILE = re.compile(r"```sql\n-- (\S+\.sql)\n(.*?)```", re.DOTALL)
"""A block of SQL that names its file."""
WITH_CODE = [page.relative_to(PROJECT).as_posix() for page in PAGES if BLOCK.search(page.read_text())]
OPTIONS = {
    Table: "docs/reference/table.md",
    Policy: "docs/reference/table.md",
    Read: "docs/reference/reading-and-writing.md",
}


def code(page: str, place: Path = PROJECT / "definitions.py") -> dict[str, Any]:
    """The names that a page's Python code defines, all blocks in order, if it is saved at a place."""
    names: dict[str, Any] = {"__name__": "page", "__file__": str(place)}
    exec(compile("\n".join(BLOCK.findall((PROJECT / page).read_text())), str(place), "exec"), names)
    return names


def saved_code(page: str, folder: Path) -> dict[str, Any]:
    """The names that a page's Python code defines, if all of its files are saved in a folder."""
    text = (PROJECT / page).read_text()
    for name, statement in SQL_FILE.findall(text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(statement)
    (folder / "definitions.py").write_text("\n".join(BLOCK.findall(text)))
    return code(page, folder / "definitions.py")


def manager_of(lake: Lake) -> DeltaIOManager:
    return DeltaIOManager(spark=SimpleNamespace(spark_session=lake.spark), root=str(lake.root))


def materialization(assets: list[Any], lake: Lake) -> dict[str, Any]:
    resources, tags = {"io_manager": manager_of(lake)}, {"lakehouse/checks": "true"}
    result = dg.materialize(assets, resources=resources, tags=tags)
    assert all(check.passed for check in result.get_asset_check_evaluations())
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


@pytest.mark.filterwarnings("ignore:.* is currently in beta")
@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_is_one_module_whose_definitions_load(page: str, tmp_path: Path):
    for value in saved_code(page, tmp_path).values():
        if isinstance(value, dg.Definitions):
            validate(value).get_repository_def()


def totals(orders: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The README's asset in plain Python."""
    amounts: dict[str, list[Any]] = defaultdict(list)
    for _, customer, amount in orders:
        amounts[customer].append(amount)
    return sorted((customer, len(all_), max(all_)) for customer, all_ in amounts.items())


@pytest.mark.slow
def test_the_readmes_asset_follows_the_changes_of_its_source(lake: Lake):
    asset, source = code("README.md")["customer_totals"], dg.AssetSpec("orders")
    orders = [(1, "ann", 5), (2, "ann", 90), (3, "bea", 7), (4, "cat", 1)]
    lake.create("orders", orders, "order_id int, customer_id string, amount int")
    first = materialization([asset, source], lake)
    assert lake.rows("customer_totals") == totals(orders)
    assert first["write"] == "create"

    table = lake.ref("orders").identifier
    lake.sql(f"UPDATE {table} SET customer_id = 'bea', amount = 8 WHERE order_id = 2")
    lake.sql(f"DELETE FROM {table} WHERE order_id = 4")
    second = materialization([asset, source, *checks([asset])], lake)
    assert lake.rows("customer_totals") == totals([(1, "ann", 5), (2, "bea", 8), (3, "bea", 7)])
    assert (second["inserted"], second["updated"], second["deleted"]) == (0, 2, 1)
    (read,) = (record.data for record in second["read"].records)
    assert (read["table"], read["after"], read["upto"]) == ("orders", 0, 2)

    third = materialization([asset, source], lake)
    assert third["version"] == second["version"] == lake.version("customer_totals")


def test_the_page_of_a_package_index_is_the_readme_without_what_needs_a_clone():
    """It is cut at headings of the README; without these no wheel is built."""
    made = subprocess.run(
        [sys.executable, "-m", "hatch_fancy_pypi_readme"], check=True, cwd=PROJECT, capture_output=True, text=True
    )
    headings = re.findall(r"^## (.*)$", made.stdout, re.MULTILINE)
    assert headings == ["Install"]
    assert "make demo" not in made.stdout and "](docs/" not in made.stdout


DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_picture_of_the_readme_is_the_graph_of_the_demo():
    (diagram,) = DIAGRAM.findall((PROJECT / "README.md").read_text())
    graph = defs.resolve_asset_graph()
    names = {key: key.path[-1] for key in graph.get_all_asset_keys()}
    arrows = {
        (source, target)
        for left, right in re.findall(r"^  (.*) --> (.*)$", diagram, re.MULTILINE)
        for source in left.split(" & ")
        for target in right.split(" & ")
    }
    assert arrows == {(names[parent], names[key]) for key in names for parent in graph.get(key).parent_keys}
    groups = {
        (group, name)
        for group, inside in re.findall(r"^  subgraph (\w+)\n(.*?)^  end", diagram, re.MULTILINE | re.DOTALL)
        for name in inside.split()
    }
    assert groups == {(graph.get(key).group_name, name) for key, name in names.items()}


TUTORIAL = "docs/tutorial.md"


def test_the_tutorial_shows_the_files_of_a_new_project(tmp_path: Path):
    shop, text = tmp_path / "shop", (PROJECT / TUTORIAL).read_text()
    write_project(shop, "shop", __version__)
    assert BLOCK.findall(text) == [(shop / "src/shop/defs/orders.py").read_text()]
    ((name, statement),) = SQL_FILE.findall(text)
    assert statement == (shop / name).read_text()
    listed = re.findall(r"^\| `(\S+/\S+)` \|", text, re.MULTILINE)
    assert len(listed) == 6
    assert [file for file in listed if not (tmp_path / file).is_file()] == []


@pytest.mark.slow
def test_the_tutorial_moves_one_order_and_writes_the_two_customers_of_it(lake: Lake):
    write_project(lake.root, "shop", __version__)
    orders = code(TUTORIAL, lake.root / "src/shop/defs/orders.py")["orders"]
    spark = SimpleNamespace(spark_session=lake.spark)
    resources = {"spark": spark, "io_manager": DeltaIOManager(spark=spark, root=str(lake.root / "lake"))}

    def counts() -> dict[str, Any]:
        assets = [orders, *views_from(lake.root / "src/shop/defs/gold")]
        result = dg.materialize(assets, resources=resources)
        (event,) = result.asset_materializations_for_node("gold__orders_by_customer_id")
        return {name: event.metadata[name].value for name in ("inserted", "updated", "deleted")}

    assert counts()["inserted"] == 5
    data = lake.root / "data/orders.csv"
    data.write_text(data.read_text().replace("3,bob,7", "3,ann,7"))
    assert counts() == {"inserted": 0, "updated": 1, "deleted": 1}
    table = "lake/gold/orders_by_customer_id"
    assert lake.rows(table) == [("ann", 3), ("cid", 1), ("dee", 1), ("eve", 1)]

    _, changed = re.findall(r"```sql\n(.*?)```", (PROJECT / TUTORIAL).read_text(), re.DOTALL)
    (lake.root / "src/shop/defs/gold/orders_by_customer_id.sql").write_text(changed)
    assert counts() == {"inserted": 0, "updated": 4, "deleted": 0}
    assert lake.rows(table) == [("ann", 3, 25), ("cid", 1, 12), ("dee", 1, 31), ("eve", 1, 4)]


@pytest.mark.parametrize("test", [slow("test_a_delivered_order_leaves_the_table"), "test_a_second_run_writes_nothing"])
def test_the_tests_of_the_page_on_testing_pass(test: str, spark: SparkSession, tmp_path: Path):
    code("docs/how-to/test-assets.md")[test](SimpleNamespace(spark_session=spark), tmp_path)


@pytest.mark.slow
def test_the_page_on_testing_is_a_test_file_that_passes_with_the_server_that_it_starts(tmp_path: Path):
    (tmp_path / "test_assets.py").write_text(
        "".join(BLOCK.findall((PROJECT / "docs/how-to/test-assets.md").read_text()))
    )
    chosen = ["-k", "not definitions_load", "-p", "no:cacheprovider", "-q", "test_assets.py"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


ORDERS = (
    "order_id int, customer_id int, status string, amount int, currency string, ordered_on date, "
    "price int, quantity int"
)
EDITS = [
    [
        "UPDATE {orders} SET customer_id = 2 WHERE order_id = 1",
        "UPDATE {customers} SET name = 'Ann' WHERE name = 'ann'",
        "UPDATE {rates} SET rate = 3",
    ],
    [
        "DELETE FROM {customers} WHERE customer_id = 2",
        "INSERT INTO {customers} VALUES (9, 'late')",
        "UPDATE {orders} SET status = 'cancelled', ordered_on = DATE'2024-02-20' WHERE order_id = 2",
        "DELETE FROM {orders} WHERE order_id = 3",
    ],
]


def of_customers(orders: list[tuple[Any, ...]], customers: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    names = dict(customers)
    joined = [(customer, order, *more, names.get(customer)) for order, customer, *more in orders]
    return sorted(joined, key=repr)


def months(orders: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for _, customer, status, _, _, ordered_on, price, quantity in orders:
        if status != "cancelled":
            groups[customer, ordered_on.replace(day=1)].append((price * quantity, status == "returned"))
    return sorted(
        ((*group, len(rows), sum(r for r, _ in rows), sum(b for _, b in rows)) for group, rows in groups.items()),
        key=repr,
    )


@pytest.mark.slow
def test_the_recipes_for_assets_follow_their_sources(lake: Lake):
    """A join of two changing sources, an `Aggregate`, a snapshot input; each equals the same result in plain Python."""
    january, february = dt.date(2024, 1, 15), dt.date(2024, 2, 15)
    lake.create("customers", [(1, "ann"), (2, "bea")], "customer_id int, name string")
    lake.create("rates", [("USD", 2)], "currency string, rate int")
    lake.create(
        "orders",
        [
            (1, 1, "new", 100, "USD", january, 2, 3),
            (2, 1, "returned", 200, "USD", january, 3, 3),
            (3, 2, "new", 300, "USD", february, 7, 1),
            (4, 9, "new", 400, "USD", february, 4, 4),
        ],
        ORDERS,
    )
    recipes, euro, former = code("docs/how-to/write-an-asset.md"), dict[int, int](), list[tuple[Any, ...]]()
    assets = [recipes[name] for name in ("orders_with_many_customers", "customer_months", "orders_in_euro")]
    assets += [dg.AssetSpec(name) for name in ("orders", "customers", "rates")]
    manager = manager_of(lake)
    for edits in [[], *EDITS]:
        for edit in edits:
            lake.sql(edit)
        assert dg.materialize(assets, resources={"io_manager": manager}).success
        orders, ((_, rate),) = lake.rows("orders"), lake.rows("rates")
        present = {row[0] for row in orders}
        euro |= {row[0]: row[3] * rate for row in orders if row not in former}
        former = orders
        assert lake.rows("orders_with_many_customers") == of_customers(orders, lake.rows("customers"))
        assert lake.rows("customer_months") == months(orders)
        assert lake.rows("orders_in_euro") == sorted((id_, value) for id_, value in euro.items() if id_ in present)


@pytest.mark.slow
def test_the_recipes_for_groups_of_either_side_and_for_a_python_function_follow_their_sources(lake: Lake):
    lake.create("customers", [(1, "Bonn"), (2, "Lyon")], "customer_id int, city string")
    orders = [(1, 1, "tea", "new", 7), (2, 1, "tea", "paid", 12345), (3, 2, "rum", "new", 1), (4, 9, "rum", "new", 2)]
    lake.create("orders", orders, "order_id int, customer_id int, product string, status string, amount int")
    recipes = code("docs/how-to/write-an-asset.md")
    assets = [recipes["city_products"], recipes["order_labels"], dg.AssetSpec("orders"), dg.AssetSpec("customers")]
    edits = [
        [],
        ["UPDATE {customers} SET city = 'Lyon' WHERE customer_id = 1"],
        [
            "DELETE FROM {orders} WHERE order_id = 3",
            "UPDATE {orders} SET product = 'rum', status = 'lost' WHERE amount = 7",
        ],
        ["INSERT INTO {customers} VALUES (9, 'Rome')", "DELETE FROM {customers} WHERE customer_id = 1"],
    ]
    for statements in edits:
        for statement in statements:
            lake.sql(statement)
        assert dg.materialize(assets, resources={"io_manager": manager_of(lake)}).success
        rows, cities = lake.rows("orders"), dict(lake.rows("customers"))
        counted = Counter((cities.get(customer), product) for _, customer, product, *_ in rows)
        groups = [(*group, number) for group, number in counted.items()]
        assert sorted(lake.rows("city_products"), key=repr) == sorted(groups, key=repr)
        labels = [(order, f"{status.upper()}-{amount:05d}") for order, _, _, status, amount in rows]
        assert lake.rows("order_labels") == sorted(labels)


def test_the_reference_has_a_row_for_every_option():
    for described, page in OPTIONS.items():
        text = (PROJECT / page).read_text()
        (table,) = re.findall(rf"^\| `{described.__name__}` \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
        cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
        rows = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
        assert rows == {name for name in described.__dataclass_fields__ if not name.startswith("_")}


def test_what_a_page_points_at_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    missing = list[tuple[str, str]]()
    for page in PAGES:
        text = page.read_text()
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
            linked = (page.parent / target) if target else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                missing.append((page.name, f"{target}#{anchor}"))
        made = set(re.findall(r"`(?:[A-Z_]+=\S+ )?make\s+([a-z0-9-]+)", text))
        missing += [(page.name, f"make {target}") for target in made - targets]
        files = re.findall(r"`((?:lakehouse|assets|resources|tests|examples)/[a-z0-9_/]+\.(?:py|md))`", text)
        missing += [(page.name, file) for file in files if not (PROJECT / file).exists()]
    assert missing == []


def options_of(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                yield from options_of(inner)


def test_a_command_that_a_page_or_a_form_names_exists_and_has_its_options():
    known = dict[str, set[str]]()
    for name, (_, place) in COMMANDS.items():
        parser = ArgumentParser()
        resolve_name(place).add_arguments(parser)
        known[name] = set(options_of(parser))
    wrong = [
        (page.name, command)
        for page in [*PAGES, *PROJECT.glob(".github/ISSUE_TEMPLATE/*.yml")]
        for command in re.findall(r"(?:`|^)lakehouse ([a-z]+[^`\n#]*)", page.read_text(), re.MULTILINE)
        for name, *words in [command.split()]
        if name not in known or not {word for word in words if word.startswith("-")} <= known[name]
    ]
    assert wrong == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


PRIVATE = re.compile(
    r"\b(rungs?|ladder|anew|slips?|slipped|twins?|look-ups?|in doubt|misleading|settled|loud)\b", re.IGNORECASE
)
"""Words that only this project used; the field has others (CONTEXT.md)."""
OWN_WORDS = {"CONTEXT.md", "CHANGELOG.md"}
"""The glossary names them, the changelog quotes them."""


def test_a_page_for_users_speaks_the_words_of_the_field():
    pages = [page for page in PAGES if page.name not in OWN_WORDS and "adr" not in page.parts]
    assert [(page.name, word) for page in pages for word in PRIVATE.findall(page.read_text())] == []


def test_a_page_is_short_enough_to_be_read():
    """CONTRIBUTING.md sets 1,500 words, 900 for the README, 300 for a decision; one more row does not split a page."""
    words = {page.relative_to(PROJECT).as_posix(): len(DIAGRAM.sub("", page.read_text()).split()) for page in PAGES}
    most = {
        "README.md": 900,
        "docs/benchmarks.md": 1600,
        **{page: 320 for page in words if page.startswith("docs/adr/0")},
    }
    assert {page: number for page, number in words.items() if number > most.get(page, 1500)} == {}


DECISIONS = sorted(PROJECT.glob("docs/adr/0*.md"))
NUMBERED = {int(page.name[:4]) for page in DECISIONS}
SOURCES = [
    path
    for folder in ("lakehouse", "assets", "resources", "benchmarks", "website", "tests")
    for path in (PROJECT / folder).rglob("*.py")
]
NAMED_PAGE = re.compile(r"\bdocs/[a-z-]+(?:/[a-z_-]+)*\.md\b")


def test_a_page_that_code_names_is_there():
    named = {page for path in SOURCES for page in NAMED_PAGE.findall(path.read_text())}
    assert {page for page in named if not (PROJECT / page).exists()} == set()


NAMED_DECISION = re.compile(r"\bADRs?\s+(\d+(?:(?:,\s+|\s+and\s+)\d+)*)")


def test_a_decision_that_a_page_or_a_comment_names_has_a_page():
    named = {
        (path.relative_to(PROJECT).as_posix(), int(number))
        for path in [*PAGES, *SOURCES]
        for numbers in NAMED_DECISION.findall(path.read_text())
        for number in re.findall(r"\d+", numbers)
    }
    assert {number for _, number in named}, "no decision is named anywhere"
    assert {(path, number) for path, number in named if number not in NUMBERED} == set()


def test_the_index_of_decisions_has_a_line_for_each_number():
    """Each number has a page, with its title; or it was removed, and the line says where its content is now."""
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", (PROJECT / "docs/adr/README.md").read_text(), re.MULTILINE)
    lines = {int(number): line for numbers, line in rows for number in numbers.split(", ")}
    assert set(lines) == set(range(1, max(NUMBERED) + 1))
    titles = {int(page.name[:4]): page.read_text().splitlines()[0] for page in DECISIONS}
    for number, title in titles.items():
        named = re.match(r"\[(.*?)\]\((\d+)[^)]*\.md\)", lines[number])
        assert named is not None, title
        assert (f"# {number}. {named[1]}", int(named[2])) == (title, number)


def test_a_decision_says_what_holds_it():
    for page in DECISIONS:
        held = re.search(r"^Held by (.*?)\n\n", page.read_text(), re.MULTILINE | re.DOTALL)
        assert held is not None, page.name
        assert "](../../tests/" in held[1] or "`make check`" in held[1], page.name


def test_the_index_links_every_page():
    index = (PROJECT / "docs/README.md").read_text()
    pages = {page.relative_to(PROJECT / "docs").as_posix() for page in PROJECT.glob("docs/**/*.md")}
    expected = {page for page in pages if not page.startswith("adr/") and page != "README.md"}
    assert expected <= set(re.findall(r"\]\(([^)#]+)", index))
