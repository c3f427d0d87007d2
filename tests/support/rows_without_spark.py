"""Stand-ins for rows and keys, for tests without Spark in which nothing looks at them."""

from pyspark.sql import DataFrame

from lakehouse.read.touched import Touched

UNREAD_ROWS: DataFrame = object.__new__(DataFrame)
UNREAD_KEYS: Touched = object.__new__(Touched)
