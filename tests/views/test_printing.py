"""What sqlglot writes for Spark has the meaning of what it read, for each function and operator in the lists."""

import re

import sqlglot
from sqlglot import exp

from lakehouse.views.functions import (
    AGGREGATES,
    CALLABLE,
    FORMS,
    GENERATORS,
    LEVELS,
    OF_THE_RUN,
    ROW_FUNCTIONS,
    WINDOW_FUNCTIONS,
)
from lakehouse.views.printing import PRINTABLE_FUNCTIONS, REWRITTEN_FUNCTIONS, is_printable
from lakehouse.views.query import read
from lakehouse.views.sql.grouping import is_aggregate
from lakehouse.views.sql.parsing import CALLED, parse
from lakehouse.views.sql.words import cut
from tests.support.for_each import for_each

BY_NUMBER = """
0: cume_dist dense_rank e make_interval percent_rank pi rank row_number
1: abs acos acosh array array_compact array_distinct array_max array_min array_sort arrays_zip ascii asin asinh atan
1: atanh base64 bigint bin binary bit_count bit_length bround btrim cardinality cbrt ceil chr coalesce concat cos cosh
1: cot crc32 csc date_from_unix_date day dayname dayofmonth dayofweek dayofyear degrees exp expm1 factorial flatten
1: floor from_unixtime hash hex hour initcap is_valid_utf8 isnan isnotnull isnull json_array_length json_object_keys
1: last_day length ln log1p lower ltrim luhn_check make_valid_utf8 map_concat map_entries map_from_entries map_keys
1: map_values mask md5 minute month monthname negative nullifzero octet_length positive quarter quote radians reverse
1: rint round rtrim schema_of_json sec second sentences sha sign sin sinh size smallint sort_array soundex sqrt tan tanh
1: timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary to_date to_json to_timestamp_ltz
1: to_timestamp_ntz to_varchar trim try_to_binary try_to_date try_to_timestamp try_validate_utf8 unbase64 unhex
1: unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 weekday weekofyear
1: xxhash64 year zeroifnull array_size char_length character_length len log log10 log2 sha1 space str_to_map
1: to_timestamp to_unix_timestamp unix_date ceiling signum
1: any_value approx_count_distinct avg bit_and bit_or bit_xor bitmap_construct_agg bitmap_or_agg bool_and bool_or
1: collect_list collect_set count count_if every explode explode_outer first_value hll_sketch_agg hll_union_agg inline
1: inline_outer kurtosis lag last_value lead max mean median min mode ntile posexplode posexplode_outer product
1: regr_count skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop variance
2: add_months array array_append array_contains array_except array_intersect array_join array_position array_prepend
2: array_remove array_repeat array_sort array_union arrays_overlap arrays_zip atan2 bround btrim ceil coalesce concat
2: concat_ws contains convert_timezone date_add date_format date_part datediff datepart decode element_at elt encode
2: endswith equal_null exists filter find_in_set floor forall format_number format_string from_json from_unixtime get
2: get_json_object getbit greatest hypot least left levenshtein locate lpad make_dt_interval make_ym_interval
2: map_concat map_contains_key map_filter map_from_arrays months_between nanvl next_day nullif pmod power printf
2: regexp_count regexp_extract regexp_extract_all regexp_instr regexp_substr repeat replace right round rpad sentences
2: sha2 shiftleft shiftright shiftrightunsigned sort_array split startswith substring to_binary to_date
2: to_timestamp_ltz to_timestamp_ntz to_varchar transform transform_keys transform_values try_add try_divide
2: try_element_at try_mod try_multiply try_subtract try_to_binary try_to_date try_to_number try_to_timestamp
2: unix_timestamp bit_get date_sub from_utc_timestamp instr log map regexp_like sequence to_char to_number
2: to_timestamp to_unix_timestamp to_utc_timestamp mod pow regexp_replace date_trunc trunc
2: corr covar_pop covar_samp histogram_numeric json_tuple lag lead max_by min_by nth_value percentile percentile_approx
2: regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stack
3: aggregate array_insert array_join conv convert_timezone date_add datediff elt from_json greatest if json_tuple lag
3: lead least locate lpad make_date map_zip_with mask months_between nvl2 percentile_approx regexp_extract
3: regexp_extract_all regexp_instr regexp_replace replace rpad slice split split_part stack substring substring_index
3: translate zip_with percentile
4: aggregate count_min_sketch mask regexp_replace width_bucket
6: make_timestamp make_timestamp_ltz make_timestamp_ntz try_make_timestamp
"""
"""Calls by the number of their arguments."""
CALLS = [
    *(
        f"{name.upper()}({', '.join('abcdef'[: int(number)])})"
        for number, names in (line.split(": ") for line in BY_NUMBER.strip().splitlines())
        for name in names.split()
    ),
    *("CAST(a AS INT)", "TRY_CAST(a AS DATE)", "DATE_TRUNC('MONTH', a)", "TRUNC(a, 'MM')", "EXTRACT(YEAR FROM a)"),
    *("TO_DATE(a, 'dd/MM/yyyy')", "DATE_FORMAT(a, 'EEEE yyyy-MM')", "TRIM(BOTH 'x' FROM a)", "SPLIT(a, ',')"),
    *("NAMED_STRUCT('a', b)", "REDUCE(a, 0, (s, x) -> s + x)", "SEQUENCE(a, b, INTERVAL '1' DAY)", "TO_CHAR(a, '999')"),
    *("REGEXP_REPLACE(a, '[0-9]+', 'x')", "TRANSFORM(a, x -> x + 1)", "AGGREGATE(a, 0, (s, x) -> s + x)"),
]
EXPRESSIONS = [
    *("a + b", "a - b", "a * b", "a / b", "a DIV b", "a % b", "-a", "a || b", "a & b", "a | b", "a ^ b", "~a"),
    *("a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b", "NOT a", "a AND b", "a OR b", "a AND (b OR c)"),
    *("a IS NULL", "a IS TRUE", "a IN (1, 2)", "(a, b) IN ((1, 2))", "a BETWEEN 1 AND 2", "a LIKE 'x%'"),
    *("a NOT LIKE 'x'", "a ILIKE 'x'", "a LIKE 'x!%' ESCAPE '!'", "a RLIKE 'x'", "a IS DISTINCT FROM b"),
    *("CASE WHEN a THEN b ELSE c END", "CASE a WHEN 1 THEN b END", "'x'", "1", "1.5", "1e3", "NULL", "TRUE", "a[0]"),
    *("CAST(a AS DECIMAL(10, 2))", "CAST(a AS STRING)", "CAST(a AS TIMESTAMP)", "CAST(a AS TIMESTAMP_NTZ)"),
    *("INTERVAL '1' DAY", "a + INTERVAL '3' MONTH", ":p", "COUNT(*)", "COUNT(DISTINCT a, b)"),
    *("SUM(a) FILTER(WHERE b > 1)", "FIRST_VALUE(a) IGNORE NULLS OVER (PARTITION BY b ORDER BY c)"),
    *("SUM(a) OVER (PARTITION BY b ORDER BY c DESC NULLS FIRST)", "LAG(a, 1) OVER (PARTITION BY b ORDER BY c)"),
    "SUM(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
]
SYNONYMS = {
    "approx_percentile(a, b)": "PERCENTILE_APPROX(a, b)",
    "boolean(a)": "CAST(a AS BOOLEAN)",
    "date(a)": "CAST(a AS DATE)",
    "double(a)": "CAST(a AS DOUBLE)",
    "float(a)": "CAST(a AS FLOAT)",
    "ifnull(a, b)": "COALESCE(a, b)",
    "int(a)": "CAST(a AS INT)",
    "lcase(a)": "LOWER(a)",
    "nvl(a, b)": "COALESCE(a, b)",
    "string(a)": "CAST(a AS STRING)",
    "substr(a, b)": "SUBSTRING(a, b)",
    "substr(a, b, c)": "SUBSTRING(a, b, c)",
    "timestamp(a)": "CAST(a AS TIMESTAMP)",
    "ucase(a)": "UPPER(a)",
}
"""Calls that are written with another name of the same function."""
OTHER_WORDS = {
    **SYNONYMS,
    "a != b": "a <> b",
    "a <=> b": "a IS NOT DISTINCT FROM b",
    "!a": "NOT a",
    "a IS NOT NULL": "NOT a IS NULL",
    "a NOT IN (1, 2)": "NOT a IN (1, 2)",
    "a NOT BETWEEN 1 AND 2": "NOT a BETWEEN 1 AND 2",
    "1L": "CAST(1 AS BIGINT)",
    "1.5D": "CAST(1.5 AS DOUBLE)",
    "DATE '2020-01-01'": "CAST('2020-01-01' AS DATE)",
    "a::int": "CAST(a AS INT)",
    "INTERVAL 3 MONTHS": "INTERVAL '3' MONTHS",
    "substring(a FROM 1 FOR 2)": "SUBSTRING(a, 1, 2)",
}
"""What is written in other words with the same meaning."""
CHANGED = [
    *("array_agg(a)", "date_diff(a, b)", "dateadd(a, b)", "first(a, true)", "first(a)", "last(a)", "listagg(a, ',')"),
    *("overlay(a PLACING b FROM 1)", "position('x' IN a)", "string_agg(a, ',')", "struct(a, b)", "var_samp(a)"),
    *("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY a)"),
    *("grouping(a)", "grouping_id(a)", "timestampadd(DAY, 1, a)", "timestampdiff(DAY, a, b)"),
    *(
        "cast(a AS VARCHAR(3))",
        "X'1F'",
        "r'\\d'",
        "'a\\nb'",
    ),
    *("'a' 'b'", "a AT TIME ZONE 'x'", "a & 1 << 3", "a | b >> 1", "a - INTERVAL 1 DAY 2 HOURS"),
    *("a * INTERVAL '1' YEAR '2' MONTH", "a BETWEEN b AND c - INTERVAL 1 DAY 2 HOURS"),
]
"""What is not written as it was read, or what has not been proved to be."""


