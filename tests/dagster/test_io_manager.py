"""Dagster's own path: what a user's definitions do when they are materialized."""

import datetime as dt
import re
import shutil

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, DeltaIOManager, Merge, Overwrite, Read, Table, change_sensor, checks, validate
from lakehouse.errors import DefinitionError, MissingKeyError, PartitionColumnError, UnsupportedAnnotationError
from tests.dagster.lakehouse import House, failure, metadata
from tests.lake import Lake

DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-05")
EVENTS = "id int, day date, v int"
DAY_1, DAY_2, DAY_3 = (dt.date(2013, 1, day) for day in (1, 2, 3))

orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id", columns={"v": "the value"}), kinds={"pyspark", "deltalake"})
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(key_prefix="gold", metadata=Table(key="day"))
def totals(copies: Changes) -> Merge:
    touched = copies.touched("day")
    return Merge(touched.rows.groupBy("day").agg(F.sum("v").alias("total")), touched)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def by_day(orders: DataFrame) -> Overwrite:
    return Overwrite(orders)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day"))
def landed(orders: DataFrame) -> Append:
    return Append(orders)


@dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
def daily_copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def slow(orders: Changes) -> Merge:
    """Each row takes a while, in one task."""
    touched = orders.touched("id")
    waited = touched.rows.where("reflect('java.lang.Thread', 'sleep', CAST(1000 AS BIGINT)) IS NOT NULL")
    return Merge(waited.coalesce(1), touched)


@dg.asset
def everything(orders: DataFrame) -> DataFrame:
    return orders


ASSETS = [orders, copies, totals, by_day, landed, daily_copies, everything]


@pytest.fixture
def house(lake: Lake) -> House:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    return House(lake, ASSETS)


def test_a_table_that_no_asset_makes_is_read_through_its_spec(house: House) -> None:
    first = metadata(house.run("copies", "gold/totals"), "copies")
    assert first["read"] == [{"table": "orders", "after": -1, "upto": 0, "changed": "all rows", "how": "first read"}]
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    result = house.run("copies", "gold/totals")
    second = metadata(result, "gold/totals")
    assert (second["version"], second["inserted"], second["updated"], second["deleted"]) == (1, 0, 1, 0)
    assert second["read"] == [
        {"table": "copies", "after": 0, "upto": 1, "changed": "1 inserted, 1 deleted", "how": "change feed"}
    ]
    assert house.lake.rows("gold/totals") == [(DAY_1, 11), (DAY_2, 50)]
    schema = metadata(result, "copies")["dagster/column_schema"]
    assert [(c.name, c.type, c.description) for c in schema.columns][-1] == ("v", "int", "the value")


def test_the_data_version_is_the_last_version_that_changed_a_row(house: House) -> None:
    house.run("copies")
    house.lake.sql("OPTIMIZE {copies}")
    house.lake.sql("UPDATE {orders} SET v = v")
    house.run("copies")
    record = house.instance.get_latest_materialization_event(dg.AssetKey("copies"))
    assert record is not None and record.asset_materialization is not None
    assert record.asset_materialization.tags is not None
    assert record.asset_materialization.tags["dagster/data_version"] == "0"
    assert house.lake.version("copies") > 0


def test_a_partition_run_writes_its_partition_and_nothing_else(house: House) -> None:
    house.run("by_day", partition_key="2013-01-02")
    assert [row[0] for row in house.lake.rows("by_day")] == [2, 3]
    house.lake.sql("UPDATE {orders} SET v = 0")
    house.run("by_day", partition_key="2013-01-01")
    assert house.lake.rows("by_day") == [(1, DAY_1, 0), (2, DAY_2, 20), (3, DAY_2, 30)]


@pytest.mark.parametrize("name", ["by_day", "landed", "daily_copies"])
def test_a_range_of_partitions_is_one_commit(house: House, name: str) -> None:
    tags = {"dagster/asset_partition_range_start": "2013-01-01", "dagster/asset_partition_range_end": "2013-01-02"}
    result = house.run(name, tags=tags)
    assert {e.partition for e in result.get_asset_materialization_events()} == {"2013-01-01", "2013-01-02"}
    assert house.lake.version(name) == 0
    assert [row[0] for row in house.lake.rows(name)] == [1, 2, 3]


