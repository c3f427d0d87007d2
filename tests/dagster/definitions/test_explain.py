"""`explain` shows what the next run would read and write, by the logs alone. Real tables and marks, without Spark."""

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from lakehouse import (
    Aggregate,
    Append,
    Changes,
    DeltaIOManager,
    History,
    Merge,
    Overwrite,
    Policy,
    Read,
    Snapshot,
    Table,
    explain,
)
from lakehouse.cursor.digests import Code
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.dagster.code.digest import code_of
from lakehouse.errors import ReadError
from lakehouse.read.forecast import Forecast, Reading, RunEffect
from lakehouse.spark.table_version import TableRef
from tests.support.by_hand import rewritten
from tests.support.marked_tables import append, run
from tests.support.tables import DAYS, orders


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def named(orders: Changes, names: DataFrame) -> Merge: ...


@dg.asset
def tokens(orders: Changes) -> Append: ...


def forecast(
    root: Path,
    asset: dg.AssetsDefinition,
    *others: Any,
    policy: Policy = Policy(),
    manager: type[DeltaIOManager] = DeltaIOManager,
    **options: Any,
) -> Forecast:
    writer = manager(spark=object(), root=str(root), policy=policy)  # no session: any use of Spark would raise
    return explain(dg.Definitions([orders, asset, *others], resources={"io_manager": writer}), asset, **options)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    append(tmp_path, "orders", 1, 2)
    return tmp_path


@pytest.fixture
def current(root: Path) -> Path:
    run(root, "copies", "orders", code=code_of(copies.op.compute_fn.decorated_fn), key="id")
    return root


def test_a_table_that_is_not_there_would_be_created_by_a_first_read(root: Path) -> None:
    of = forecast(root, copies)
    assert (of.verdict, of.version) == (RunEffect.WRITES, None)
    assert str(of) == (
        "The next run of copies writes (there is no table yet). Its first commit creates the table.\n"
        "  reads  orders: all rows, as a first read at version 0 (2 rows). Because the table has no position of it.\n"
        "  writes Merge by key (id): the table is created with the rows in one commit."
    )


def test_unread_changes_are_told_with_their_range_and_rows(current: Path) -> None:
    append(current, "orders", 3)
    DeltaTable(str(current / "orders")).optimize.compact()
    append(current, "orders", 4, 5)
    of = forecast(current, copies)
    (source,) = of.inputs
    assert (source.reading, source.after, source.upto, source.commits) == (Reading.CHANGES, 0, 3, 2)
    assert "reads  orders: the changes of versions (0, 3] (2 commits)." in str(of)
    assert "the rows of the table with the touched keys are compared" in str(of)


def test_commits_whose_changes_can_be_weighed_in_part_alone_are_named(current: Path) -> None:
    rows, told = [(1, "2013-01-02"), (2, "2013-01-04")], [("update_postimage", (2, "2013-01-04"))]
    rewritten(current / "orders", rows, told)
    (source,) = forecast(current, copies).inputs
    assert source.half_weighed == ()
    version = rewritten(current / "orders", rows, told, counted=False)
    (source,) = forecast(current, copies).inputs
    assert source.half_weighed == (version,)
    assert "; of versions 2 the log does not say how many rows their files hold, so only the images of" in str(source)


def test_a_table_that_has_read_everything_has_nothing_to_do(current: Path) -> None:
    assert forecast(current, copies).verdict is RunEffect.NOTHING
    DeltaTable(str(current / "orders")).optimize.compact()
    of = forecast(current, copies)
    assert of.verdict is RunEffect.NOTHING and of.why == "It has read every change of its sources."


def test_a_changed_definition_compares_everything_and_names_the_part(current: Path) -> None:
    again = dg.asset(name="copies", metadata=Table(key="id"), code_version="2")(copies.op.compute_fn.decorated_fn)
    of = forecast(current, again)
    assert of.inputs[0].reading is Reading.EVERYTHING
    assert of.inputs[0].why == "the asset's code version is now 2 and was None"
    assert "every row of the table is compared" in str(of.write)


def edited(mark: Code | None) -> Code:
    """The code of a mark before an edit of a helper."""
    assert mark is not None
    return Code(mark.kind, "another", {**mark.parts, "clean": "1a2b3c4d"})


