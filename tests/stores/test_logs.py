"""A log on S3 reads like the same files on a disk, and an unreadable store is reported in one sentence."""

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from benchmarks.harness.gateway import BUCKET, Store
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Log
from lakehouse.errors import UnreadableLogError
from tests.stores.lying import SLOW_SECONDS, Fault, Liar, Lie

pytestmark = pytest.mark.stores
COMMITS = 40
"""More than one page of commits."""


@pytest.fixture(scope="module")
def orders(store: Store) -> str:
    """A partitioned table of several commits with `userMetadata`."""
    for n in range(COMMITS):
        write_deltalake(
            store.at("orders").address,
            pa.table({"id": [n], "day": [f"2013-01-0{n % 3 + 1}"]}),
            partition_by="day",
            mode="append",
            storage_options=store.options,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": f"commit {n}"}),
            configuration={"delta.enableChangeDataFeed": "true"} if n == 0 else None,
        )
    return "orders"


def test_a_log_on_s3_says_what_its_files_say_on_a_disk(store: Store, orders: str) -> None:
    remote, local = FileLog(store.at(orders), orders), FileLog(store.copy(orders), orders)
    assert remote.head() == local.head()
    assert remote.size() == local.size()
    assert remote.file_schema(3) == local.file_schema(3)
    assert remote.epoch("orders:0", COMMITS - 1) == local.epoch("orders:0", COMMITS - 1)
    by_day = [sorted(log.partition_values(), key=lambda values: str(values["day"])) for log in (remote, local)]
    assert by_day[0] == by_day[1]
    assert remote.partition_values_in(1) == local.partition_values_in(1) == [{"day": "2013-01-02"}]
    for newest, oldest in [(COMMITS - 1, 0), (COMMITS - 1, COMMITS - 1), (20, 3), (1, 0), (0, 0), (3, 9)]:
        assert list(remote.commits(newest, oldest)) == list(local.commits(newest, oldest))
    assert len(list(remote.commits(COMMITS - 1))) == COMMITS


@pytest.mark.parametrize("missing", [range(5), range(12, 13), range(30, COMMITS)], ids=["oldest", "one", "newest"])
def test_commits_that_are_gone_are_gone_on_s3_as_on_a_disk(store: Store, orders: str, missing: range) -> None:
    files = [store.directory / BUCKET / orders / "_delta_log" / f"{version:020}.json" for version in missing]
    kept = {file: file.read_bytes() for file in files}
    try:
        for file in files:
            file.unlink()
        logs: list[Log] = [FileLog(store.at(orders), orders), FileLog(store.copy(orders), orders)]
        remote, local = ([commit.version for commit in log.commits(COMMITS - 1)] for log in logs)
        assert remote == local
    finally:
        for file, content in kept.items():
            file.write_bytes(content)


def test_where_there_is_no_table_there_is_no_head(store: Store) -> None:
    assert FileLog(store.at("nothing"), "nothing").head() is None
    assert list(FileLog(store.at("nothing"), "nothing").commits(3)) == []


@pytest.mark.parametrize(
    ("address", "options", "problem"),
    [
        ("s3a://no-such-bucket/orders", {}, "NoSuchBucket"),
        (f"s3a://{BUCKET}/orders", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "necessary privileges"),
        (f"s3a://{BUCKET}/orders", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Connect"),
    ],
)
def test_a_store_that_cannot_be_read_is_said_in_one_sentence_within_seconds(
    store: Store, orders: str, address: str, options: dict[str, str], problem: str
) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableLogError, match=problem) as raised:
        FileLog(Location(address, store.options | options), orders).head()
    assert time.monotonic() - began < 30
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)
    assert "lake-secret" not in str(raised.value)


def test_a_look_at_a_table_costs_few_requests(store: Store, orders: str) -> None:
    """One request for each commit; older commits are requested all at once."""
    before = store.count()
    log = FileLog(store.at(orders), orders)
    next(log.commits(COMMITS - 1))
    assert store.count() - before == 1


def read(log: FileLog) -> int:
    return len([*log.commits(0)])


def test_a_store_that_answers_late_keeps_no_other_thread_from_running(lying_store: Store, liar: Liar) -> None:
    write_deltalake(lying_store.at("late").address, pa.table({"id": [1]}), storage_options=lying_store.options)
    log = FileLog(lying_store.at("late"), "late")
    with liar.telling(Lie(Fault.SLOW_READS, lasts=True)), ThreadPoolExecutor(32) as readers:
        assert read(log) == 1  # the client of the store is made
        began = time.monotonic()
        assert [*readers.map(read, [log] * 32)] == [1] * 32
    assert time.monotonic() - began < 16 * SLOW_SECONDS


def test_a_commit_of_more_bytes_than_are_told_is_read_whole(store: Store) -> None:
    text = "x" * (3 << 20)
    write_deltalake(
        store.at("large").address,
        pa.table({"id": [1]}),
        storage_options=store.options,
        commit_properties=CommitProperties(custom_metadata={"userMetadata": text}),
    )
    assert [commit.user_metadata for commit in FileLog(store.at("large"), "large").commits(0)] == [text]