@pytest.mark.slow
def test_appending_a_partition_again_adds_only_what_it_lacks(house: House) -> None:
    house.run("landed", partition_key="2013-01-02")
    house.run("landed", partition_key="2013-01-02")
    assert [row[0] for row in house.lake.rows("landed")] == [2, 3]
    house.lake.insert("orders", [(4, DAY_2, 40), (5, DAY_1, 50)])
    result = house.run("landed", partition_key="2013-01-02")
    assert metadata(result, "landed")["inserted"] == 1
    assert [row[0] for row in house.lake.rows("landed")] == [2, 3, 4]
    house.lake.sql("DELETE FROM {orders} WHERE id = 2")
    lost = house.run("landed", partition_key="2013-01-02", raise_on_error=False)
    assert "lacks rows that an earlier materialization appended" in failure(lost)


@pytest.mark.slow
def test_each_partition_reads_changes_from_its_own_position(house: House) -> None:
    house.run("daily_copies", partition_key="2013-01-01")
    house.lake.sql("UPDATE {orders} SET v = 0")
    house.run("daily_copies", partition_key="2013-01-02")
    assert house.lake.rows("daily_copies") == [(1, DAY_1, 10), (2, DAY_2, 0), (3, DAY_2, 0)]
    result = house.run("daily_copies", partition_key="2013-01-01")
    assert metadata(result, "daily_copies")["read"][0]["after"] == 0
    assert house.lake.rows("daily_copies") == [(1, DAY_1, 0), (2, DAY_2, 0), (3, DAY_2, 0)]


def test_a_long_step_says_in_the_log_of_its_run_how_far_it_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    house = House(lake, [orders, slow])
    monkeypatch.setattr("lakehouse.progress.QUIET", 1.5)
    monkeypatch.setattr("lakehouse.driver.INTERVAL", 0.2)
    run = house.run("slow").run_id
    told = [entry.user_message for entry in house.instance.all_logs(run) if "Spark has computed" in entry.user_message]
    sentence = r"for \d+ s: \d+ of \d+ stages, \d+ of \d+ tasks done, \d+ running"
    assert told
    assert all(re.search(sentence, said) for said in told)


def test_a_plain_dataframe_is_an_overwrite(house: House) -> None:
    house.run("everything")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")
    house.run("everything")
    assert [row[0] for row in house.lake.rows("everything")] == [2, 3]


def test_a_full_refresh_is_a_run_tag_and_writes_only_what_differs(house: House) -> None:
    house.run("copies")
    house.lake.sql("DELETE FROM {copies} WHERE id = 2")
    result = house.run("copies", tags={"lakehouse/full_refresh": "true"})
    found = metadata(result, "copies")
    assert found["read"][0]["how"] == "everything: a full refresh was asked for"
    assert (found["inserted"], found["updated"], found["deleted"]) == (1, 0, 0)


def test_a_missing_source_says_which_and_where(lake: Lake) -> None:
    result = House(lake, ASSETS).run("copies", raise_on_error=False)
    assert "'copies' reads 'orders', but there is no Delta table at" in failure(result)


def test_a_retry_policy_does_not_multiply_our_attempts(lake: Lake) -> None:
    calls: list[int] = []

    @dg.asset(metadata=Table(key="id"), retry_policy=dg.RetryPolicy(max_retries=3))
    def doubled(orders: Changes) -> Merge:
        calls.append(1)
        touched = orders.touched("id")
        return Merge(touched.rows.union(touched.rows), touched)

    lake.create("orders", [(1, DAY_1, 10)], EVENTS)
    result = House(lake, [orders, doubled]).run("doubled", raise_on_error=False)
    assert "more than one row with the key id=1" in failure(result)
    assert len(calls) == 1


def gone_while_writing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes are taken for too many to be read at once, and then they are not there."""
    monkeypatch.setattr("lakehouse.feeds.small", lambda _: None)
    for file in (lake.root / "orders" / "_change_data").glob("*.parquet"):
        file.unlink()


def test_changes_found_unreadable_while_writing_are_compared_instead(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change files vanish between the plan and the write: the step runs again and compares everything."""
    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, ASSETS)
    house.run("copies")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    gone_while_writing(lake, monkeypatch)
    result = house.run("copies")
    assert metadata(result, "copies")["read"][0]["how"].startswith("everything: ")
    assert lake.rows("copies") == lake.rows("orders")


