"""Concurrent writers of one table, with our commit and without it: their effect is that of some serial order.

The order is the log's. The judge (tests/support/serial_histories.py) is given what each writer was promised, and does
not use the library.
"""

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.history import History
from tests.support.lake import Lake
from tests.support.server_house import House, answer, house, programs
from tests.support.writers import CAST, COLUMNS, STEPS, TABLES, Answer, Source, Writers

pytestmark = pytest.mark.race

__all__ = ["house", "programs"]  # fixtures
HISTORIES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "1"))


def begun(lake: Lake, table: str, seed: int) -> tuple[Writers, Source, list[Answer]]:
    source, writers = Source(seed), Writers(lake, TABLES[table])
    return writers, source, list(writers.begin(source))


def assert_serial(history: History, source: Source, said: list[Answer]) -> None:
    assert history.violations(said, source) == []
    held = Counter(history.rows)
    assert all(source.at(STEPS, g) <= held for g in "ab")
    assert sum(row[1] == "y" for row in held) == STEPS + 1


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("table", TABLES)
def test_writers_at_the_same_time_leave_a_serial_history(lake: Lake, table: str, seed: int) -> None:
    writers, source, said = begun(lake, table, seed)
    cast = random.Random(seed).sample(CAST, len(CAST))
    with ThreadPoolExecutor(len(cast)) as threads:
        for done in [threads.submit(lambda name, g: list(getattr(writers, name)(g)), *one) for one in cast]:
            said += done.result()
    assert sum(one.lost for one in said) > 0, "else nobody met anybody"
    assert_serial(History.of(lake, "t"), source, said)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("table", TABLES)
def test_writers_in_processes_of_their_own_leave_a_serial_history(house: House, table: str, seed: int) -> None:
    """They share the server of their root, and begin at the same time."""
    name = f"{table.replace(' ', '_')}_{seed}"
    said = [Answer(**one) for one in house.run("begin", name, table, str(seed))["said"]]
    started = [house.start("write", name, table, *one) for one in random.Random(seed).sample(CAST, len(CAST))]
    house.let_go(name, len(started))
    for told in map(answer, started):
        assert told["jvm"] == house.jvm
        said += [Answer(**one) for one in told["said"]]
    assert sum(one.lost for one in said) > 0, "else nobody met anybody"
    assert_serial(History.parse(house.run("history", name)["said"]), Source(seed), said)


def test_a_writer_that_overwrites_what_it_did_not_see_is_found(lake: Lake) -> None:
    """Read, change, overwrite: the rival's row was in the table, was acknowledged, and is gone."""
    writers, source, said = begun(lake, "no partitions", 0)
    seen = lake.values([*lake.rows("t"), (300, "z", 100)], COLUMNS)
    said += writers.inserting("y")
    writer = seen.write.format("delta").mode("overwrite").option("userMetadata", "overwriter")
    writer.save(str(lake.root / "t"))
    said.append(Answer("overwriter", kept=True, writer="inserting", g="z", number=100))
    (violation,) = History.of(lake, "t").violations(said, source)
    assert "promised but absent" in violation and "(201, 'y', 1)" in violation


def test_a_writer_that_repeats_a_commit_whose_answer_it_lost_is_found(lake: Lake) -> None:
    _, source, said = begun(lake, "no partitions", 0)
    rows = lake.values([(300, "z", 100)], COLUMNS).write.format("delta").mode("append").option("userMetadata", "twice")
    for _ in range(2):
        rows.save(str(lake.root / "t"))
    said.append(Answer("twice", kept=True, writer="inserting", g="z", number=100))
    assert "twice was acknowledged once and committed as [3, 4]" in History.of(lake, "t").violations(said, source)
