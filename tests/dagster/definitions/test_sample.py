"""Which keys a check compares, by the parts of the sample alone."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dagster.definitions.recompute import LARGE, OF_LARGE, Part, parts

COUNTS = st.integers(1, 300)


@given(of=COUNTS, last=st.builds(lambda of, number: Part(number % of, of), COUNTS, st.integers(0, 10**6)))
def test_as_many_checks_in_a_row_as_there_are_parts_compare_each_key_once(of: int, last: Part) -> None:
    """Whatever was compared before; a night that leaves the check out changes nothing."""
    compared = list[int]()
    for _ in range(of):
        last = last.following(of)
        compared.append(last.number)
    assert sorted(compared) == list(range(of))
    hashes = range(-2 * of, 2 * of)  # hashes of keys, each in exactly one part
    assert all(sum(value % of == number for number in compared) == 1 for value in hashes)


@given(of=COUNTS, wrong=st.sets(st.integers(0, 299)), mended=st.integers(0, 40), nights=st.integers(1, 80))
def test_a_part_that_was_wrong_is_compared_until_it_is_right(
    of: int, wrong: set[int], mended: int, nights: int
) -> None:
    """So no night succeeds between the one that found the difference and the one after it was mended."""
    last, found = Part(0, of), list[bool]()
    for each in range(nights):
        still_wrong = last.number in wrong and each < mended
        found.append(still_wrong)
        last = last.again(of) if still_wrong else last.following(of)
    first = found.index(True) if True in found else nights
    assert all(found[first:mended])


@given(number=st.integers(0, 299), of=COUNTS)
def test_the_next_check_reads_from_its_text_which_part_the_last_one_compared(number: int, of: int) -> None:
    assert Part.parse(str(Part(number, of))) == Part(number, of)
    assert Part.parse("everything") is None


@given(rows=st.integers(0, 10**10), keys=st.integers(1, 10**8))
def test_a_part_has_at_most_about_as_many_keys_as_the_sample_and_at_least_half(rows: int, keys: int) -> None:
    of = parts(rows, keys)
    assert rows / of <= keys and (of == 1 or 2 * rows / of > keys)
    assert of & (of - 1) == 0, "a power of two, so that a growing table keeps its parts"


@given(share=st.floats(0.0001, 1))
def test_a_share_is_a_share_of_the_keys(share: float) -> None:
    assert 1 / parts(0, share) <= share < 1 / max(1, parts(0, share) - 1) + 1e-9


def test_a_table_is_compared_whole_up_to_ten_million_rows_and_by_a_million_keys_above_if_nothing_is_said() -> None:
    assert (parts(0, None), parts(LARGE, None)) == (1, 1)
    assert parts(LARGE + 1, None) == 16 >= LARGE / OF_LARGE
    assert parts(LARGE + 1, 1.0) == 1, "1.0 is everything, however large the table"