def test_a_table_that_may_not_be_compared_is_not_compared_for_a_late_gap_either(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dg.asset(metadata=Table(key="id", on_gap="fail"))
    def careful(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, [orders, careful])
    house.run("careful")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    gone_while_writing(lake, monkeypatch)
    result = house.run("careful", raise_on_error=False)
    assert "cannot read its changes (0, 1]" in failure(result)
    assert lake.version("careful") == 0


def test_an_archive_answers_for_a_late_gap(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    @dg.asset
    def kept(orders: Changes) -> Append:
        return Append(orders.log())

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(archive="kept"))})
    def again(orders: Changes) -> Append:
        return Append(orders.log())

    lake.create("orders", [(n, DAY_1, n) for n in range(100)], EVENTS)
    house = House(lake, [orders, kept, again])
    house.run("kept", "again")
    lake.sql("UPDATE {orders} SET v = v + 1 WHERE id < 50")
    house.run("kept")
    gone_while_writing(lake, monkeypatch)
    assert metadata(house.run("again"), "again")["read"][0]["how"] == "the archive"
    assert lake.frame("again").count() == 100 + 50 + 50


def executed(house: House, definitions: dg.Definitions, *names: str, repeats: str | None = None) -> dg.DagsterRun:
    """A run of assets, which may repeat an earlier one; Dagster's way to start it from here is not public."""
    job = definitions.resolve_implicit_global_asset_job_def()
    selection = frozenset(dg.AssetKey(name) for name in names)
    run = house.instance.create_run_for_job(
        job.get_subset(asset_selection=selection), parent_run_id=repeats, root_run_id=repeats, asset_selection=selection
    )
    execute_run(InMemoryJob(job.get_subset(asset_selection=selection)), run, house.instance)
    ended = house.instance.get_run_by_id(run.run_id)
    assert ended is not None
    return ended


def test_a_run_that_repeats_one_that_repeats_one_knows_its_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first died between its commit and Dagster's event, the second before it wrote anything."""
    fails: list[bool] = [False, True, False]

    @dg.asset
    def added(orders: DataFrame) -> Append:
        if fails.pop(0):
            raise RuntimeError("before anything is written")
        return Append(orders)

    def dead(*_: object) -> None:
        raise RuntimeError("between the commit and the event")

    lake.create("orders", [(1, DAY_1, 10)], EVENTS)
    house = House(lake, [orders, added])
    defined = dg.Definitions(
        assets=[orders, added], resources={"io_manager": house.io_manager}, executor=dg.in_process_executor
    )
    with monkeypatch.context() as patched:
        patched.setattr("lakehouse.io_manager.report", dead)
        first = executed(house, defined, "added")
    second = executed(house, defined, "added", repeats=first.run_id)
    third = executed(house, defined, "added", repeats=second.run_id)
    assert [run.is_success for run in (first, second, third)] == [False, False, True]
    assert lake.rows("added") == [(1, DAY_1, 10)]


def definitions(lake_root: str, *assets: dg.AssetsDefinition) -> dg.Definitions:
    return dg.Definitions(assets=list(assets), resources={"io_manager": DeltaIOManager(spark=object(), root=lake_root)})


def test_an_asset_that_writes_elsewhere_reads_tables_as_they_are(house: House) -> None:
    sent: list[int] = []

    @dg.asset
    def published(orders: DataFrame) -> None:
        sent.extend(row.id for row in orders.collect())

    validate(definitions(str(house.root), copies, published))
    dg.materialize([orders, published], resources={"io_manager": house.io_manager}, instance=house.instance)
    assert sorted(sent) == [1, 2, 3]
    assert not (house.root / "published").exists()


def test_what_could_never_work_is_refused_when_the_location_loads() -> None:
    @dg.asset
    def keyless(orders: Changes) -> Merge: ...

    @dg.asset
    def meaningless(orders: int) -> Append: ...

    @dg.asset
    def silent(orders: Changes): ...

    @dg.asset(partitions_def=DAYS)
    def nowhere(orders: DataFrame) -> Append: ...

    @dg.asset(key_prefix="..")
    def escaping(orders: DataFrame) -> Append: ...

    expected = {
        keyless: (
            MissingKeyError,
            r"Asset 'keyless' returns a Merge but its table declares no key. Add metadata=Table",
        ),
        meaningless: (UnsupportedAnnotationError, "annotates its input 'orders' with int"),
        silent: (UnsupportedAnnotationError, "annotates its result with nothing"),
        nowhere: (PartitionColumnError, r"Add Table\(partition_by=...\)"),
        escaping: (DefinitionError, "cannot be a directory"),
    }
    for asset, (error, text) in expected.items():
        with pytest.raises(error, match=text):
            validate(definitions("/tmp/nowhere", asset))
    validate(definitions("/tmp/nowhere", copies, totals, by_day, landed))


