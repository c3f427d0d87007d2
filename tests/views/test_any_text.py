"""Whatever a user writes as a query gets a verdict or a refusal with a code; no error of the parser reaches users."""

import os
from collections import Counter
from random import Random

from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import Analysis, ByKeys, TableFacts, Whole
from lakehouse.views.query import names_in
from lakehouse.views.sql.tokens import tokens
from lakehouse.views.view_text import ViewText
from tests.support.random_queries import SCHEMAS, RandomQueries
from tests.views import queries, tpcds, tpch

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "3"))
ODD = (
    *(
        "|>",
        "(",
        ")",
        ",",
        ";",
        "'",
        "`",
        '"',
        "$",
        "::",
        "->",
        "=>",
        "?",
        ":x",
        "<=>",
        "@",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "--",
        "/*",
    ),
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "ALL",
        "LATERAL",
        "PIVOT",
        "WITH",
        "AS",
        "OVER (",
        "ORDER BY",
        "LIMIT",
        "UNION",
        "IN",
    ),
    *(
        "CASE",
        "END",
        "INTERVAL",
        "EXISTS (",
        "VALUES",
        "TABLE",
        "window(x, '1 hour')",
        "1e",
        "0x",
        "x'",
        "é",
        "\x00",
        "*",
        "NULL",
        ".",
    ),
)
SOURCES = [
    *((text, tpcds.SCHEMAS) for text in tpcds.QUERIES.values()),
    *((text, tpch.SCHEMAS) for text in tpch.QUERIES.values()),
    *((text, queries.TABLES) for text in queries.QUERIES.values()),
    *((RandomQueries(Random(seed)).query(2), SCHEMAS) for seed in range(40)),
]


def damaged(random: Random, text: str) -> str:
    """A text that is cut off, or in which words are missing, repeated, swapped or new."""
    places = [token.start for token in tokens(text)]
    one, other = sorted(random.choices(places, k=2))
    match random.randrange(5):
        case 0:
            return text[:one]
        case 1:
            return text[:one] + text[other:]
        case 2:
            return text[:other] + text[one:]
        case 3:
            return f"{text[:one]} {random.choice(ODD)} {text[one:]}"
        case _:
            return f"{text[:one]} {random.choice(ODD)} {text[other:]}"


def test_a_damaged_query_has_a_verdict_or_a_code() -> None:
    random, outcomes = Random(os.environ.get("LAKEHOUSE_SEED", "0")), Counter[str]()
    for text, schemas in SOURCES * EXAMPLES:
        wrong = damaged(random, text)
        try:
            analysis = Analysis.of(ViewText(wrong), schemas, TableFacts(names_in(wrong)))
            verdict = analysis.verdict
            assert isinstance(verdict, ByKeys | Whole)
            assert str(verdict)
            outcomes[type(verdict).__name__] += 1
        except ViewError as error:
            outcomes[error.code] += 1
        except Exception as error:
            error.add_note(wrong)
            raise
    assert min(outcomes[each] for each in ("ByKeys", "Whole", "VIEW_SYNTAX")) > 0, outcomes
