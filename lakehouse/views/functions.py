"""The functions that users' SQL may call, by name, in closed lists; a name in none of them is refused."""

from collections.abc import Mapping

ROW_FUNCTIONS = frozenset(
    {
        # numbers
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bin", "bround", "cbrt", "ceil"),
        *("ceiling", "conv", "cos", "cosh", "cot", "csc", "degrees", "e", "exp", "expm1", "factorial", "floor"),
        *("greatest", "hex", "hypot", "least", "ln", "log", "log10", "log1p", "log2", "mod", "negative", "pi"),
        *("pmod", "positive", "pow", "power", "radians", "rint", "round", "sec", "shiftleft", "shiftright"),
        *("shiftrightunsigned", "sign", "signum", "sin", "sinh", "sqrt", "tan", "tanh", "unhex", "width_bucket"),
        # types, called as functions
        *("bigint", "binary", "boolean", "date", "double", "float", "int", "smallint", "string", "timestamp"),
        *("tinyint",),
        # bits
        *("bit_count", "bit_get", "getbit"),
        # arithmetic that may fail
        *("try_add", "try_divide", "try_mod", "try_multiply", "try_subtract"),
        # NULL and NaN
        *("coalesce", "ifnull", "nanvl", "nullif", "nullifzero", "nvl", "nvl2", "zeroifnull", "isnan", "isnull"),
        *("isnotnull", "equal_null"),
        # texts and binaries
        *("ascii", "base64", "bit_length", "btrim", "char_length", "character_length", "chr", "concat", "concat_ws"),
        *("contains", "decode", "encode", "elt", "endswith", "find_in_set", "format_number", "format_string"),
        *("initcap", "instr", "is_valid_utf8", "lcase", "left", "len", "length", "levenshtein", "locate", "lower"),
        *("lpad", "ltrim", "luhn_check", "make_valid_utf8", "mask", "octet_length", "overlay", "position", "printf"),
        *("quote", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_like"),
        *("regexp_replace", "regexp_substr", "repeat", "replace", "reverse", "right", "rpad", "rtrim", "sentences"),
        *("soundex", "space", "split", "split_part", "startswith", "substr", "substring", "substring_index"),
        *("to_binary", "to_char", "to_number", "to_varchar", "translate", "trim", "try_to_binary", "try_to_number"),
        *("try_validate_utf8", "ucase", "unbase64", "upper", "url_decode", "url_encode", "validate_utf8"),
        # dates and times
        *("add_months", "convert_timezone", "date_add", "date_diff", "date_from_unix_date", "date_format"),
        *("date_part", "date_sub", "date_trunc", "dateadd", "datediff", "datepart", "day", "dayname", "dayofmonth"),
        *("dayofweek", "dayofyear", "extract", "from_unixtime", "from_utc_timestamp", "hour", "last_day"),
        *("make_date", "make_dt_interval", "make_interval", "make_timestamp", "make_timestamp_ltz"),
        *("make_timestamp_ntz", "make_ym_interval", "minute", "month", "monthname", "months_between", "next_day"),
        *("quarter", "second", "timestamp_micros", "timestamp_millis", "timestamp_seconds", "timestampadd"),
        *("timestampdiff", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "to_unix_timestamp"),
        *("to_utc_timestamp", "trunc", "try_make_timestamp", "try_to_date", "try_to_timestamp", "unix_date"),
        *("unix_micros", "unix_millis", "unix_seconds", "unix_timestamp", "weekday", "weekofyear", "year"),
        # hashes
        *("crc32", "hash", "md5", "sha", "sha1", "sha2", "xxhash64"),
        # arrays
        *("aggregate", "array_append", "array_compact", "array_contains", "array_distinct", "array_except"),
        *("array_insert", "array_intersect", "array_join", "array_max", "array_min", "array_position"),
        *("array_prepend", "array_remove", "array_repeat", "array_size", "array_sort", "array_union"),
        *("arrays_overlap", "arrays_zip", "cardinality", "element_at", "filter", "flatten", "forall", "get"),
        *("reduce", "sequence", "size", "slice", "sort_array", "transform", "try_element_at", "zip_with"),
        # maps and structs
        *("map_concat", "map_contains_key", "map_entries", "map_filter", "map_from_arrays", "map_from_entries"),
        *("map_keys", "map_values", "map_zip_with", "named_struct", "str_to_map", "transform_keys"),
        *("transform_values",),
        # JSON
        *("from_json", "get_json_object", "json_array_length", "json_object_keys", "schema_of_json", "to_json"),
    }
)
"""Spark functions whose value follows from their arguments and the session's time zone alone."""

FORMS = frozenset({"array", "cast", "exists", "if", "interval", "map", "struct", "try_cast"})
"""Functions for which Spark's parser has a grammar of their own."""

AGGREGATES = frozenset(
    {
        *("any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and", "bit_or"),
        *("bit_xor", "bitmap_construct_agg"),
        *("bitmap_or_agg", "bool_and", "bool_or", "collect_list", "collect_set", "corr"),
        *("count", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value"),
        *("histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kurtosis", "last", "last_value", "listagg", "max"),
        *("max_by", "mean", "median", "min", "min_by", "mode", "percentile", "percentile_approx", "percentile_cont"),
        *("percentile_disc", "product", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2"),
        *("regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "skewness", "some", "std", "stddev", "stddev_pop"),
        *("stddev_samp", "string_agg", "sum", "try_avg", "try_sum", "var_pop", "var_samp", "variance"),
    }
)
"""Aggregate functions. Some take any one of the rows that are equal in their order, as the query itself does."""

WINDOW_FUNCTIONS = frozenset(
    ("cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank", "row_number")
)
"""Functions that are allowed only before OVER."""

GENERATORS = frozenset(
    {
        *("explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer"),
        *("stack",),
    }
)
"""Functions that make several rows from one."""

OF_THE_CLOCK = "Keep the moment in a column of a source, or give it as a named parameter, :name."
"""What to do instead of a function of the clock, also of `unix_timestamp` without an argument."""

OF_THE_RUN_BY_REMEDY: Mapping[str, frozenset[str]] = {
    # chance, and where Spark has put a row
    "Take a hash of columns that identify the row, such as xxhash64(id).": frozenset(
        {
            *("rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"),
            *("monotonically_increasing_id", "spark_partition_id"),
        }
    ),
    OF_THE_CLOCK: frozenset(
        ("curdate", "current_date", "current_time", "current_timestamp", "getdate", "localtimestamp", "now")
    ),
    # the session
    "Give the value as a named parameter, :name.": frozenset(
        {
            *("current_catalog", "current_database", "current_schema", "current_timezone", "current_user"),
            *("session_user", "user", "version"),
        }
    ),
    # the file of a row; code that runs elsewhere, and encryption with random numbers
    "Keep the value in a column of a source.": frozenset(
        {
            *("input_file_block_length", "input_file_block_start", "input_file_name"),
            *("aes_encrypt", "java_method", "reflect", "try_reflect"),
        }
    ),
}
"""What to do instead, and the functions whose value depends on chance, the clock, the session, or on where Spark has
put a row."""

OF_THE_RUN = frozenset[str]().union(*OF_THE_RUN_BY_REMEDY.values())

LEVELS = frozenset({"grouping", "grouping_id"})
"""Functions that show which columns of ROLLUP, CUBE and GROUPING SETS a row has left out."""

TIME_WINDOWS = frozenset({"session_window", "window"})
"""Functions that give a row the intervals that contain its time."""

CALLABLE = ROW_FUNCTIONS | FORMS | AGGREGATES | LEVELS | WINDOW_FUNCTIONS | GENERATORS | TIME_WINDOWS
"""All functions that a view may call."""
