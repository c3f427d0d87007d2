"""What the library assumes about Delta; a failure here means that Delta changed."""

import inspect
from operator import attrgetter
from pathlib import Path

import pytest
from delta import exceptions
from pyspark.errors import PySparkException
from pyspark.sql import Row

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import Log
from lakehouse.spark.table_version import SparkLog
from tests.support.lake import Lake

SRC = "id int, k string, v int"


def test_the_python_conflict_errors_share_no_base() -> None:
    classes = [c for _, c in inspect.getmembers(exceptions, inspect.isclass) if c.__name__.endswith("Exception")]
    conflicts = [c for c in classes if c.__name__ != "DeltaConcurrentModificationException"]
    assert len(conflicts) >= 7
    assert not any(issubclass(c, exceptions.DeltaConcurrentModificationException) for c in conflicts)
    assert all(issubclass(c, PySparkException) for c in conflicts)


def test_open_source_delta_refuses_write_serializable(lake: Lake) -> None:
    lake.create("t", [(1, "a", 1)], SRC)
    with pytest.raises(Exception, match="must be Serializable"):
        lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.isolationLevel' = 'WriteSerializable')")


@pytest.mark.slow
def test_a_transaction_survives_a_restore(lake: Lake) -> None:
    """That is why a RESTORE begins another generation: Delta would silently skip commits with epochs used before."""
    lake.create("t", [(1, "a", 1)], SRC)
    writer = lake.values([(2, "b", 2)], SRC).write.format("delta").mode("append")
    writer.option("txnAppId", "app").option("txnVersion", "3").save(str(lake.root / "t"))
    lake.sql("RESTORE TABLE {t} TO VERSION AS OF 0")
    writer.option("txnAppId", "app").option("txnVersion", "3").save(str(lake.root / "t"))
    assert lake.rows("t") == [(1, "a", 1)]
    assert lake.ref("t").log(lambda: lake.spark).epoch("app", lake.version("t")) == 3


@pytest.mark.slow
def test_both_logs_say_the_same_of_one_table(lake: Lake) -> None:
    lake.create("t", [(1, "a", 1)], SRC, delta__columnMapping__mode="name")
    for statement in (
        "UPDATE {t} SET v = 2",
        "ALTER TABLE {t} RENAME COLUMN k TO grp",
        "DELETE FROM {t} WHERE id = 7",
        "ALTER TABLE {t} DROP COLUMN grp",
        "OPTIMIZE {t}",
        "DELETE FROM {t}",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        "INSERT INTO {t} VALUES (3, 'c', 3)",
    ):
        lake.sql(statement)
    path = str(lake.root / "t")
    logs: list[Log] = [FileLog(Location(path), "t"), SparkLog(lake.spark, lake.ref("t").identifier, "t")]
    heads = [log.head() for log in logs]
    assert heads[0] == heads[1] and heads[0] is not None
    told = attrgetter(
        "version",
        "operation",
        "rows",
        "user_metadata",
        "restored_version",
        "renaming",
        "freed_columns",
        "empties",
        "is_quiet",
        "bytes_written",
    )
    listed = [list(log.commits(heads[0].version)) for log in logs]
    commits = [list(map(told, each)) for each in listed]
    assert commits[0] == commits[1]
    of_files, of_spark = ([commit.digest for commit in each] for each in listed)
    assert [digest.partition(".")[0] for digest in of_files] == of_spark, "behind the dot is what SQL does not tell"
    renamed, freed, empties, quiet, written = (set(of) for of in list(zip(*commits[0], strict=True))[5:])
    assert renamed == {None, ("k", "grp")} and freed == {frozenset(), frozenset({"k"}), frozenset({"grp"})}
    assert empties == quiet == {True, False} and len(written) > 2, "else this would compare nothing"
    assert len(set(of_spark)) > 4, "commits without metrics may have one digest"
    assert len(commits[0]) == heads[0].version + 1


def test_the_head_of_a_table_that_is_committed_to_all_the_time_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create("t", [(1, "a", 1)], SRC)
    asked = SparkLog._history

    def after_a_commit(log: SparkLog, limit: int) -> list[Row]:
        lake.insert("t", [(2, "b", 2)])
        return asked(log, limit)

    # The commit comes between two statements of one look at a table; Delta offers no hook there.
    monkeypatch.setattr(SparkLog, "_history", after_a_commit)
    head = SparkLog(lake.spark, lake.ref("t").identifier, "t").head()
    assert head is not None and head.version == 1


def test_both_logs_say_that_there_is_no_table(lake: Lake) -> None:
    empty = Path(lake.root / "nothing")
    empty.mkdir()
    assert FileLog(Location(str(empty)), "nothing").head() is None
    assert SparkLog(lake.spark, lake.ref("nothing").identifier, "nothing").head() is None


@pytest.mark.slow
def test_a_feature_that_is_dropped_wakes_no_reader(lake: Lake) -> None:
    """Delta makes several commits for it, some with undocumented operation names."""
    lake.create("t", [(id_, "a", 1) for id_ in range(20)], SRC)
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lake.sql("DELETE FROM {t} WHERE id = 7")
    rows, before = lake.rows("t"), lake.version("t")
    lake.sql("ALTER TABLE {t} DROP FEATURE deletionVectors")
    commits = lake.commits("t")[before + 1 :]
    assert lake.rows("t") == rows and commits
    assert [commit.operation for commit in commits if not commit.is_quiet] == []
