"""An archive answers for a range exactly if it holds each change of the range once, as it was."""

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakehouse import Append, Changes, History, Merge, Policy, Read, Table
from lakehouse.delta.log import VersionRange
from lakehouse.read.archive import Archived, ask_archive
from lakehouse.read.changes import read_of
from lakehouse.read.content import Everything, Feed
from tests.support.assets import copy, log
from tests.support.lake import NO_WAIT, Lake, aged, cleaned
from tests.support.model import SRC
from tests.support.raises import raises_code
from tests.support.slow import slow

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_where_names_may_have_changed_hands_in_a_cleaned_log_no_archive_answers(lake: Lake, mapping: str) -> None:
    lake.create("src", ROWS, SRC, delta__columnMapping__mode=mapping)
    lake.materialize(copy, Table(key="id"))
    lake.materialize(log)
    for _ in range(12):
        lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.materialize(log)
    cleaned(lake, "src")
    changes = lake.begin(copy, Table(key="id")).changes(lake.source("src"), Read(archive="log"), lake.ref)
    assert isinstance(read_of(changes).content, Feed if mapping == "none" else Everything)
    lake.materialize(copy, Table(key="id"), reads={"src": Read(archive="log")})
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_an_archive_whose_version_cannot_be_read_any_more_does_not_answer(lake: Lake) -> None:
    """A week after the last commit before the newest one, Delta can no longer read any version but the newest."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, Table(key="id"))
    lake.materialize(log)
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(log)
    aged(lake, "src")
    lake.insert("src", [(5, "c", 50)])
    lake.materialize(copy, Table(key="id"), reads={"src": Read(archive="log")})
    assert lake.rows("copy") == lake.rows("src")


def _answers(lake: Lake, after: int, upto: int) -> bool:
    return isinstance(ask_archive(lake.ref("log"), lake.source("src"), VersionRange(after, upto)), Archived)


@pytest.mark.slow
def test_an_archive_answers_for_what_nobody_else_has_edited(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    for id_ in (4, 5):
        lake.insert("src", [(id_, "c", 40)])
        lake.materialize(log)
    assert _answers(lake, 0, 2) and _answers(lake, 1, 2) and not _answers(lake, -1, 2)
    lake.sql("ALTER TABLE {log} SET TBLPROPERTIES ('the.owner' = 'me')")
    assert _answers(lake, 0, 2)
    lake.sql("DELETE FROM {log} WHERE id = 4")
    assert not _answers(lake, 0, 2) and not _answers(lake, 1, 2)
    lake.insert("src", [(6, "c", 40)])
    lake.materialize(log)
    assert not _answers(lake, 1, 3) and _answers(lake, 2, 3)


def test_an_archive_that_keeps_some_of_the_log_does_not_answer(lake: Lake) -> None:
    def log(src: Changes) -> Append:
        return Append(src.log().where("id <> 4"))

    lake.create("src", ROWS, SRC)
    for _ in range(2):
        lake.materialize(log)
        lake.insert("src", [(4, "c", 40)])
    assert lake.rows("log") and not _answers(lake, 0, 1)


@pytest.mark.slow
def test_an_archive_from_which_operations_are_left_out_does_not_answer(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    for _ in range(2):
        lake.materialize(log, reads={"src": Read(exclude_operations="DELETE")})
        lake.sql("DELETE FROM {src} WHERE id = 1")
        lake.insert("src", [(4, "c", 40)])
    assert not _answers(lake, 0, 2)


@pytest.mark.slow
def test_an_archive_of_two_sources_does_not_answer_for_one(lake: Lake) -> None:
    def both(src: Changes, more: Changes) -> Append:
        return Append(src.log().unionByName(more.log()))

    lake.create("src", ROWS, SRC)
    lake.create("more", [(7, "z", 70)], SRC)
    for _ in range(2):
        lake.materialize(both)
        lake.insert("src", [(lake.version("src") + 10, "c", 40)])
        lake.insert("more", [(lake.version("more") + 20, "z", 80)])
    end = lake.version("src") - 1
    assert not isinstance(ask_archive(lake.ref("both"), lake.source("src"), VersionRange(0, end)), Archived)


@pytest.mark.parametrize("mapped", [slow(None), "some", slow("others")])
def test_an_archive_of_some_partitions_answers_for_no_others(lake: Lake, mapped: str | None) -> None:
    def kept(src: Changes) -> Append:
        return Append(src.log())

    lake.create("src", ROWS, SRC)
    lake.insert("src", [(4, "c", 40)])
    part = replace(lake.source("src"), at=replace(lake.source("src").at, mapped="some"))
    step = lake.begin(kept)
    step.commit(kept(step.changes(part, Read(), lake.ref)), lake.retry, NO_WAIT)
    lake.insert("src", [(5, "c", 50)])
    step = lake.begin(kept)
    part = replace(lake.source("src"), at=replace(lake.source("src").at, mapped="some"))
    step.commit(kept(step.changes(part, Read(), lake.ref)), lake.retry, NO_WAIT)
    of_others = replace(part, at=replace(part.at, mapped=mapped))
    answer = ask_archive(lake.ref("kept"), of_others, VersionRange(1, 2))
    assert isinstance(answer, Archived) == (mapped == "some")


def cleaned_source(lake: Lake) -> None:
    lake.insert("src", [(4, "c", 40)])
    cleaned(lake, "src")


def source_of_its_name(lake: Lake) -> None:
    """The archive has rows of versions 0 to 3; the new source has reached version 2."""
    for id_ in (4, 5, 6):
        lake.insert("src", [(id_, "c", 40)])
    lake.materialize(log)
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(7, "z", 70)], SRC)
    for id_ in (8, 9):
        lake.insert("src", [(id_, "z", 80)])


@pytest.mark.slow
@pytest.mark.parametrize("event", [cleaned_source, source_of_its_name])
def test_an_archive_that_went_on_from_a_later_version_does_not_answer_for_what_it_left_out(
    lake: Lake, event: Callable[[Lake], None]
) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(log)
    lake.materialize(copy, Table(key="id"))
    event(lake)
    with raises_code("GAP"):
        lake.materialize(log)
    lake.materialize(log, go_on_from="now")
    if event is cleaned_source:
        lake.materialize(copy, Table(key="id"), reads={"src": Read(archive="log")})
        assert lake.rows("copy") == lake.rows("src")
    else:
        assert not _answers(lake, 0, 2)
        for id_ in (10, 11):
            lake.insert("src", [(id_, "c", 40)])
        lake.materialize(log)
        assert not _answers(lake, 2, 3), "version 3 of the other source is there, too"
    end = lake.version("src")
    lake.insert("src", [(12, "c", 40)])
    lake.materialize(log)
    assert _answers(lake, end, end + 1)


def texts(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.selectExpr("id", "CAST(v AS STRING) AS text"), touched)


WIDENING = Table(properties={"delta.enableTypeWidening": "true"})


@pytest.mark.slow
def test_where_a_type_may_have_changed_in_a_cleaned_log_no_archive_answers(lake: Lake) -> None:
    rows = [(1, 1.1), (2, 2.2)]
    lake.create("src", rows, "id INT, v FLOAT", delta__enableTypeWidening="true")
    lake.materialize(texts, Table(key="id"), reads={"src": Read(archive="log")})
    lake.materialize(log, WIDENING)
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE DOUBLE")
    lake.sql("ALTER TABLE {log} ALTER COLUMN v TYPE DOUBLE")
    for _ in range(12):
        lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.materialize(log, WIDENING)
    cleaned(lake, "src")
    lake.materialize(texts, Table(key="id"), reads={"src": Read(archive="log")})
    assert lake.rows("texts") == [tuple(row) for row in lake.sql("SELECT id, CAST(v AS STRING) FROM {src} ORDER BY id")]


@pytest.mark.slow
@pytest.mark.parametrize("grown", [1, 3])
def test_an_archive_of_what_a_backup_has_undone_does_not_answer(lake: Lake, grown: int) -> None:
    lake.create("src", [(id_, "a", id_) for id_ in range(1, 7)], SRC)
    lake.materialize(log)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 6")
    lake.materialize(copy, Table(key="id"), reads={"src": Read(archive="log")})
    shutil.copytree(lake.root / "src", lake.root / "backup")
    for id_ in (1, 2):
        lake.sql(f"UPDATE {{src}} SET v = 101 WHERE id = {id_}")
    lake.materialize(log)
    shutil.rmtree(lake.root / "src")
    shutil.move(lake.root / "backup", lake.root / "src")
    for id_ in range(3, 3 + grown):
        lake.sql(f"UPDATE {{src}} SET v = 200 WHERE id = {id_}")
    lake.materialize(copy, Table(key="id"), reads={"src": Read(archive="log")}, gap="the feed was vacuumed")
    assert lake.rows("copy") == lake.rows("src")


@pytest.mark.slow
def test_a_history_of_a_former_table_is_not_restated_from_the_archive_of_the_present_one(lake: Lake) -> None:
    def past(src: Changes) -> History:
        return History(src)

    reads = {"src": Read(archive="log")}
    lake.create("src", ROWS, SRC)
    for _ in range(2):
        lake.materialize(log)
        lake.materialize(past, Table(key="id"), reads=reads)
        lake.sql("UPDATE {src} SET v = v + 1")
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(7, "x", 7)], SRC)
    lake.materialize(log, go_on_from=0)
    lake.sql("UPDATE {src} SET v = v + 1")
    lake.materialize(log)
    with raises_code("RESTATE_REFUSED", match="'src' is not what was read: another table"):
        lake.materialize(past, Table(key="id"), reads=reads, restate_from="2099-01-01")


@pytest.mark.slow
def test_an_archive_that_lost_a_column_does_not_answer_for_what_came_before(lake: Lake) -> None:
    table = Table(policy=Policy(on_new_columns="add"), properties={"delta.columnMapping.mode": "name"})
    lake.create("src", ROWS, SRC)
    lake.materialize(log, table)
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.materialize(log, table)
    lake.sql("ALTER TABLE {log} DROP COLUMN v")
    for _ in range(2):
        lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
        lake.materialize(log, table)
    assert not _answers(lake, 0, 3) and _answers(lake, 2, 3)