def tree_of(expression: str):
    (tree,) = parse(cut(f"SELECT {expression} FROM t")).tree.expressions
    return tree


@for_each("expression", [*CALLS, *EXPRESSIONS])
def test_what_is_printable_is_written_as_it_is_read(expression: str):
    assert is_printable(tree_of(expression))
    assert tree_of(expression).sql(dialect="spark").upper() == expression.upper()


@for_each("expression", OTHER_WORDS)
def test_some_is_written_in_other_words_of_the_same_meaning(expression: str):
    assert is_printable(tree_of(expression))
    assert tree_of(expression).sql(dialect="spark") == OTHER_WORDS[expression]


@for_each("expression", CHANGED)
def test_what_may_change_is_not_printable(expression: str):
    assert not is_printable(tree_of(expression))


@for_each("call", [*CALLS, *SYNONYMS, *CHANGED])
def test_the_tree_tells_aggregates_and_generators_from_functions_of_a_row(call: str):
    tree, name = tree_of(call), call.partition("(")[0].lower()
    assert is_aggregate(tree) == (name in AGGREGATES or (name in WINDOW_FUNCTIONS and isinstance(tree, exp.AggFunc)))
    assert (tree.meta.get(CALLED) in GENERATORS) == (name in GENERATORS)


def test_each_printable_function_is_called_above():
    called = {call.partition("(")[0].lower() for call in (*CALLS, *SYNONYMS)}
    assert called == PRINTABLE_FUNCTIONS


