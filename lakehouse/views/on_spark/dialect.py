"""The settings of a session under which Spark reads a text otherwise than the algebra of the text does."""

from pyspark.sql import SparkSession

from lakehouse.errors.views import ViewError

READ_AS = {
    "spark.sql.caseSensitive": ("false", "names that differ in the case of their letters would be two"),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false", "what stands in double quotes would be a name, and not a text"),
    "spark.sql.parser.quotedRegexColumnNames": ("false", "a name in backticks would be a pattern of names"),
    "spark.sql.legacy.setopsPrecedence.enabled": ("false", "INTERSECT would not go before UNION"),
    "spark.sql.legacy.ctePrecedencePolicy": ("corrected", "an outer WITH would win over an inner one of that name"),
    "spark.sql.legacy.bangEqualsNot": ("false", "! would be another word for NOT"),
    "spark.sql.groupByOrdinal": ("true", "a number after GROUP BY would be a constant, and not a column"),
    "spark.sql.groupByAliases": ("true", "an alias after GROUP BY would be no column"),
    "spark.sql.lateralColumnAlias.enableImplicitResolution": ("true", "an alias in SELECT would be no column there"),
}
"""The value under which a text is read, and what would be otherwise."""


def refuse_other_dialect(spark: SparkSession) -> None:
    """Refuses a session that reads a text otherwise: changes would be followed by columns that the text does not mean.

    Raises:
        ViewError (VIEW_SETTING): A setting has another value.
    """
    for name, value in spark.conf.getAll.items():
        wanted, otherwise = READ_AS.get(name, (value.lower(), ""))
        if value.lower() != wanted:
            what = f"The Spark session has {name}={value}, under which {otherwise}"
            raise ViewError(
                "VIEW_SETTING", what, None, f"Unset it, or set it to {wanted}; or write the asset in Python."
            )
