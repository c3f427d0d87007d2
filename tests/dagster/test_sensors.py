"""What the sensor asks for, by the logs alone."""

import shutil

import dagster as dg

from lakehouse import Changes, Merge, Table, change_sensor
from tests.dagster.lakehouse import House
from tests.dagster.tables import ASSETS, copies, orders


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
