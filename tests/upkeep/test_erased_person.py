"""The page on erasing a person, statement by statement on real tables; after each stage every file below the root is read."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.harness.earlier import set_back
from lakehouse import Append, Changes, History, Merge, Table
from resources.environments import PROJECT
from tests.support.lake import Lake

PAGE = (PROJECT / "docs" / "how-to" / "erase-a-person.md").read_text()
STEPS = dict(re.findall(r"^## (\d)\. .*?$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
TABLES = ("customers", "customer_names", "customer_history", "customer_archive")
PERSON, MARKERS = "c-17", ("c-17", "Zoe Quist", "zoe@example")
PEOPLE = [(f"c-{place}", f"Name {place}", f"{place}@example") for place in range(10, 30) if place != 17]
ROWS = [*PEOPLE, (PERSON, "Zoe Quist", "zoe@example")]
COLUMNS = "customer_id string, name string, mail string"


def customer_names(customers: Changes) -> Merge:
    touched = customers.touched("customer_id")
    return Merge(touched.rows, touched)


def customer_history(customers: Changes) -> History:
    return History(customers)


def customer_archive(customers: Changes) -> Append:
    return Append(customers.log())


def materialize(lake: Lake) -> None:
    """`lakehouse run customer_names customer_history customer_archive`, without Dagster."""
    keyed = Table(key="customer_id", properties={"delta.enableDeletionVectors": "true"})
    lake.materialize(customer_names, keyed)
    lake.materialize(customer_history, keyed)
    lake.materialize(customer_archive, Table(properties={"delta.enableChangeDataFeed": "true"}))


def statements(step: int) -> list[str]:
    """The statements of a step of the page, in which the tables have their names."""
    text = ";".join(re.findall(r"```sql\n(.*?)```", STEPS[str(step)], re.DOTALL))
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def give(lake: Lake, statement: str) -> None:
    table = next(name for name in re.findall(r"\w+", statement) if name in TABLES)
    lake.spark.sql(re.sub(rf"\b{table}\b", lake.ref(table).identifier, statement, count=1)).collect()


def checkpoint(lake: Lake) -> None:
    """The statements of step 4, for each table."""
    for table in TABLES:
        for statement in statements(4):
            give(lake, re.sub(r"\bcustomers\b", table, statement))


def has_person(file: Path) -> bool:
    """Whether anything in a file names the person: a row, a statistic, a line of the log."""
    raw = file.read_bytes()
    if any(marker.encode() in raw for marker in MARKERS):
        return True
    if file.suffix != ".parquet":
        return False
    values: Any = pq.ParquetFile(file).read().to_pylist()
    return any(marker in repr(values) for marker in MARKERS)


def files_with_person(lake: Lake) -> tuple[set[str], set[str]]:
    """The files below the root that name the person: those of rows, and those of logs."""
    files = {file.relative_to(lake.root) for file in lake.root.rglob("*") if file.is_file() and has_person(file)}
    logs = {file for file in files if "_delta_log" in file.parts}
    return {file.as_posix() for file in files - logs}, {file.as_posix() for file in logs}


def tables_of(files: set[str]) -> set[str]:
    return {file.partition("/")[0] for file in files}


def rows_with_person(lake: Lake) -> int:
    return sum(PERSON in row for table in TABLES for row in lake.rows(table))


def pass_days(lake: Lake, days: int) -> None:
    """Makes everything older; the lake also moves, because Spark remembers the logs that it has read by their paths."""
    for table in TABLES:
        set_back(lake.root / table, days)
    moved = lake.root.with_name(f"{lake.root.name}_{days}_days_later")
    lake.root.rename(moved)
    lake.root = moved


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_on_erasing_a_person_leaves_no_file_that_names_the_person(lake: Lake) -> None:
    lake.create("customers", ROWS, COLUMNS, **{"delta.enableDeletionVectors": "true"})
    materialize(lake)
    lake.sql("UPDATE {customers} SET mail = 'zoe@example.org' WHERE customer_id = 'c-17'")
    materialize(lake)
    assert rows_with_person(lake) >= 5, "the source, the copy, two rows of the history, the archive"

    for statement in statements(1):
        give(lake, statement)
    materialize(lake)
    assert rows_with_person(lake) > 0, "the history and the archive keep the past"
    for statement in [*statements(2), *statements(3)]:
        give(lake, statement)
    materialize(lake)
    assert rows_with_person(lake) == 0
    data, logs = files_with_person(lake)
    assert tables_of(data) == tables_of(logs) == set(TABLES), "old versions and logs still have them"

    checkpoint(lake)

    pass_days(lake, 8)
    for statement in statements(5):
        give(lake, statement)
    materialize(lake)
    data, logs = files_with_person(lake)
    assert data == set()
    assert tables_of(logs) == set(TABLES), "only the log does, as the page says"

    pass_days(lake, 24)
    materialize(lake)
    checkpoint(lake)
    assert files_with_person(lake) == (set(), set())

    lake.sql("UPDATE {customers} SET name = 'Other' WHERE customer_id = 'c-12'")
    materialize(lake)
    assert files_with_person(lake) == (set(), set()), "and nobody comes back"
    assert lake.rows("customer_names") == lake.rows("customers")
