"""What the sensor asks for, by the logs alone."""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from lakehouse import Append, Changes, Merge, Read, Table, change_sensor, checks
from tests.dagster.lakehouse import House
from tests.dagster.tables import ASSETS, carried, copies, number, orders
from tests.interleave import just_before


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


def test_a_table_that_is_written_elsewhere_is_not_asked_for_without_end(house: House, tmp_path: Path) -> None:
    sensor = change_sensor("carry_on", [orders, copies], root=str(tmp_path / "elsewhere"))
    shutil.copytree(house.root / "orders", tmp_path / "elsewhere" / "orders")
    keys = set[str | None]()
    for _ in range(3):
        request = sensor(dg.build_sensor_context(instance=house.instance))
        assert isinstance(request, dg.RunRequest)
        keys.add(request.run_key)  # Dagster starts no second run for a key that it has seen
        house.run("copies")
    assert len(keys) == 1


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


def test_what_a_full_refresh_could_not_set_right_is_asked_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = dg.asset(name="followed", metadata=Table(key="id", on_same_rows="fail"))(carried)
    house.assets = [orders, followed]
    house.run("followed")
    house.lake.sql("UPDATE {followed} SET v = 666 WHERE id = 2")
    just_before(monkeypatch, "execute", lambda: house.lake.sql("UPDATE {followed} SET v = 99 WHERE id = 1"))
    house.run("followed", tags={"lakehouse/full_refresh": "true"}, raise_on_error=False)
    assert asked_until_done(house, "followed") == 1
    assert house.lake.rows("followed") == house.lake.rows("orders")


def test_what_a_table_leaves_out_is_asked_for_once(house: House) -> None:
    read = {"orders": dg.AssetIn(metadata=Read(exclude=("DELETE",)))}
    kept = dg.asset(name="kept", metadata=Table(key="id"), ins=read)(carried)
    house.assets = [orders, kept]
    house.run("kept")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")
    assert asked_until_done(house, "kept") == 1
    assert [row[0] for row in house.lake.rows("kept")] == [1, 2, 3]


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
        if isinstance(sensor(dg.build_sensor_context(instance=house.instance)), dg.SkipReason):
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
    asked = sensor(dg.build_sensor_context(instance=house.instance))
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("others")]


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
    asked = change_sensor("carry_on", defined, root=str(house.root))(dg.build_sensor_context(instance=house.instance))
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

    monkeypatch.setattr(Path, "is_dir", is_dir)
    sensor = change_sensor("carry_on", [orders, copies, others], root=str(house.root))
    asked = sensor(dg.build_sensor_context(instance=house.instance))
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [dg.AssetKey("others")]
