"""SQL of an `Aggregate` passes by what is known to go by one row, and by nothing else."""

from lakehouse.views.sql.row_sql import why_not_of_the_row
from tests.support.for_each import for_each

OF_THE_ROW = (
    "v*2",
    "(v) * 2",
    "1.*v",
    "v * current_price",
    "user_id",
    "`user` + 1",
    "login.user",
    "unix_timestamp(at)",
    "IF(g = '.*(*select now()', 1, 0)",
    r"IF(g RLIKE 'order.*\\d+', 1, 0)",
    r"length(regexp_extract(g, '\\w+,*', 0))",
    r"IF(g = r'\', 1, 0) - (-1)",
    "CASE WHEN (a) AND NOT (b) OR c IN (1, 2) THEN (1) ELSE (2) END",
    "CAST(price AS DECIMAL(20, 2))",
    "CAST(code AS CHAR (4))",
    "date_trunc('day', at)",
    "extract(YEAR FROM at)",
    "aggregate(items, 0, (sum, item) -> sum + item.count)",
    "IF(exists(gs, g -> NOT is_valid_utf8(g)), 'a', 'b')",
    "named_struct('a', 1).a",
    "NOT (status <> 'void')",
)
OF_MORE = (
    "xxhash64(*)",
    "struct(src.*)",
    "(SELECT 1)",
    "v * current_date()",
    "v * CURRENT_DATE",
    "id > unix_timestamp( )",
    "now()",
    "rand()",
    "uuid()",
    "max(v)",
    "row_number() OVER (ORDER BY id)",
    "explode(array(v))",
    "monotonically_increasing_id()",
    "input_file_name()",
    "session_user",
    "user IS NULL",
    "java_method('java.lang.System', 'nanoTime')",
    "a_function_of_the_next_spark(v)",
    "main.rates.of(v)",
    "main . rates . abs (v)",
    "`abs`(v)",
    "shuffle(items)",
    "CAST(day < DATE'today' AS INT)",
    "CAST(day < TIMESTAMP '12:00' AS INT)",
    "CAST(day < ' 7:05:00 UTC' AS INT)",
    "CAST(day < ' Yesterday ' AS INT)",
    'CAST(day < DATE"today" AS INT)',
    "v * ${my.rate}",
    "v * (TABLE t)",
    "v -- as it was",
    "xxhash64(/* all */ *)",
    "`it's` * datediff(current_date(), d) + `b's`",
    """IF(g = "'", v * datediff(current_date(), d), 0) + IF(h = "'", 1, 0)""",
)


@for_each("sql", OF_THE_ROW)
def test_what_goes_by_the_columns_of_one_row_passes(sql: str):
    assert why_not_of_the_row(sql) is None


@for_each("sql", OF_MORE)
def test_what_may_go_by_more_is_refused_and_said(sql: str):
    why = why_not_of_the_row(sql)
    assert why is not None and ("one row" in why or "comments" in why)


def test_a_function_that_is_not_on_the_list_is_named_with_a_way_on():
    assert why_not_of_the_row("v * rate_of(day)") == (
        "An Aggregate goes by the columns of one row; 'v * rate_of(day)' calls 'rate_of', of which that is not known. "
        "Compute the column in an asset of its own and sum that, or return a Merge."
    )
