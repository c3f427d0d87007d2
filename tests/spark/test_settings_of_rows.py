"""Whatever a session of Spark may set, the same queries of the same rows give the same rows, or the setting is listed.

Every setting takes each other value that it may have, many settings at once. Where an answer differs, the setting that
causes it is found by bisection. Free texts, such as names of classes, are not tried.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import count, islice, zip_longest
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.server.settings import RULES
from lakehouse.spark.session import DECIDE_ROWS, FACTORY_MODE, FORMER_BEHAVIOUR, REQUIRED, ZONE, prepare

AT_ONCE = 64
TEXTS = [text.strip() for text in Path(__file__).with_name("settings_of_rows.sql").read_text().split(";\n")]
VIEWS = [text for text in TEXTS if "CREATE TEMPORARY VIEW" in text]
FUNCTIONS = "Python functions"
QUERIES = [FUNCTIONS, *(text for text in TEXTS if text and text not in VIEWS)]
REFUSED, FAILED = "refused", "failed"
WRONG = next(number for number, text in enumerate(QUERIES) if "-- Refused by Spark" in text)
CONDITION = re.compile(r"\[([A-Z0-9_.]+)\]")
WORDS = re.compile(r"It should be one of '(.*?)'")
OTHERWISE = {"spark.sql.datetime.java8API.enabled": "how a row of Java writes a time as text"}
"""Settings that change something other than rows in the answers, and what they change."""


class Session:
    """A session that answers queries under settings, which it resets after each answer."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        prepare(spark)
        self.spark: Any = spark.newSession()
        self.spark.conf.set(FACTORY_MODE, "NO_CODEGEN")  # a quarter of the time for literals
        self.own: dict[str, str] = self.spark.conf.getAll
        self.paths = (str(path / str(number)) for number in count())  # a table that no other setting has touched
        for view in VIEWS:
            self.spark.sql(view)
        self.usual = {query: self.answer(query, {}) for query in QUERIES}

    def frame(self, query: str) -> Any:
        if query == FUNCTIONS:
            functions = [F.udf(each, "string") for each in (lambda value: value, lambda value: type(value).__name__)]
            values = ("k", "d", "encode(s, 'UTF-8')", "array(k)", "struct(k)", "timestamp_seconds(k)")
            rows = self.spark.table("numbers")
            return rows.select(*(each(F.expr(value)) for each in functions for value in values))
        *before, last = query.replace("{path}", next(self.paths)).split("\nTHEN ")
        for statement in before:
            self.spark.sql(statement)
        return self.spark.sql(last)

    def answer(self, query: str, values: Mapping[str, str]) -> str:
        """The types and rows of a query's result, or the condition of its error."""
        try:
            for name, value in values.items():
                self.spark.conf.set(name, value)
            frame = self.frame(query)
            types = [kind for _, kind in frame.dtypes]
            return f"{types} {sorted(row.toString() for row in frame._jdf.collectAsList())}"
        except AnalysisException as error:
            return f"{REFUSED} {error.getCondition()}"
        except (PySparkException, Py4JJavaError) as error:
            return f"{FAILED} {CONDITION.findall(str(error))[:1]}"
        finally:
            for name in values:
                if name in self.own:
                    self.spark.conf.set(name, self.own[name])
                else:
                    self.spark.conf.unset(name)

    def differs(self, query: str, values: Mapping[str, str]) -> bool:
        return self.answer(query, values) != self.usual[query]

    def decisive(self, values: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
        """The settings that change an answer, each with its value, the first query that it changes, and the answer."""
        values = dict(values)
        for query in QUERIES:
            while values and self.differs(query, values):
                some = values
                while len(some) > 1:
                    half = dict(islice(some.items(), len(some) // 2))
                    some = half if self.differs(query, half) else dict(islice(some.items(), len(half), None))
                [(name, value)] = some.items()
                yield name, value, query, self.answer(query, some)
                del values[name]


def other_values(spark: Any, name: str, present: str) -> list[str]:
    """The other values of a setting that the library does not refuse; one for a number, none for a free text."""
    own = spark.newSession().conf
    try:
        own.set(name, "no such word")
    except (PySparkException, Py4JJavaError) as error:
        listed = WORDS.search(str(error))
        words = listed[1].split(", ") if listed else ["true", "false"] if "boolean" in str(error) else ["1"]
    else:
        return []
    others = [word for word in words if word.lower() != present.lower() and takes(own, name, word)]
    return [word for word in others if not any(rule.problem(name, word) for rule in RULES)]


def takes(conf: Any, name: str, value: str) -> bool:
    try:
        conf.set(name, value)
    except (PySparkException, Py4JJavaError):
        return False
    return True


def rows_may_differ(session: Session, name: str, value: str, query: str, answer: str) -> bool:
    """Whether a query gives other rows, or rows where it gives an error.

    A query that Spark refuses has no table, and an error ends its run. If the setting alone gives the usual answer,
    only several settings together changed it.
    """
    usual = session.usual[query]
    if not answer.startswith((REFUSED, FAILED)) and not usual.startswith(REFUSED):
        return answer != usual
    answered = [each for each in QUERIES if not session.usual[each].startswith(REFUSED)]
    answers = {each: session.answer(each, {name: value}) for each in answered}
    return any(
        given != session.usual[each] and not given.startswith((REFUSED, FAILED)) for each, given in answers.items()
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("classic")
def test_every_setting_that_decides_rows_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    session = Session(spark, tmp_path / "stored")
    answers = (session.usual[query] for query in QUERIES[:WRONG])
    assert [answer for answer in answers if answer.startswith((REFUSED, FAILED))] == []
    registry = getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$").__getattr__("MODULE$")
    entries = {entry.key(): entry.defaultValueString() for entry in registry.getConfigEntries().toArray()}
    known = DECIDE_ROWS.keys() | REQUIRED.keys() | OTHERWISE.keys() | {ZONE}
    settings = {name for name in entries.keys() - known if not name.startswith(FORMER_BEHAVIOUR)}
    tried = [
        [(name, value) for value in other_values(spark, name, session.own.get(name, entries[name]))]
        for name in sorted(settings)
        if spark.conf.isModifiable(name)
    ]
    found = dict[str, tuple[str, str, str]]()
    for each in zip_longest(*tried):  # the first other value of each, then the second
        values = [pair for pair in each if pair is not None]
        for start in range(0, len(values), AT_ONCE):
            for name, *shown in session.decisive(dict(values[start : start + AT_ONCE])):
                if rows_may_differ(session, name, *shown):
                    found[name] = shown
    assert found == {}