def test_a_table_inside_another_and_one_among_sparks_own_files_are_refused() -> None:
    @dg.asset(key=["copies", "by_day"])
    def inside(orders: DataFrame) -> Append: ...

    @dg.asset(key_prefix="_spark")
    def hidden(orders: DataFrame) -> Append: ...

    with pytest.raises(DefinitionError, match="'copies/by_day' would be inside that of 'copies'"):
        validate(definitions("s3a://bucket/lake/", inside, copies))
    with pytest.raises(DefinitionError, match="cannot be a directory"):
        validate(definitions("/tmp/nowhere", hidden))


def test_the_sensor_asks_for_what_is_behind_and_all_that_follows(house: House) -> None:
    sensor = change_sensor("carry_on", ASSETS, root=str(house.root))

    def look() -> dg.RunRequest | dg.SkipReason:
        return sensor(dg.build_sensor_context(instance=house.instance))

    first = look()
    assert isinstance(first, dg.RunRequest)
    house.run("copies", "gold/totals")
    assert isinstance(look(), dg.SkipReason)
    house.lake.sql("OPTIMIZE {orders}")
    assert isinstance(look(), dg.SkipReason)
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    request = look()
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection == [dg.AssetKey("copies"), dg.AssetKey(["gold", "totals"])]
    again = look()
    assert isinstance(again, dg.RunRequest) and again.run_key == request.run_key
    house.run("copies", "gold/totals")
    assert isinstance(look(), dg.SkipReason)


def test_the_sensor_asks_again_for_what_was_undone(house: House) -> None:
    """Dagster starts no second run for a key that it has seen."""
    sensor = change_sensor("carry_on", [orders, copies], root=str(house.root))

    def look() -> str | None:
        asked = sensor(dg.build_sensor_context(instance=house.instance))
        return asked.run_key if isinstance(asked, dg.RunRequest) else None

    keys = [look()]
    house.run("copies")
    shutil.rmtree(house.root / "copies")
    keys.append(look())
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    keys.append(look())
    house.run("copies")
    house.lake.sql("RESTORE TABLE {copies} TO VERSION AS OF 0")
    keys.append(look())
    assert None not in keys
    assert len(set(keys)) == 4


def test_a_table_that_the_sensor_cannot_read_does_not_stop_the_others(house: House) -> None:
    @dg.asset(metadata=Table(key="id"))
    def others(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    sensor = change_sensor("carry_on", [orders, copies, others], root=str(house.root))
    house.run("copies")
    log = house.root / "copies" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"epoch\\":1', '\\"epoch\\":\\"x\\"'))
    asked = sensor(dg.build_sensor_context(instance=house.instance))
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("others")]


def test_a_partition_is_loaded_alone_outside_a_run_too(house: House) -> None:
    house.run("by_day", partition_key="2013-01-01")
    house.run("by_day", partition_key="2013-01-02")
    defined = dg.Definitions(assets=[orders, by_day], resources={"io_manager": house.io_manager})
    frame = defined.get_asset_value_loader(house.instance).load_asset_value(
        "by_day", python_type=DataFrame, partition_key="2013-01-02"
    )
    assert sorted(row.id for row in frame.collect()) == [2, 3]


def test_a_check_reads_through_the_io_manager_of_its_asset(house: House) -> None:
    @dg.asset(metadata=Table(key="id"), io_manager_key="delta")
    def elsewhere(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    source = dg.AssetSpec("orders", metadata={**Table(key="id"), "dagster/io_manager_key": "delta"})
    found = checks([source, elsewhere])
    result = dg.materialize([source, elsewhere, *found], resources={"delta": house.io_manager}, instance=house.instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed


@pytest.mark.slow
def test_the_check_holds_a_table_against_a_full_recompute(house: House) -> None:
    found = list(checks(ASSETS))
    assert {key.asset_key.to_user_string() for check in found for key in check.check_keys} == {"copies", "gold/totals"}
    house.assets = [*ASSETS, *found]
    house.run("copies", "gold/totals")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")  # not read yet: the check is about what has been read

    def evaluate() -> dict[str, bool]:
        result = dg.materialize(
            house.assets,
            selection=dg.AssetSelection.checks(*found),
            resources={"io_manager": house.io_manager},
            instance=house.instance,
        )
        return {e.asset_key.to_user_string(): e.passed for e in result.get_asset_check_evaluations()}

    assert evaluate() == {"copies": True, "gold/totals": True}
    house.lake.sql("UPDATE {copies} SET v = 1000 WHERE id = 2")
    assert evaluate()["copies"] is False
