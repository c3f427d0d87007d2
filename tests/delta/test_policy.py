"""What a run may do: the table's policy first, then the manager's, then the default."""

from dataclasses import fields
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.policy import OnNewCode, OnNewColumns, OnSameRows, Policy, Refresh, StatementChoice
from lakehouse.delta.table import Table
from tests.support.for_each import for_each

policies = st.builds(
    Policy,
    refresh=st.none() | st.sampled_from(get_args(Refresh)),
    on_new_columns=st.none() | st.sampled_from(get_args(OnNewColumns)),
    on_new_code=st.none() | st.sampled_from(get_args(OnNewCode)),
    on_same_rows=st.none() | st.sampled_from(get_args(OnSameRows)),
    statement=st.none() | st.sampled_from(get_args(StatementChoice)),
    ignore_config=st.sampled_from([None, (), "day", ("day", "limit")]),
    show_rows=st.sampled_from([None, 0, 3]),
)


@given(policies, policies)
def test_a_field_of_the_table_wins_over_the_managers(of_table: Policy, of_manager: Policy):
    both = of_table.within(of_manager)
    for name in (field.name for field in fields(Policy)):
        own, outer = getattr(of_table, name), getattr(of_manager, name)
        assert getattr(both, name) == (outer if own is None else own)


@given(policies)
def test_metadata_carries_the_policy_of_a_table(policy: Policy):
    assert Table.from_metadata(dict(Table(key="id", policy=policy))) == Table(key="id", policy=policy)


def test_what_nobody_gives_is_the_first_word():
    assert Policy().chosen_refresh == "auto"
    assert (Policy().new_columns, Policy().new_code) == ("add", "compare")
    assert (Policy().same_rows, Policy().chosen_statement) == ("retry", "auto")
    assert (Policy().ignored_config, Policy().shown_rows) == ((), 0)
    assert Table().policy == Policy()


@for_each("field", ["refresh", "on_new_columns", "on_new_code", "on_same_rows", "statement", "outside", "inputs"])
def test_another_word_is_refused_with_the_words_that_there_are(field: str):
    with pytest.raises(ValueError, match=f"{field} is '.*' or '.*', not 'maybe'"):
        Policy(**{field: "maybe"})


def test_a_negative_number_of_rows_and_names_that_are_no_texts_are_refused():
    with pytest.raises(ValueError, match="show_rows is a number of rows from 0, not -1"):
        Policy(show_rows=-1)
    with pytest.raises(TypeError, match="ignore_config is a name or a tuple of names"):
        Policy(ignore_config=5)


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(TypeError, match=r"policy is a Policy\(\.\.\.\), not 'compare'"):
        Table(policy="compare")
