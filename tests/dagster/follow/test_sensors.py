"""What the sensor asks for, by the logs alone."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.utils import make_new_run_id
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Overwrite, Policy, Read, Table, change_sensor, checks
from tests.support.dagster_house import House
from tests.support.interleave import before
from tests.support.tables import carried, copies, number, orders, totals
from tests.support.ticks import tick

pytestmark = pytest.mark.served


def test_the_sensor_asks_for_what_is_behind_and_all_that_follows(house: House) -> None:
    sensor = change_sensor("carry_on", [orders, copies, totals], root=str(house.root))

    def look() -> dg.RunRequest | dg.SkipReason:
        return tick(sensor, house.instance)

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
    house.run("copies", "gold/totals")
    assert isinstance(look(), dg.SkipReason)


def looked(house: House) -> dg.RunRequest | dg.SkipReason:
    sensor = change_sensor("carry_on", [orders, copies], root=str(house.root))
    return tick(sensor, house.instance)


def run_of(house: House, sensor: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run that a sensor has asked for; Dagster wants to know of a queued one which job it is."""
    job = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("any"), "any"), "any")
    run = dg.DagsterRun("any", make_new_run_id(), status=status, remote_job_origin=job)
    return house.instance.add_run(run.with_tags({"lakehouse/change_sensor": sensor}))


def test_a_run_that_is_asked_for_names_its_sensor_and_what_is_unread_and_checks_nothing(house: House) -> None:
    request = looked(house)
    assert isinstance(request, dg.RunRequest)
    assert request.tags == {"lakehouse/change_sensor": "carry_on", "lakehouse/unread": "copies"}
    assert request.asset_check_keys == []  # None would be every check: a full recompute after each step


@pytest.mark.parametrize("status", NOT_FINISHED_STATUSES, ids=str)
def test_the_sensor_waits_for_its_own_run_and_for_no_other(house: House, status: dg.DagsterRunStatus) -> None:
    run_of(house, "another", status)
    assert isinstance(looked(house), dg.RunRequest)
    run_of(house, "carry_on", status)
    assert isinstance(looked(house), dg.SkipReason)


@pytest.mark.slow
def test_the_sensor_asks_again_for_what_a_restore_undid(house: House) -> None:
    house.assets = [orders, copies]
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    assert asked_until_done(house, "copies") == 1
    house.lake.sql("RESTORE TABLE {copies} TO VERSION AS OF 0")
    assert asked_until_done(house, "copies") == 1


@pytest.mark.slow
def test_a_source_that_was_put_back_from_a_backup_is_asked_for(house: House, tmp_path: Path) -> None:
    """Once it has grown past the position nobody could tell any more."""
    house.assets = [orders, copies]
    shutil.copytree(house.root / "orders", tmp_path / "backup")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    house.run("copies")
    shutil.rmtree(house.root / "orders")
    shutil.copytree(tmp_path / "backup", house.root / "orders")
    assert asked_until_done(house, "copies") == 1
    assert house.lake.rows("copies") == house.lake.rows("orders")


@pytest.mark.slow
def test_an_input_that_was_only_looked_up_so_far_is_asked_for(house: House) -> None:
    """A snapshot input says at which version, and not that every change up to it was applied."""

    def looked_up(orders: DataFrame) -> Overwrite:
        return Overwrite(orders)

    house.assets = [orders, dg.asset(name="followed", metadata=Table(key="id"))(looked_up)]
    house.run("followed")
    house.assets = [orders, dg.asset(name="followed", metadata=Table(key="id"))(carried)]
    assert asked_until_done(house, "followed") == 1


