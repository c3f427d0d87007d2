"""What a run may do: the table's word, then the manager's, then the default."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.policy import OnNewCode, OnNewColumns, Policy
from lakehouse.delta.table import Table

policies = st.builds(
    Policy,
    on_new_columns=st.none() | st.sampled_from(get_args(OnNewColumns)),
    on_new_code=st.none() | st.sampled_from(get_args(OnNewCode)),
)


@given(policies, policies)
def test_a_field_of_the_table_wins_over_the_managers(of_table: Policy, of_manager: Policy):
    both = of_table.within(of_manager)
    assert both.on_new_columns == (of_table.on_new_columns or of_manager.on_new_columns)
    assert both.on_new_code == (of_table.on_new_code or of_manager.on_new_code)


@given(policies)
def test_metadata_carries_the_policy_of_a_table(policy: Policy):
    assert Table.from_metadata(dict(Table(key="id", policy=policy))) == Table(key="id", policy=policy)


def test_what_nobody_gives_is_the_first_word():
    assert (Policy().new_columns, Policy().new_code) == ("add", "compare")
    assert Table().policy == Policy()


@pytest.mark.parametrize("field", ["on_new_columns", "on_new_code"])
def test_another_word_is_refused_with_the_words_that_there_are(field: str):
    with pytest.raises(ValueError, match=f"{field} is '.*' or '.*', not 'maybe'"):
        Policy(**{field: "maybe"})


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(TypeError, match=r"policy is a Policy\(\.\.\.\), not 'compare'"):
        Table(policy="compare")
