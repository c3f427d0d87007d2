"""A row of a log belongs to the partition whose run selects the row, and to no other."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import dagster as dg
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from lakehouse.dagster.slices import KeysOfRows, slice_of
from lakehouse.delta.table import Table
from lakehouse.errors import WriteError
from tests.support.for_each import for_each
from tests.support.partitioned import SHOPS, Definition, of_one_dimension, of_several, texts_of, types_of, values_of
from tests.support.predicates import Test, selects

COLUMNS = {"": "At"}


@pytest.fixture(scope="module")
def shops() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(SHOPS, ["01", "2026-01-02", "b c", "7"])
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            yield instance


def selections(
    definition: Definition, columns: Mapping[str, str], types: Mapping[str, str]
) -> tuple[dict[str, Test], set[str]]:
    """What the run of each partition selects, and the partitions whose runs are refused."""
    tests, refused = dict[str, Test](), set[str]()
    table = Table(partition_by=tuple(columns.values()))
    for key in definition.get_partition_keys():
        try:
            tests[key] = selects(slice_of("a", table, definition, [key]).predicate(types))
        except WriteError:
            refused.add(key)
    return tests, refused


def hold(definition: Definition, columns: Mapping[str, str], types: Mapping[str, str], rows: list[Any]) -> None:
    tests, refused = selections(definition, columns, types)
    note(f"{definition} {types}, refused: {sorted(refused)}")
    folded = {name.lower(): kind for name, kind in types.items()}
    try:
        keys = KeysOfRows.of(definition, columns, folded)
    except WriteError:
        assert not tests
        return
    for row in rows:
        selected = {key for key, test in tests.items() if test(row)}
        texts = [[(name, text) for text in texts_of(value).values()] for name, value in row.items()]
        for logged in product(*texts):
            found = set(keys.of_row({name.upper(): text for name, text in logged}))
            assert found - refused == selected, (row, logged)


@given(st.data())
def test_the_partition_of_a_row_is_the_one_whose_run_selects_the_row(
    shops: dg.DagsterInstance, data: st.DataObject
) -> None:
    definition = data.draw(of_one_dimension())
    kind = data.draw(st.sampled_from(types_of(definition)))
    rows = [{"At": value} for value in values_of(definition, kind)]
    hold(definition, COLUMNS, {"At": kind}, rows)


@given(st.data())
def test_the_partition_of_several_dimensions_is_the_one_whose_run_selects_the_row(
    shops: dg.DagsterInstance, data: st.DataObject
) -> None:
    definition = data.draw(of_several())
    kinds, values = dict[str, str](), list[list[Any]]()
    for dimension in definition.partitions_defs:
        kinds[dimension.name] = data.draw(st.sampled_from(types_of(dimension.partitions_def)))
        held = values_of(dimension.partitions_def, kinds[dimension.name])
        values.append(data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=4)))
    rows = [dict(zip(kinds, row, strict=True)) for row in product(*values)]
    hold(definition, {name: name for name in kinds}, kinds, rows)


@given(st.data())
def test_a_run_of_several_partitions_selects_what_each_of_them_selects_and_no_other_row(
    shops: dg.DagsterInstance, data: st.DataObject
) -> None:
    definition = data.draw(of_one_dimension())
    kind = data.draw(st.sampled_from(types_of(definition)))
    each, _ = selections(definition, COLUMNS, {"At": kind})
    keys = data.draw(st.sets(st.sampled_from([*each]), min_size=1) if each else st.just(set[str]()))
    together(definition, kind, keys)


def test_hours_that_clocks_show_alike_are_not_joined() -> None:
    together(SET_BACK, "timestamp", {"2026-11-01-00:00", "2026-11-01-01:00-0500"})


def together(definition: Definition, kind: str, keys: set[str]) -> None:
    each, _ = selections(definition, COLUMNS, {"At": kind})
    all_of_them = selects(slice_of("a", Table(partition_by="At"), definition, keys).predicate({"At": kind}))
    for value in values_of(definition, kind):
        row = {"At": value}
        assert all_of_them(row) == any(each[key](row) for key in keys), row


DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-28")
HOURS = dg.HourlyPartitionsDefinition("2026-03-09-00:00", end_date="2026-03-11-00:00", timezone="America/New_York")
SET_BACK = dg.HourlyPartitionsDefinition("2026-11-01-00:00", end_date="2026-11-02-00:00", timezone="America/New_York")
LATE_DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-09", hour_offset=5)
MONTHS = dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-04-01")


def names(*keys: str) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([*keys])


@for_each(
    "definition, kind, text, keys",
    [
        (DAYS, "date", "2026-01-02", ["2026-01-02"]),
        (DAYS, "date", "2025-12-31", []),
        (DAYS, "date", None, []),
        (DAYS, "string", "2026-01-02 ", []),
        (MONTHS, "date", "2026-02-28", ["2026-02-01"]),
        (LATE_DAYS, "date", "2026-01-03", ["2026-01-03"]),
        (LATE_DAYS, "string", "2026-01-03", ["2026-01-03"]),
        (
            dg.DailyPartitionsDefinition("2026-01-01", fmt="%Y-%d-%m", end_date="2026-31-01"),
            "string",
            "2026-02-01",
            ["2026-02-01"],
        ),
        (dg.DailyPartitionsDefinition("20260101", fmt="%Y%m%d"), "int", "20260102", ["20260102"]),
        (HOURS, "timestamp", "2026-03-10 05:00:00.000000", ["2026-03-10-01:00"]),
        (HOURS, "timestamp", "2026-03-10T05:59:59.999999Z", ["2026-03-10-01:00"]),
        (HOURS, "timestamp_ntz", "2026-03-10 05:00:00", ["2026-03-10-05:00"]),
        (SET_BACK, "timestamp", "2026-11-01T05:30:00Z", ["2026-11-01-01:00"]),
        (SET_BACK, "timestamp", "2026-11-01T06:30:00Z", ["2026-11-01-01:00-0500"]),
        (names("a", "b"), "string", "b", ["b"]),
        (names("01", "02"), "int", "2", ["02"]),
        (names("01", "1"), "int", "1", ["01", "1"]),
        (names("01", "1"), "string", "1", ["1"]),
        (names("true", "no"), "boolean", "true", ["true"]),
    ],
)
def test_a_text_of_a_log_is_read_as_its_columns_type_says(
    definition: Definition, kind: str, text: str | None, keys: list[str]
) -> None:
    assert list(KeysOfRows.of(definition, COLUMNS, {"at": kind}).of_row({"aT": text})) == keys


def test_rows_whose_run_is_refused_belong_to_it_all_the_same(shops: dg.DagsterInstance) -> None:
    """Then the run is requested, and its error gives the reason."""
    keys = KeysOfRows.of(SET_BACK, COLUMNS, {"at": "timestamp_ntz"})
    (key,) = keys.of_row({"At": "2026-11-01 01:30:00"})
    with pytest.raises(WriteError, match="went through twice"):
        slice_of("a", Table(partition_by="At"), SET_BACK, [key]).predicate({"At": "timestamp_ntz"})


def test_a_column_of_which_no_key_is_a_value_is_refused_and_named() -> None:
    with pytest.raises(WriteError, match="Partition key 'a' is not a value of column At, which is a timestamp"):
        KeysOfRows.of(names("a", "b"), COLUMNS, {"at": "timestamp"})


def test_thousands_of_values_among_thousands_of_partitions_are_looked_up_and_not_searched() -> None:
    """Dagster is asked at most once for the window of a partition."""
    asked = list[str]()

    class Counted(dg.HourlyPartitionsDefinition):
        def time_window_for_partition_key(self, partition_key: str) -> Any:
            asked.append(partition_key)
            return super().time_window_for_partition_key(partition_key)

    hours = Counted("2026-01-01-00:00", end_date="2026-07-01-00:00")
    keys = hours.get_partition_keys()
    asked.clear()
    rows = KeysOfRows.of(hours, COLUMNS, {"at": "timestamp"})
    found = rows.of_rows({"At": f"{key[:10]} {key[11:]}:59"} for key in keys)
    assert (found, len(asked)) == (frozenset(keys), len(keys))
    asked.clear()
    few = KeysOfRows.of(hours, COLUMNS, {"at": "timestamp"})
    assert few.of_rows([{"At": "2026-03-10 05:00:00"}]) == {"2026-03-10-05:00"}
    assert len(asked) < 20
