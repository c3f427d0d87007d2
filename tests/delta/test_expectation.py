"""An expectation as a value: its name, its words, its place in metadata, and how an evaluation is worded."""

from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import Expect, Table
from lakehouse.cursor.definition import definition, why_redefined
from lakehouse.delta.expect import SUFFIX, Evaluation
from lakehouse.spark.table_version import TableRef
from tests.support.for_each import for_each

NAMES = {
    "amount >= 0": "amount_ge_0",
    "amount>=0 AND amount <= 9": "amount_ge_0_and_amount_le_9",
    "`my day` IS NOT NULL": "my_day_is_not_null",
    "a <> 'x'": "a_ne_x",
    "a != b": "a_ne_b",
    "a < b": "a_lt_b",
    "a = 1": "a_eq_1",
}


@for_each("condition, name", NAMES.items())
def test_a_condition_without_a_name_has_one_that_is_made_of_it(condition: str, name: str) -> None:
    assert Expect(condition).check_name == name
    assert Expect(condition, name="mine").check_name == "mine"


@for_each(
    "given_, problem",
    [
        ({"condition": " \n"}, "has a condition"),
        (
            {"condition": "a > 0", "on_failure": "delete"},
            "on_failure is 'warn' or 'fail' or 'drop' or 'quarantine', not",
        ),
        ({"condition": "a > 0", "name": "is positive"}, "letters, digits and underscores"),
        ({"condition": "a > 0", "name": ""}, "letters, digits and underscores"),
        ({"condition": "é"}, "Give the expectation a name"),
        ({"condition": "unique  key"}, "on_failure of UNIQUE KEY is 'quarantine' or 'fail', not 'warn'"),
        ({"condition": "UNIQUE KEY", "on_failure": "drop"}, "no table with a key takes two rows of one key"),
    ],
)
def test_what_is_no_expectation_is_refused_where_it_is_written(given_: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Expect(**given_)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="Two expectations are called a_gt_0"):
        Table(expect=(Expect("a > 0"), Expect("A > 0", "drop")))


@for_each("other", ["amount > 0", ["amount > 0"], 1])
def test_a_table_expects_expectations(other: Any) -> None:
    with pytest.raises(TypeError, match=r"expect is an Expect\(...\) or a tuple of them"):
        Table(expect=other)


EXPECTATIONS = st.lists(
    st.builds(
        Expect,
        st.sampled_from(["a > 0", "b IS NULL", " c = 'x' "]),
        st.sampled_from(["warn", "fail", "drop", "quarantine"]),
        st.none() | st.sampled_from(["one", "two_2"]),
    ),
    max_size=3,
    unique_by=lambda each: each.check_name,
)


@given(EXPECTATIONS)
def test_expectations_are_the_same_when_dagster_has_kept_them(expectations: list[Expect]) -> None:
    table = Table(key="id", expect=expectations)
    spec = dg.AssetSpec("a", metadata={**table, "team": "x"})
    assert Table.from_metadata(spec.metadata) == table
    assert Table.from_metadata(spec.metadata).expectations == tuple(expectations)
    assert dg.serialize_value(dg.AssetMaterialization("a", metadata=dict(table)))


def parts(*expectations: Expect) -> dict[str, str]:
    return definition(Table(key="id", expect=expectations), None, {}, {})


LONG = "a IN (" + ", ".join(map(str, range(60))) + ")"
CHANGES = {
    "none": ([Expect("a > 0", "drop")], [Expect("a > 0", "drop")], None),
    "a name": ([Expect("a > 0", "drop")], [Expect("a > 0", "drop", "b")], None),
    "the order": (
        [Expect("a > 0", "drop"), Expect("b", "drop")],
        [Expect("b", "drop"), Expect("a > 0", "drop")],
        None,
    ),
    "of a warning": ([Expect("a > 0")], [Expect("a > 1", "fail")], None),
    "a condition": (
        [Expect("a > 0", "drop", "n")],
        [Expect("a > 1", "drop", "n")],
        "other rows are left out: the expectation n changed from a > 0 to a > 1",
    ),
    "one more": ([], [Expect("a > 0", "drop")], "other rows are left out: the expectation a_gt_0 (a > 0) is new"),
    "one less": ([Expect("a > 0", "drop")], [], "other rows are left out: the expectation a_gt_0 (a > 0) is gone"),
    "what becomes of rows": (
        [Expect("a > 0", "drop")],
        [Expect("a > 0")],
        "other rows are left out: the expectation a_gt_0 (a > 0) is gone",
    ),
}