def test_new_code_compares_everything_and_names_what_changed(root: Path) -> None:
    before = edited(code_of(copies.op.compute_fn.decorated_fn))
    run(root, "copies", "orders", code=before, key="id")
    of = forecast(root, copies)
    assert of.verdict is RunEffect.WRITES
    assert str(of.inputs[0]) == (
        "orders: all rows at version 0 (2 rows). Because the code that copies names changed: clean."
    )
    kept = forecast(root, copies, policy=Policy(on_new_code="warn"))
    assert kept.verdict is RunEffect.RECORDS and kept.inputs[0].reading is Reading.NOTHING
    assert kept.why == (
        "copies goes on although the code that copies names changed: clean. Its rows stay as they were made before: "
        "its policy is on_new_code='warn'."
    )
    assert forecast(root, copies, policy=Policy(on_new_code="ignore")).verdict is RunEffect.NOTHING
    own = dg.asset(name="copies", metadata=Table(key="id", policy=Policy(on_new_code="compare")))
    recoded = forecast(root, own(copies.op.compute_fn.decorated_fn), policy=Policy(on_new_code="ignore"))
    assert recoded.verdict is RunEffect.WRITES, "what the table says comes first"


@pytest.mark.parametrize("kind", [None, "1/3.2"], ids=["a mark without code", "another version of Python"])
def test_what_says_nothing_of_the_code_is_believed_once(root: Path, kind: str | None) -> None:
    code = None if kind is None else Code(kind, "another", {})
    run(root, "copies", "orders", code=code, key="id")
    of = forecast(root, copies)
    assert (of.verdict, of.inputs[0].reading) == (RunEffect.RECORDS, Reading.NOTHING)


READ_ARCHIVE = {"orders": dg.AssetIn(metadata=Read(archive="kept"))}


@dg.asset(name="tokens", ins=READ_ARCHIVE)
def archived_tokens(orders: Changes) -> Append: ...


def keep(root: Path, *, begins: int | None = 0, missing: str = "") -> None:
    """Writes what a run of an archive leaves: the feed of `orders` after a version, up to the newest."""
    read = DeltaTable(str(root / "orders"))
    position, now = Position(str(read.metadata().id), read.version()), dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    mark = Mark("kept", (), FIRST_GENERATION, 1, "run", "attempt", -1, reads={"orders": position}, log_after=begins)
    rows = pa.table(
        {
            "id": pa.array([3], pa.int32()),
            "day": ["2013-01-04"],
            "change_type": ["insert"],
            "commit_version": [1],
            "commit_timestamp": [now],
        }
    )
    kept = rows.drop_columns(missing) if missing else rows
    properties = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
    write_deltalake(str(root / "kept"), kept, commit_properties=properties)


@pytest.fixture
def cleaned(root: Path) -> Path:
    """A source whose log has lost the version after the position of `tokens`."""
    run(root, "tokens", "orders")
    append(root, "orders", 3)
    append(root, "orders", 4)
    DeltaTable(str(root / "orders")).create_checkpoint()
    for version in (0, 1):
        (root / "orders" / "_delta_log" / f"{version:020}.json").unlink()
    return root


def test_what_the_feed_lacks_is_read_from_an_archive_that_holds_it(cleaned: Path) -> None:
    keep(cleaned)
    append(cleaned, "orders", 5)
    of = forecast(cleaned, archived_tokens)
    (source,) = of.inputs
    assert (of.verdict, source.reading) == (RunEffect.WRITES, Reading.ARCHIVE)
    assert (source.after, source.upto, source.behind) == (0, 2, 1)
    assert str(source) == (
        "orders: the archived changes of versions (0, 2]; 1 version left to later runs. Because the log after version "
        "0 was cleaned up, and the archive 'kept' holds the changes."
    )


@pytest.mark.parametrize(
    "what", [{"begins": 1}, {"begins": None}, {"missing": "day"}, {"edited": True}, {"absent": True}]
)
def test_an_archive_that_does_not_hold_every_change_is_no_help(cleaned: Path, what: dict[str, Any]) -> None:
    if not what.pop("absent", False):
        edited = what.pop("edited", False)
        keep(cleaned, **what)
        if edited:
            DeltaTable(str(cleaned / "kept")).delete("id = 3")
    of = forecast(cleaned, archived_tokens)
    assert of.verdict is RunEffect.REFUSED
    assert "cleaned up, and the archive 'kept' does not hold the changes either. An Append" in str(of)


