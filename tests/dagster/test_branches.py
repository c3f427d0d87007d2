"""A branch goes on from where production stood, reads what changes there, and writes nothing of production's."""

import json
import random
import shutil
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from benchmarks.harness.earlier import set_back
from lakehouse import Changes, Merge, Table
from lakehouse.cli.main import main
from lakehouse.cli.retention import table_of_ours
from lakehouse.dagster import branches
from lakehouse.dagster.branches import branches_of, drop_branch, make_branch, on_branch
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.errors import SetupError
from lakehouse.upkeep.due import Rules
from lakehouse.upkeep.readers import PastFile, past_of
from tests.support.branched import (
    CITIES,
    NAMES,
    ROOT,
    begin,
    definitions,
    edit,
    files_of,
    house_of,
    rows_of,
    run,
    run_shops,
    untouched,
    wrong_tables,
)
from tests.support.dagster_house import House, failure, metadata
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.slow import slow
from tests.upkeep.by_hand import carry_out, log_of, look

WEEK = timedelta(days=7)
UNREAD = "no row changed"


@pytest.fixture(scope="module")
def production(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse that has read its sources twice."""
    lake = Lake(spark, tmp_path_factory.mktemp("production"))
    begin(lake)
    with dg.DagsterInstance.ephemeral() as instance:
        house = house_of(lake, instance)
        run(house)
        edit(lake, random.Random(1))
        run(house)
        run_shops(house, *CITIES)
    return lake.root


@pytest.fixture
def made(production: Path, lake: Lake, instance: dg.DagsterInstance) -> House:
    shutil.copytree(production, lake.root, dirs_exist_ok=True)
    return house_of(lake, instance)


def branched(lake: Lake) -> Lake:
    return Lake(lake.spark, Path(f"{lake.root}_branches/fix"))


def past_of_table(lake: Lake, name: str) -> tuple[PastFile, ...]:
    return past_of(log_of(lake, name).entries_after(-1, lake.version(name))).files


READER = "lakehouse.readers.branch/fix"
FOLLOWING = [name for name in NAMES if name != "looked_up"]
"""The tables that read changes."""


def properties(lake: Lake, name: str) -> Mapping[str, str]:
    head = log_of(lake, name).head()
    assert head is not None
    return head.properties


def how(result: dg.ExecuteInProcessResult, *names: str) -> set[str]:
    """How the sources were read."""
    return {each["how"] for name in names for each in metadata(result, name)["read"]}


def test_a_branch_reads_nothing_at_first_and_then_the_keys_that_changed_there(made: House, lake: Lake) -> None:
    own = branched(lake)
    with untouched(lake.root):
        branch = make_branch(definitions(made), "fix", (), WEEK)
        assert {clone.name: clone.compares for clone in branch.clones if clone.compares} == {}
        versions = {name: own.version(name) for name in (*NAMES, "by_city", "clean_quarantine")}
        assert how(run(made, branch="fix"), *FOLLOWING) == {UNREAD}
        assert [how(each, "by_city") for each in run_shops(made, *CITIES, branch="fix")] == [{UNREAD}] * 3
        assert {name: own.version(name) for name in versions} == versions, "and so nothing was written"

        own.sql("UPDATE {orders} SET v = 7777 WHERE id = 3")
        result = run(made, branch="fix")
        (shop,) = run_shops(made, "bonn", branch="fix")

        assert wrong_tables(own) == {}
        assert how(result, *FOLLOWING) == {"change feed", UNREAD}, "no source was read whole"
        assert [metadata(result, name)["updated"] for name in ("clean", "mapped", "totals", "looked_up")] == [1] * 4
        assert metadata(shop, "by_city")["updated"] == 1
        assert not any(":" in file.path for file in past_of_table(own, "clean")), "files of production are not its own"
    assert rows_of(lake, "orders") != rows_of(own, "orders")


def test_a_table_that_another_program_has_changed_since_its_last_run_is_compared_on_the_branch(
    made: House, lake: Lake
) -> None:
    """In production the log shows the change; in the clone nothing would, and sums would be added to changed ones."""
    own = branched(lake)
    lake.sql("UPDATE {totals} SET v = v + 1000 WHERE city = 'ulm'")
    branch = make_branch(definitions(made), "fix", ["totals"], WEEK)
    assert {clone.name: clone.compares for clone in branch.clones if clone.compares} == {
        "totals": (f"version {lake.version('totals')} (UPDATE) has written to it since",)
    }
    own.sql("UPDATE {orders} SET v = v + 1 WHERE city = 'ulm'")
    run(made, "clean", "totals", branch="fix")
    sums = {city: sum(v for _, of, v in rows_of(own, "clean") if of == city) for city in CITIES}
    assert {city: v for city, _, v in rows_of(own, "totals")} == sums


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [slow(seed) for seed in range(6)])
def test_a_branch_of_any_moment_becomes_its_own_recompute_and_production_too(
    made: House, lake: Lake, seed: int
) -> None:
    """With unread changes, tables that are ahead of others, a quarantine, a history, a mapping and partitions."""
    chance = random.Random(seed)
    story = [f"seed {seed}"]
    for _ in range(4):
        story += [edit(lake, chance), edit(lake, chance)]
        some = chance.sample(NAMES, chance.randrange(1, 5))
        run(made, *some)
        run_shops(made, *chance.sample(CITIES, 1))
        story.append(f"run {some}")
    own = branched(lake)
    with untouched(lake.root):
        branch = make_branch(definitions(made), "fix", (), WEEK)
        story += [f"{clone.name} {clone.version} {clone.compares}" for clone in branch.clones]
        archived = next(clone for clone in branch.clones if clone.name == "archived")
        names = [name for name in NAMES if name != "archived"]
        for _ in range(2):
            story += [edit(own, chance)]
            run(made, *names, branch="fix")
            run_shops(made, *CITIES, branch="fix")
            if not archived.compares:
                run(made, "archived", branch="fix")
            assert wrong_tables(own, archive=not archived.compares) == {}, story
    story.append(edit(lake, chance))
    run(made)
    run_shops(made, *CITIES)
    assert wrong_tables(lake) == {}, story


def test_upkeep_of_production_keeps_what_a_branch_needs_within_its_limit(made: House, lake: Lake) -> None:
    own, limit = branched(lake), timedelta(days=40)
    before = files_of(lake.root)
    make_branch(definitions(made), "fix", (), timedelta(days=20))
    branch = make_branch(definitions(made), "fix", (), limit)
    assert {clone.registers for clone in branch.clones} == {None, "interval 41 days"}, "the longer limit counts"
    registered = {clone.name for clone in branch.clones if clone.registers}
    assert registered == {*NAMES, "by_city"}, "those that others write are theirs to keep"
    assert READER in properties(lake, "clean_quarantine"), "a quarantine goes with its table"
    after = files_of(lake.root)
    assert {name: digest for name, digest in after.items() if name in before} == before
    assert all("_delta_log" in name for name in after.keys() - before.keys()), "a property of the table, and no file"

    lake.sql("UPDATE {orders} SET v = v + 100, city = 'ulm'")
    run(made)
    set_back(lake.root / "clean", 10)
    needed = look(lake, "clean", Rules(freed_share=0.0))
    removable = {file.path for file in past_of_table(lake, "clean") if file.version > 0}
    assert removable, "the files of the branch are past files of the table"
    assert not removable & {file.path for file in needed.unneeded}
    carry_out(lake, needed)
    own.sql("UPDATE {orders} SET v = v + 1 WHERE id = 4")
    run(made, branch="fix")
    assert wrong_tables(own, shop=False) == {}

    drop_branch(definitions(made), "fix")
    assert not own.root.exists()
    assert branches_of(definitions(made)) == []
    assert not any(READER in properties(lake, name) for name in (*NAMES, "by_city", "clean_quarantine"))
    released = look(lake, "clean", Rules(freed_share=0.0))
    assert {file.path for file in released.unneeded} & removable, "without the branch nobody needs them"


def test_a_branch_that_is_in_use_is_neither_removed_nor_released(
    made: House, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_use(root: Path) -> None:
        raise SetupError.server(root, "it is in use.")

    make_branch(definitions(made), "fix", ["totals"], timedelta(days=40))
    monkeypatch.setattr(branches, "stop", in_use)
    with raises_code("SERVER"), untouched(lake.root):
        drop_branch(definitions(made), "fix")
    assert READER in properties(lake, "clean") and branched(lake).version("clean") == 0


def test_a_branch_that_is_half_made_is_completed_as_it_was_begun(made: House, lake: Lake) -> None:
    own = branched(lake)
    make_branch(definitions(made), "fix", ["totals"], WEEK)
    assert sorted(path.name for path in own.root.iterdir()) == ["clean", "clean_quarantine", "orders", "totals"]
    shutil.rmtree(own.root / "totals")
    lake.sql("UPDATE {orders} SET v = v + 5 WHERE id = 2")
    run(made)

    with untouched(lake.root):
        branch = make_branch(definitions(made), "fix", (), WEEK)

    versions = {clone.name: clone.version for clone in branch.clones}
    assert {clone.name for clone in branch.clones if not clone.is_new} == {"orders", "clean"}
    assert own.version("orders") == own.version("clean") == 0
    assert versions["orders"] == lake.version("orders") - 1
    assert {clone.name: clone.compares for clone in branch.clones if clone.compares}
    assert how(run(made, "clean", branch="fix"), "clean") == {UNREAD}
    run(made, *(name for name in NAMES if name != "archived"), branch="fix")
    assert wrong_tables(own, shop=False, archive=False) == {}
    assert [(each.name, len(each.clones)) for each in branches_of(definitions(made))] == [("fix", 10)]


def test_a_branch_of_another_root_is_beside_ones_own_root_and_registers_nothing(
    made: House, lake: Lake, instance: dg.DagsterInstance
) -> None:
    mine = Lake(lake.spark, lake.root.parent / "mine")
    house = house_of(mine, instance)
    with untouched(lake.root):
        branch = make_branch(definitions(house), "fix", ["totals"], timedelta(days=40), str(lake.root))

        assert branch.roots == (f"{mine.root}_branches/fix",)
        assert {clone.name: clone.registers for clone in branch.clones} == dict.fromkeys(["orders", "clean", "totals"])
        assert how(run(house, "clean", "totals", branch="fix"), "clean", "totals") == {UNREAD}
        assert not mine.root.exists(), "the branch is beside it"


def test_a_branch_that_is_completed_from_another_root_carries_no_position_to_the_clones_of_the_first(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    mine = Lake(lake.spark, lake.root.parent / "mine")
    begin(lake)
    begin(mine)
    mine.sql("UPDATE {orders} SET v = v + 100")
    lake.sql("UPDATE {orders} SET v = v + 1")
    house = house_of(mine, instance)
    run(house, "clean")
    make_branch(definitions(house), "fix", ["orders"], WEEK, str(lake.root))

    branch = make_branch(definitions(house), "fix", ["clean"], WEEK)

    assert [(clone.name, clone.compares) for clone in branch.clones] == [
        ("clean", ("another table has taken the place of orders",))
    ]
    (listed,) = branches_of(definitions(house))
    assert {clone.name: clone.until is None for clone in listed.clones} == {"clean": False, "orders": True}
    run(house, "clean", branch="fix")
    own = branched(mine)
    assert rows_of(own, "clean") == rows_of(own, "orders") == rows_of(lake, "orders")


def test_a_table_with_a_place_of_its_own_is_read_there_and_not_written_on_a_branch(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    begin(lake)
    shared = Table(key="id", path=str(lake.root.parent / "shared"))

    @dg.asset(metadata=shared)
    def elsewhere(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    house = House(lake, [dg.AssetSpec("orders"), elsewhere], instance)
    run(house, "elsewhere")
    branch = make_branch(definitions(house), "fix", (), WEEK)
    assert branch.elsewhere == ("elsewhere",)
    with on_branch("fix"), untouched(lake.root.parent / "shared"):
        result = house.run("elsewhere", raise_on_error=False)
        assert "has a place of its own" in failure(result)
        with raises_code("NOT_OURS"):
            table_of_ours("elsewhere", code_location_of(definitions(house)))


def test_compare_tells_rows_columns_and_schema_and_shows_values_only_if_asked(
    made: House, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ROOT, str(lake.root))
    command = ["-m", "tests.support.branched:project"]
    assert main(["branch", "fix", *command]) == 0
    text = capsys.readouterr().out
    assert "fix: 10 tables, kept for 6 d 23 h at least" in text
    own_root = branched(lake).root
    assert max(map(len, text.replace(str(own_root), "").splitlines())) <= 80, text
    own = Lake(lake.spark, own_root)
    own.sql("UPDATE {orders} SET v = 7777 WHERE id = 3")
    own.sql("DELETE FROM {orders} WHERE id = 5")
    own.sql("INSERT INTO {orders} VALUES (50, 'ulm', 1)")
    own.sql("ALTER TABLE {orders} ADD COLUMNS (note string)")
    lake.sql("UPDATE {orders} SET v = -1")

    with untouched(lake.root):
        assert main(["compare", "fix", "orders", "totals", *command, "--fail-on", "rows"]) == 1
        text, before = capsys.readouterr()
        assert "orders: 4 rows of the change feed and of their keys are read." in before
        assert text.splitlines() == [
            "orders: 1 different, 1 only here, 1 only there",
            "  + column note string",
            "  differ in v (1)",
            "  ~ id=3",
            "  - id=5",
            "  + id=50",
            "totals: the same rows",
            "1 of 2 tables differs from where fix began.",
        ]
        assert "7777" not in text
        page = lake.root.parent / "page.html"
        assert main(["compare", "fix", *command, "--html", str(page), "--fail-on", "any"]) == 1
        html = page.read_text()
        assert "1 of 10 tables differs from where fix began." in html and "7777" not in html
        assert "orders: 1 different, 1 only here, 1 only there" in html and "totals: the same rows" in html
        assert "  + column note string" in html
        assert main(["compare", "fix", "totals", *command, "--fail-on", "any"]) == 0
        assert main(["compare", "fix", "orders", *command, "--values", "--json", "--fail-on", "schema"]) == 1
    *_, document = capsys.readouterr().out.partition("fix began.\n")
    (compared,) = json.loads(document)["tables"]
    assert compared["diff"]["counts"] == {"inserted": 1, "updated": 1, "deleted": 1}
    assert compared["diff"]["rows"][0]["after"] == {"v": "7777"}
    assert main(["branch", "--list", *command]) == 0
    assert main(["branch", "--drop", "fix", *command]) == 0
    assert not own_root.exists()


@dg.asset(metadata=Table(key="id", properties={"delta.columnMapping.mode": "name"}))
def picked(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.select("id", "v"), touched)


@pytest.mark.slow
def test_a_branch_that_is_completed_later_sees_columns_that_were_renamed_in_it(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.create("orders", [(1, 10, 100)], "id INT, v INT, w INT", delta__columnMapping__mode="name")
    house = House(lake, [dg.AssetSpec("orders", metadata=Table(key="id")), picked], instance)
    house.run("picked")
    own, project = branched(lake), dg.Definitions(house.assets, resources={"io_manager": house.io_manager})
    make_branch(project, "fix", ["orders"], WEEK)
    for old, new in (("v", "t"), ("w", "v"), ("t", "w")):
        own.sql(f"ALTER TABLE {{orders}} RENAME COLUMN {old} TO {new}")
    make_branch(project, "fix", ["picked"], WEEK)
    with on_branch("fix"):
        house.run("picked")
    assert own.rows("picked") == [(1, 100)]