@pytest.mark.slow
def test_what_a_full_refresh_could_not_set_right_is_asked_for(house: House) -> None:
    followed = dg.asset(name="followed", metadata=Table(key="id", policy=Policy(on_same_rows="fail")))(carried)
    house.assets = [orders, followed]
    house.run("followed")
    house.lake.sql("UPDATE {followed} SET v = 666 WHERE id = 2")
    with before("execute", lambda: house.lake.sql("UPDATE {followed} SET v = 99 WHERE id = 1")):
        house.run("followed", tags={"lakehouse/full_refresh": "true"}, raise_on_error=False)
    assert asked_until_done(house, "followed") == 1
    assert house.lake.rows("followed") == house.lake.rows("orders")


@pytest.mark.slow
def test_what_a_table_leaves_out_is_asked_for_once(house: House) -> None:
    read = {"orders": dg.AssetIn(metadata=Read(exclude_operations=("DELETE",)))}
    kept = dg.asset(name="kept", metadata=Table(key="id"), ins=read)(carried)
    house.assets = [orders, kept]
    house.run("kept")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")
    assert asked_until_done(house, "kept") == 1
    assert [row[0] for row in house.lake.rows("kept")] == [1, 2, 3]


@pytest.mark.slow
def test_a_source_that_has_another_name_now_is_asked_for_once(house: House) -> None:
    @dg.asset(name="log")
    def before(orders: Changes) -> Append:
        return Append(orders.log())

    @dg.asset(name="log")
    def after(moved: Changes) -> Append:
        return Append(moved.log())

    house.assets = [orders, before]
    house.run("log")
    shutil.move(house.root / "orders", house.root / "moved")
    house.assets = [dg.AssetSpec("moved"), after]
    assert asked_until_done(house, "log") == 1


def asked_until_done(house: House, name: str) -> int:
    """How often the sensor asks for a run, where each is carried out."""
    sensor = change_sensor("carry_on", house.assets, root=str(house.root))
    for times in range(4):
        if isinstance(tick(sensor, house.instance), dg.SkipReason):
            return times
        house.run(name)
    raise AssertionError("the sensor asks for ever")


def test_a_graph_of_ops_is_nobody_elses_business(house: House) -> None:
    assert change_sensor("carry_on", [number, copies, orders], root=str(house.root)).asset_selection is not None
    assert list(checks([number])) == []


def test_a_table_that_the_sensor_cannot_read_does_not_stop_the_others(house: House) -> None:
    @dg.asset(metadata=Table(key="id"))
    def others(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    sensor = change_sensor("carry_on", [orders, copies, others], root=str(house.root))
    house.run("copies")
    log = house.root / "copies" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"epoch\\":1', '\\"epoch\\":\\"x\\"'))
    asked = tick(sensor, house.instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("others")]


@pytest.mark.slow
def test_what_cannot_run_is_not_asked_for_behind_what_can(house: House) -> None:
    """A run of it would fail, at each change of what it reads besides."""

    @dg.asset(metadata=Table(key="id"))
    def damaged(copies: Changes) -> Merge:
        touched = copies.touched("id")
        return Merge(touched.rows, touched)

    @dg.asset(metadata=Table(key="id"))
    def joined(copies: Changes, missing: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def behind(damaged: Changes, copies: Changes) -> Merge: ...

    defined = [orders, copies, damaged, joined, behind]
    House(house.lake, [orders, copies, damaged], house.instance).run("copies", "damaged")
    log = house.root / "damaged" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"epoch\\":1', '\\"epoch\\":\\"x\\"'))
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    asked = tick(change_sensor("carry_on", defined, root=str(house.root)), house.instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("behind"), dg.AssetKey("copies")]


def test_a_directory_that_may_not_be_entered_does_not_stop_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dg.asset(metadata=Table(key="id"))
    def others(orders: Changes) -> Merge: ...

    entered = Path.is_dir

    def is_dir(path: Path) -> bool:
        if path.parent.name == "copies":
            raise PermissionError(13, "Permission denied", str(path))
        return entered(path)

    # Root may enter every directory, and tests may run as root.
    monkeypatch.setattr(Path, "is_dir", is_dir)
    sensor = change_sensor("carry_on", [orders, copies, others], root=str(house.root))
    asked = tick(sensor, house.instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("others")]
