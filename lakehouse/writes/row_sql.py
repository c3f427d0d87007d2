"""Whether SQL goes by the columns of one row alone: what it calls is on a list, so a new function is refused."""

import re

_TOKEN = re.compile(
    r"`(?:[^`]|``)*`|\"(?:[^\"\\]|\\.)*\"|(?P<text>\br'[^']*'|'(?:[^'\\]|\\.)*')|"
    r"(?P<comment>--[^\n]*|/\*.*?\*/)",
    re.IGNORECASE | re.DOTALL,
)
"""Quoted names, what may be one, texts, and comments, as Spark's parser tells them apart."""
_OF_THE_RUN = re.compile(r"['\"]\s*(?:now|today|tomorrow|yesterday)\b|\$\{", re.IGNORECASE)
"""Texts that Spark takes for the day of the run, and those that it takes from the session."""
_NOT_OF_THE_ROW = re.compile(
    r"(?:^|[(,])\s*\*|(?:[a-z_]\w*|`)\s*\.\s*\*|\bselect\b|\(\s*(?:table|from|values)\b|"
    r"(?<![.`\w])(?:localtimestamp|(?:session_|system_|current_)?user|current_(?:date|time|timestamp))\b|"
    r"\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
"""Stars, which name columns that are not there yet, other tables, and functions that are called without brackets."""
_CALL = re.compile(r"(?P<quoted>[`\"])\s*\(|(?P<part>\.\s*)?\b(?P<name>[a-z_]\w*)\s*\(", re.IGNORECASE)

WORDS = frozenset(
    {
        *("and", "or", "not", "in", "is", "like", "ilike", "rlike", "regexp", "between", "case", "when", "then"),
        *("else", "end", "as", "distinct", "from", "on", "div", "escape", "any", "some", "all", "exists", "decimal"),
        *("dec", "numeric", "char", "varchar", "character", "array", "map", "struct", "interval", "cast", "try_cast"),
        *("if",),
    }
)
"""What may stand before a bracket without being a function, and forms that the parser treats as functions."""
FUNCTIONS = frozenset(
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
"""Functions of Spark whose value follows from their arguments alone, and from the session's time zone."""


def names_in(sql: str) -> str:
    """The SQL without its texts."""
    return _TOKEN.sub(lambda token: "''" if token["text"] else token[0], sql)


def why_not_of_the_row(sql: str) -> str | None:
    """Why SQL may go by more than the columns of one row, as a sentence; None if it does not."""
    if any(token["comment"] for token in _TOKEN.finditer(sql)):
        return f"An Aggregate's SQL is put into other SQL, so it has no comments: {sql!r}."
    names = names_in(sql)
    match = _OF_THE_RUN.search(sql) or _NOT_OF_THE_ROW.search(names)
    if match is not None:
        return f"An Aggregate goes by the columns of one row; {sql!r} says {match[0].strip()!r}."
    unknown = next((call for call in _CALL.finditer(names) if not _is_known(call)), None)
    if unknown is None:
        return None
    return (
        f"An Aggregate goes by the columns of one row; {sql!r} calls {unknown[0].rstrip('( ')!r}, of which that is not "
        f"known. Compute the column in an asset of its own and sum that, or return a Merge."
    )


def _is_known(call: re.Match[str]) -> bool:
    if call["quoted"] is not None or call["part"] is not None:
        return False  # a function by a quoted or a qualified name is somebody's own
    return call["name"].lower() in FUNCTIONS | WORDS
