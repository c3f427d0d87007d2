"""What a commit records about itself survives the log; what others record is not taken for ours; damage is noticed."""

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cursor.digests import Code, QueryDigest
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.generation import FIRST_GENERATION, Beginning, Generation, application_id
from lakehouse.cursor.mark import FIELD, FORMAT, Mark, NewerFormatError, Position, mark_in, rows_of
from lakehouse.delta.commit_info import NO_ROWS, Commit, Rows
from tests.support.for_each import for_each

texts = st.text("ab/:'\"\\{}né日\n", max_size=8)
versions = st.integers(0, 2**60)
generations = st.builds(
    Generation,
    st.sampled_from([Beginning.RESET, Beginning.CLEANED, Beginning.DAMAGED]),
    versions.map(str),
    st.none() | versions,
) | st.builds(
    Generation, st.just(Beginning.REPLANNED), st.uuids().map(lambda attempt: attempt.hex), st.none() | versions
)
positions = st.builds(
    Position,
    texts,
    st.integers(0, 2**60),
    st.booleans(),
    st.none() | texts,
    st.none() | st.integers(0),
    st.none() | texts,
)
marks = st.builds(
    Mark,
    asset=texts,
    partitions=st.lists(texts, max_size=3, unique=True).map(tuple),
    generation=generations,
    epoch=st.integers(1, 2**60),
    run=texts,
    attempt=texts,
    base=st.integers(-1, 2**60),
    code_version=st.none() | texts,
    reads=st.dictionaries(texts, positions, max_size=3),
    compared=st.booleans(),
    key=st.lists(texts, max_size=2).map(tuple),
    aggregate=st.none() | texts,
    everything=st.booleans(),
    log_after=st.none() | st.integers(0),
    definition=st.none() | st.dictionaries(texts, texts, max_size=3),
    decided=st.none() | texts,
    code=st.none() | st.builds(Code, texts, texts, st.dictionaries(texts, texts, max_size=3)),
    extract=st.none() | (st.integers(-(2**63), 2**63 - 1) | st.dates()).map(ExtractVersion.of),
    scope=st.none() | st.text(),
    rows=st.none() | st.builds(Rows, *[st.integers(0, 2**60)] * 3),
    beside=st.none() | st.integers(0, 2**60),
    quarantine=st.none() | texts,
    query=st.none() | st.builds(QueryDigest, texts) | st.builds(QueryDigest, texts, texts, texts, texts),
    lost_to=st.lists(st.integers(0, 2**60), max_size=3).map(tuple),
)
MARK = Mark(
    "silver/flights", ("2013-01-01",), FIRST_GENERATION, 12, "run", "attempt", 41, "3", {"src": Position("t", 76)}
)


@given(generations)
def test_a_generation_comes_back_from_its_text(generation: Generation):
    assert Generation.parse(str(generation)) == generation


@for_each("text", ["", "x", "-1", "0~", "0~x", "~3", "cleaned-", "damaged-x", "begun-", "1.5", "٣"])
def test_another_text_is_no_generation(text: str):
    with pytest.raises(ValueError, match="no generation"):
        Generation.parse(text)


@given(marks)
def test_a_mark_comes_back_from_the_log_as_it_was_written(mark: Mark):
    assert Mark.from_json(mark.to_json()) == mark


@given(marks)
def test_a_mark_is_one_line_of_json_and_the_same_for_the_same_mark(mark: Mark):
    text = mark.to_json()
    assert "\n" not in text
    assert json.loads(text).keys() == {FIELD}
    backwards = Mark(
        **{name: getattr(mark, name) for name in mark.__slots__} | {"reads": dict(reversed(mark.reads.items()))}
    )
    assert backwards.to_json() == text


def test_spaces_that_another_writer_of_json_would_add_do_not_matter():
    assert Mark.from_json(json.dumps(json.loads(MARK.to_json()), indent=2)) == MARK


@for_each(
    "text",
    [
        None,
        "",
        "nightly backfill",
        'moved to the "lakehouse" bucket',
        '{"job": "lakehouse"}',
        '{"team": "x", "tags": ["lakehouse"], "lakehouse": 3}',
        '{"lakehouse": "prod"}',
        '{"lakehouse": null}',
        '{"lakehouses": {}}',
        '["lakehouse"]',
        "42",
        "{",
    ],
)
def test_what_another_program_says_is_its_own_affair(text: str | None):
    assert Mark.from_json(text) is None


@given(st.integers(len('{"lakehouse":'), len(MARK.to_json()) - 1))
def test_a_mark_that_was_cut_off_is_damaged(length: int):
    with pytest.raises(ValueError, match="not JSON"):
        Mark.from_json(MARK.to_json()[:length])


@for_each("name", ["asset", "partition", "generation", "epoch", "run", "attempt", "base", "code_version", "reads"])
def test_a_mark_that_lacks_a_field_is_damaged(name: str):
    body = json.loads(MARK.to_json())
    del body[FIELD][name]
    with pytest.raises(ValueError, match="lacks or garbles"):
        Mark.from_json(json.dumps(body))