def test_what_an_archive_holds_that_only_spark_can_read_is_left_open(cleaned: Path) -> None:
    keep(cleaned)

    class InCatalog(DeltaIOManager):
        def archive(self, asset: str) -> TableRef:
            return TableRef.in_catalog(asset, f"lake.{asset}")

    of = forecast(cleaned, archived_tokens, manager=InCatalog)
    assert "cleaned up; unless the archive 'kept' holds the changes, which only Spark can tell. An Append" in str(of)


def test_a_look_up_that_moved_alone_gives_the_run_nothing_to_do(root: Path) -> None:
    append(root, "names", 1)
    names = dg.AssetSpec("names")
    of = forecast(root, named, names)
    assert {each.source: each.reading for each in of.inputs} == {
        "orders": Reading.FIRST,
        "names": Reading.SNAPSHOT_INPUT,
    }
    run(root, "named", "orders", code=code_of(named.op.compute_fn.decorated_fn), lookups=("names",), key="id")
    append(root, "names", 2)
    assert forecast(root, named, names).verdict is RunEffect.NOTHING


def test_a_missing_source_and_a_source_without_a_feed_are_refusals(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "orders")
    of = forecast(root, copies)
    assert of.verdict is RunEffect.REFUSED and "there is no Delta table at" in of.why
    append(root, "orders", 1)
    DeltaTable(str(root / "orders")).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    assert "keeps no change data feed" in str(forecast(root, copies))


def test_the_config_of_a_step_is_resolved_as_dagster_resolves_it(root: Path) -> None:
    class Setting(dg.Config):
        day: str = "monday"

    @dg.asset(metadata=Table(key="id"))
    def configured(orders: Changes, config: Setting) -> Merge: ...

    assert forecast(root, configured).verdict is RunEffect.WRITES
    with pytest.raises(dg.DagsterInvalidConfigError):
        forecast(root, configured, run_config={"ops": {"configured": {"config": {"day": 1}}}})


def test_a_partition_is_named_and_only_where_there_are_partitions(root: Path) -> None:
    @dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
    def daily(orders: Changes) -> Merge: ...

    with pytest.raises(ReadError, match="daily has partitions"):
        forecast(root, daily)
    with pytest.raises(ReadError, match="copies has no partitions"):
        forecast(root, copies, partition_key="2013-01-01")
    for unknown in ("2031-01-01", "nonsense"):
        with pytest.raises(ReadError, match=f"daily has no partition {unknown}"):
            forecast(root, daily, partition_key=unknown)
    of = forecast(root, daily, partition_key="2013-01-02")
    assert of.partition == "2013-01-02" and of.inputs[0].reading is Reading.FIRST


def test_what_is_no_table_of_ours_is_not_explained(root: Path) -> None:
    with pytest.raises(ReadError, match="There is no asset nowhere"):
        explain(dg.Definitions([orders, copies]), "nowhere")
    with pytest.raises(ReadError, match="No DeltaIOManager writes copies"):
        explain(dg.Definitions([orders, copies]), "copies")


def test_each_write_has_a_sentence_of_its_own_for_changes_and_for_everything(root: Path) -> None:
    changed = {
        Append: "rows are added",
        Overwrite: "every row of the table is compared with the result",
        Merge: "the rows of the table with the touched keys are compared",
        Aggregate: "what changed is added to the sums",
        History: "the current rows of the changed keys end",
    }
    whole = {
        Append: "rows that the table lacks are added",
        Overwrite: "every row of the table is compared with the result",
        Merge: "every row of the table is compared",
        Aggregate: "all sums are computed",
        History: "the current rows are compared with the extract",
        Snapshot: "the rows in the scope of the extract are compared",
    }
    run(root, "table", "orders", key="id")
    append(root, "orders", 3)
    for input_kind, sentences in ((Changes, changed), (DataFrame, whole)):
        for kind, sentence in sentences.items():

            def made(orders: Any) -> Any: ...

            made.__annotations__ = {"orders": input_kind, "return": kind}
            asset = dg.asset(name="table", metadata=Table(key="id"))(made)
            assert sentence in str(forecast(root, asset).write), (kind, input_kind)


def test_nothing_is_written_and_no_file_is_made(current: Path) -> None:
    append(current, "orders", 3)
    before = {path: path.stat().st_mtime_ns for path in current.rglob("*")}
    forecast(current, copies)
    assert {path: path.stat().st_mtime_ns for path in current.rglob("*")} == before