@for_each("before, now, why", CHANGES.values())
def test_a_condition_that_leaves_other_rows_out_redefines_a_table(
    before: list[Expect], now: list[Expect], why: str | None
) -> None:
    assert why_redefined(parts(*before), parts(*now), has_keys=True) == why
    assert why_redefined(parts(*before), parts(*now), has_keys=False) == why


def test_long_and_many_conditions_are_digests_in_the_mark() -> None:
    (value,) = (text for name, text in parts(Expect(LONG, "drop", "n")).items() if name == "expect n")
    assert value.startswith("#") and len(value) == 17
    many = [Expect(f"a > {number}", "drop") for number in range(100)]
    assert len(str(parts(*many))) < 200
    assert why_redefined(parts(*many), parts(*many[1:]), has_keys=True) is not None
    assert why_redefined(parts(*many), parts(*many), has_keys=True) is None


def test_an_evaluation_says_how_many_rows_break_what_and_which() -> None:
    expect = Expect("a > 0")
    assert Evaluation(expect, 10, 1, ({"id": "7"},)).clause == (
        "1 of 10 rows breaks the expectation a_gt_0 (a > 0) [id=7]"
    )
    assert Evaluation(expect, 2000, 1500, ({"id": "7", "day": "NULL"}, {"id": "8", "day": "x"})).clause == (
        "1,500 of 2,000 rows break the expectation a_gt_0 (a > 0) [id=7, day=NULL; id=8, day=x; ...]"
    )
    assert Evaluation(expect, 0, 0).share == 0.0


def test_a_unique_key_is_an_expectation_of_its_own():
    assert Expect.unique_key() == Expect("unique key", "quarantine") and Expect.unique_key().is_of_key
    assert Expect.unique_key("fail", name="one_row").check_name == "one_row"
    assert (Expect.unique_key().check_name, Expect("a > 0").is_of_key) == ("unique_key", False)


def test_what_is_quarantined_is_a_part_of_the_definition_and_so_are_the_names():
    before = parts(Expect("a > 0", "quarantine", "one"))

    def why(*expectations: Expect) -> str | None:
        return why_redefined(before, parts(*expectations), has_keys=True)

    assert why(Expect("a > 0", "quarantine", "one"), Expect("b > 0")) is None
    assert why(Expect("a > 0", "quarantine", "two")) == (
        "other rows are put into its quarantine: the expectation one (a > 0) is gone; the expectation two (a > 0) is new"
    )
    assert why(Expect("a > 0", "drop", "one")) == "other rows are left out: the expectation one (a > 0) is new"
    assert why() == "other rows are put into its quarantine: the expectation one (a > 0) is gone"


def test_a_quarantine_lies_beside_its_table_and_has_a_number_in_its_key():
    declared = Table(key=("a", "b"), partition_by="b", path="/lake/x/", expect=Expect("a > 0", "quarantine"))
    assert declared.quarantine == Table(key=("a", "b", "__n"), partition_by="b", path="/lake/x_quarantine")
    assert Table(name="c.`s.t`.x").quarantine.name == "`c`.`s.t`.`x_quarantine`"
    by_path, by_name = TableRef.at_path("silver/x", "s3a://lake/x"), TableRef.in_catalog("x", "c.`s.t`.x")
    assert by_path.beside(SUFFIX) == TableRef.at_path("silver/x_quarantine", "s3a://lake/x_quarantine")
    assert by_name.beside(SUFFIX) == TableRef.in_catalog("x_quarantine", "c.`s.t`.x_quarantine")