GARBLED = [
    *product(["asset", "generation", "run", "attempt"], [None, 3, ["x"], {}, True]),
    *product(["epoch", "base"], [None, "12", 1.5, True, [1], float("inf"), float("nan")]),
    *product(["partition"], [3, [], ["x"], ["x", 3], {"x": 1}, False]),
    *product(["code_version"], [3, ["3"]]),
    *product(["format"], [None, "2", True]),
    *product(["definition"], [3, "key", ["key"], {"key": 1}]),
    *product(["decided", "quarantine"], [3, ["x"]]),
    *product(["query"], [3, "x", [1], [], {"x": 1}, {"text": 1}, {"text": "#a", "names": 1}]),
    *product(["code"], [3, "x", {"kind": "1/3.11"}, {"kind": "1/3.11", "digest": "a", "parts": {"f": 1}}]),
    *product(["key"], [None, "id", 3, [1], {"id": 1}]),
    *product(["reads"], [None, [], "src", {"src": 76}, {"src": {"table": "t"}}, {"src": {"table": 1, "version": 2}}]),
    *product(["reads"], [{"src": {"table": "t", "version": "76"}}, {"src": {"table": "t", "version": None}}]),
    *product(["reads"], [{"src": {"table": "t", "version": 76, "commit": 5}}]),
]


@for_each("name, value", GARBLED)
def test_a_mark_with_a_field_of_another_type_is_damaged(name: str, value: Any):
    body = json.loads(MARK.to_json())
    body[FIELD][name] = value
    with pytest.raises(ValueError, match="lacks or garbles"):
        Mark.from_json(json.dumps(body))


@given(marks, st.integers(FORMAT + 1, 99))
def test_a_mark_of_a_newer_format_is_neither_none_nor_damaged(mark: Mark, number: int):
    """Whatever else is in it: only its format number and its asset are known."""
    text = json.dumps({FIELD: {"format": number, "asset": mark.asset, "parts": ["of", "later"]}})
    with pytest.raises(NewerFormatError) as raised:
        Mark.from_json(text)
    assert (raised.value.number, raised.value.asset) == (number, mark.asset)


def test_a_mark_without_a_definition_is_of_the_first_format():
    assert "format" not in json.loads(MARK.to_json())[FIELD]
    assert json.loads(replace(MARK, definition={}).to_json())[FIELD]["format"] == FORMAT


@for_each(
    "operation, text, expected",
    [
        ("MERGE", MARK.to_json(), MARK),
        ("MERGE", None, None),
        ("MERGE", MARK.to_json()[:40], None),
        ("MERGE", '{"lakehouse": {"format": 99, "asset": "x"}}', None),
        ("OPTIMIZE", MARK.to_json(), None),
        ("REORG", MARK.to_json(), None),
        ("RESTORE", MARK.to_json(), None),
    ],
)
def test_the_mark_of_a_commit_is_its_own_and_whole(operation: str, text: str | None, expected: Mark | None):
    assert mark_in(Commit(3, 0, operation, {}, {}, text)) == expected


def test_what_a_commit_did_to_rows_is_what_its_mark_says_where_delta_counts_no_updates():
    counts = {"numOutputRows": 5, "numDeletedRows": 4}
    replaced = Commit(3, 0, "WRITE", {"mode": "Overwrite", "predicate": "id IN (1)"}, counts)
    assert rows_of(replaced) == Rows(5, 0, 4)
    marked = replace(replaced, user_metadata=replace(MARK, rows=Rows(1, 4, 0)).to_json())
    assert rows_of(marked) == Rows(1, 4, 0)
    assert rows_of(replace(marked, user_metadata=MARK.to_json())) == Rows(5, 0, 4), "of an earlier version"
    assert rows_of(replace(marked, user_metadata='{"lakehouse": {"format": 99}}')) == Rows(5, 0, 4), "damaged"
    assert rows_of(replace(marked, operation="OPTIMIZE")) == NO_ROWS, "Delta gave it the mark of the commit before"


def test_the_damaged_text_is_shown_and_not_all_of_it():
    with pytest.raises(ValueError, match="not JSON") as raised:
        Mark.from_json('{"lakehouse":' + "[" * 100_000)
    assert len(str(raised.value)) < 300


keys = st.lists(st.sampled_from(["a", "b", "c", "a/b", "a...b(2)", "", "1:0"]), max_size=4, unique=True).map(tuple)
slices = st.tuples(keys, st.sampled_from(["0", "7", "70", "cleaned-7"]))


@given(slices, slices)
def test_epochs_count_apart_for_each_slice_and_generation(one: tuple[Any, ...], other: tuple[Any, ...]):
    assert (application_id("x", *one) == application_id("x", *other)) == (one == other)


def test_an_application_id_says_whose_it_is():
    assert application_id("silver/flights", (), "0") == "silver/flights:0"
    assert application_id("silver/flights", ("2013-01-01",), "7") == "silver/flights/2013-01-01:7"
    assert application_id("x", ("a", "b", "c"), "0").startswith("x/a...c(3, ")
    assert MARK.application_id == application_id(MARK.asset, MARK.partitions, MARK.generation)
