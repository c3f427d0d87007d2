"""What the sensor requests, by the logs alone."""

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.utils import make_new_run_id
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Overwrite, Policy, Read, Table, change_sensor, checks
from tests.support.dagster_house import House
from tests.support.interleave import before
from tests.support.marked_tables import append, run
from tests.support.tables import carried, copies, number, orders, totals
from tests.support.ticks import tick


@pytest.fixture
def root(tmp_path: Path) -> Path:
    append(tmp_path, "orders", 1)
    return tmp_path


def asked(root: Path, instance: dg.DagsterInstance, *assets: Any) -> list[str] | None:
    """The tables that a tick requests; None if it requests nothing."""
    request = tick(change_sensor("carry_on", [orders, *assets], root=str(root)), instance)
    keys = request.asset_selection or [] if isinstance(request, dg.RunRequest) else None
    return None if keys is None else [key.to_user_string() for key in keys]


def run_of(instance: dg.DagsterInstance, sensor: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run that a sensor has requested; for a queued run, Dagster needs to know the job."""
    job = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("any"), "any"), "any")
    run = dg.DagsterRun("any", make_new_run_id(), status=status, remote_job_origin=job)
    return instance.add_run(run.with_tags({"lakehouse/change_sensor": sensor}))


def test_a_run_names_its_sensor_and_what_is_unread_with_all_that_follows_and_checks_nothing(
    root: Path, instance: dg.DagsterInstance
) -> None:
    request = tick(change_sensor("carry_on", [orders, copies, totals], root=str(root)), instance)
    assert isinstance(request, dg.RunRequest)
    assert request.asset_selection == [dg.AssetKey("copies"), dg.AssetKey(["gold", "totals"])]
    assert request.tags == {"lakehouse/change_sensor": "carry_on", "lakehouse/unread": "copies"}
    assert request.asset_check_keys == []  # None would mean every check: a full recompute after each step


def test_the_sensor_waits_for_its_own_run_and_for_no_other(root: Path) -> None:
    for status in NOT_FINISHED_STATUSES:
        with dg.DagsterInstance.ephemeral() as instance:
            run_of(instance, "another", status)
            assert asked(root, instance, copies) == ["copies"]
            run_of(instance, "carry_on", status)
            assert asked(root, instance, copies) is None, status


@pytest.mark.served
@pytest.mark.slow
def test_the_sensor_asks_again_for_what_a_restore_undid(house: House) -> None:
    house.assets = [orders, copies]
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    assert asked_until_done(house, "copies") == 1
    house.lake.sql("RESTORE TABLE {copies} TO VERSION AS OF 0")
    assert asked_until_done(house, "copies") == 1


@pytest.mark.served
@pytest.mark.slow
def test_a_source_that_was_put_back_from_a_backup_is_asked_for(house: House, tmp_path: Path) -> None:
    """Once the source has grown past the position, the logs would no longer show it."""
    house.assets = [orders, copies]
    shutil.copytree(house.root / "orders", tmp_path / "backup")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    house.run("copies")
    shutil.rmtree(house.root / "orders")
    shutil.copytree(tmp_path / "backup", house.root / "orders")
    assert asked_until_done(house, "copies") == 1
    assert house.lake.rows("copies") == house.lake.rows("orders")


@pytest.mark.served
@pytest.mark.slow
def test_an_input_that_was_only_looked_up_so_far_is_asked_for(house: House) -> None:
    """The position of a snapshot input gives its version, and does not imply that all changes up to it were applied."""

    def looked_up(orders: DataFrame) -> Overwrite:
        return Overwrite(orders)

    house.assets = [orders, dg.asset(name="followed", metadata=Table(key="id"))(looked_up)]
    house.run("followed")
    house.assets = [orders, dg.asset(name="followed", metadata=Table(key="id"))(carried)]
    assert asked_until_done(house, "followed") == 1


@pytest.mark.served
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


@pytest.mark.served
@pytest.mark.slow
def test_what_a_table_leaves_out_is_asked_for_once(house: House) -> None:
    read = {"orders": dg.AssetIn(metadata=Read(exclude_operations=("DELETE",)))}
    kept = dg.asset(name="kept", metadata=Table(key="id"), ins=read)(carried)
    house.assets = [orders, kept]
    house.run("kept")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")
    assert asked_until_done(house, "kept") == 1
    assert [row[0] for row in house.lake.rows("kept")] == [1, 2, 3]


@pytest.mark.served
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
    """How often the sensor requests a run, if each run is carried out."""
    sensor = change_sensor("carry_on", house.assets, root=str(house.root))
    for times in range(4):
        if isinstance(tick(sensor, house.instance), dg.SkipReason):
            return times
        house.run(name)
    raise AssertionError("the sensor asks for ever")


def test_a_graph_of_ops_is_nobody_elses_business(root: Path) -> None:
    assert change_sensor("carry_on", [number, copies, orders], root=str(root)).asset_selection is not None
    assert list(checks([number])) == []


def damage(root: Path, name: str) -> None:
    """Damages the mark of a table's first commit, so that it cannot be read."""
    log = root / name / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"epoch\\":1', '\\"epoch\\":\\"x\\"'))


def test_a_table_that_the_sensor_cannot_read_does_not_stop_the_others_nor_is_what_cannot_run_asked_for_behind_them(
    root: Path, instance: dg.DagsterInstance
) -> None:
    """A run of it would fail, at each change of its other sources."""

    @dg.asset(metadata=Table(key="id"))
    def damaged(copies: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def joined(copies: Changes, missing: Changes) -> Merge: ...

    @dg.asset(metadata=Table(key="id"))
    def behind(damaged: Changes, copies: Changes) -> Merge: ...

    run(root, "copies", "orders")
    run(root, "damaged", "copies")
    damage(root, "damaged")
    append(root, "orders", 2)
    assert asked(root, instance, copies, damaged, joined, behind) == ["behind", "copies"]


def test_a_directory_that_may_not_be_entered_does_not_stop_the_others(
    root: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dg.asset(metadata=Table(key="id"))
    def others(orders: Changes) -> Merge: ...

    entered = Path.is_dir

    def is_dir(path: Path) -> bool:
        if path.parent.name == "copies":
            raise PermissionError(13, "Permission denied", str(path))
        return entered(path)

    # Root may enter every directory, and the tests may run as root.
    monkeypatch.setattr(Path, "is_dir", is_dir)
    assert asked(root, instance, copies, others) == ["others"]