def test_each_function_that_is_written_otherwise_is_called_above():
    called = {call.partition("(")[0].lower() for call in CHANGED} & CALLABLE
    assert called - PRINTABLE_FUNCTIONS == REWRITTEN_FUNCTIONS - {"interval"}


@for_each("call", [*CALLS, *SYNONYMS, *CHANGED])
def test_the_tree_has_each_column_of_a_call(call: str):
    """If the tree lost a column, it would go unnoticed that this column decides a value."""
    written = set(re.findall(r"(?<!')\b[a-g]\b(?!')", re.sub(r"'[^']*'", "", call)))
    of_a_unit = {"a"} if re.match("(date_add|datediff)\\(a, b, c", call, re.IGNORECASE) else set[str]()
    assert {each.name for each in tree_of(call).find_all(exp.Column)} >= written - of_a_unit


def test_no_function_is_in_two_lists():
    lists = [ROW_FUNCTIONS, AGGREGATES, LEVELS, WINDOW_FUNCTIONS, GENERATORS, OF_THE_RUN, FORMS]
    assert sum(map(len, lists)) == len(frozenset[str]().union(*lists))


def test_a_field_of_a_column_is_written_as_no_column_of_a_table():
    (name,) = read("SELECT s.`a b`.c AS a FROM t", {"t": {"s": "struct<a b:struct<c:int>>"}}).outputs
    assert name.column.startswith("a_")
    (expression,) = read("SELECT s.`a b`.c AS a FROM t", {"t": {"s": "struct<a b:struct<c:int>>"}}).root.new.values()
    assert is_printable(expression)
    assert re.fullmatch(r"\(\(s_\d\)\.`a b`\)\.`c`", expression.sql(dialect="spark"))


def test_the_release_of_sqlglot_is_the_one_that_was_looked_through():
    """The lists were made with this release: for a new one, run the tests and change this line."""
    assert sqlglot.__version__.startswith("30.")
