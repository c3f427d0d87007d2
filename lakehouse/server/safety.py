"""Spark settings that are refused at start, because their effect shows up much later, as missing rows.

Pure: settings in, an error or nothing out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse.errors import SetupError

# Spark's own patterns know neither Azure's account keys and SAS tokens nor the user in a JDBC address.
SECRET_KEYS = r"(?i)secret|password|passwd|token|credential|(access|account|private|api)[._-]?key|(^|[._-])sas([._-]|$)"
SECRET_VALUES = (
    r"(?i)://[^/\s:@]+:[^/\s@]+@"
    r"|(secret|password|passwd|pwd|token|sig|accountkey|sharedaccesskey|sharedaccesssignature)=[^;&\s,)]+"
)
# These name a class or a file that provides the credential; they are not one.
_POINTERS = re.compile(r"(?i)(provider(\.path)?|providers|class|type|file|path|enabled|interval|expiration)$")
_DELTA = "spark.databricks.delta."


@dataclass(frozen=True, slots=True)
class Rule:
    """What one setting may be.

    Args:
        key: The setting; with a dot at its end, every setting below it.
        allowed: Its harmless values, in lower case; empty if it must not be set at all.
        because: What would happen otherwise.
    """

    key: str
    allowed: tuple[str, ...]
    because: str

    def problem(self, key: str, value: str) -> str | None:
        if not (key.startswith(self.key) if self.key.endswith(".") else key == self.key):
            return None
        if value.strip().lower() in self.allowed:
            return None
        remedy = f"Remove it, or set it to {' or '.join(self.allowed)}." if self.allowed else "Remove it."
        return f"{key} = {value} is refused: {self.because}. {remedy}"


_TRAVELS = "on a shared session every later write of any table carries it, and is skipped or taken for another's"
OF_THIS_MACHINE = (
    Rule(
        "spark.connect.grpc.binding.address",
        ("127.0.0.1",),
        "whoever reaches a server from elsewhere and has its token runs any code on this machine",
    ),
    Rule("spark.connect.grpc.binding.port", ("0",), "another program may have that port; a free one is taken anyway"),
)
"""What the server of local tables may not be set to. A cluster's server listens where its clients find it."""
RULES = (
    Rule("spark.sql.files.ignoreMissingFiles", ("false",), "a lost data file would read as rows that never were"),
    Rule("spark.sql.files.ignoreCorruptFiles", ("false",), "a damaged data file would read as rows that never were"),
    Rule(
        f"{_DELTA}retentionDurationCheck.enabled",
        ("true",),
        "VACUUM could then remove files that readers and the change feed still need",
    ),
    Rule(
        f"{_DELTA}vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        ("true",),
        "a version whose files may be vacuumed at any time could then be read",
    ),
    Rule(
        f"{_DELTA}merge.materializeSource",
        ("auto", "all"),
        "MERGE reads its source twice, and a source that answers differently the second time loses rows",
    ),
    Rule(
        f"{_DELTA}changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled",
        ("false",),
        "changes from before a renamed or dropped column would be read with the wrong columns",
    ),
    Rule(
        "spark.sql.parser.escapedStringLiterals",
        ("false",),
        "a key with a quote or a backslash would be looked for under another name, and its changes lost",
    ),
    Rule(f"{_DELTA}stalenessLimit", ("0", "0s", "0ms"), "a run could read an old version of a table as its newest"),
    Rule(
        f"{_DELTA}properties.defaults.setTransactionRetentionDuration",
        (),
        "new tables would forget which runs they hold, and apply their changes twice",
    ),
    Rule(f"{_DELTA}write.", (), _TRAVELS),
    Rule(f"{_DELTA}commitInfo.userMetadata", (), _TRAVELS),
)


def refuse_unsafe(settings: Mapping[str, str], rules: Sequence[Rule] = RULES) -> None:
    """Refuses settings that could lose rows unnoticed.

    Args:
        settings: The settings.
        rules: What they may be; `RULES + OF_THIS_MACHINE` for the server of local tables.

    Raises:
        SetupError (UNSAFE_SETTING): With one sentence for each setting that is not.
    """
    problems = [
        problem
        for key, value in settings.items()
        for rule in rules
        if (problem := rule.problem(key, value)) is not None
    ]
    if problems:
        raise SetupError.unsafe_setting(problems)


def refuse_secrets(settings: Mapping[str, str]) -> None:
    """Refuses secrets among settings that Dagster stores with every run and shows in its pages.

    Raises:
        SetupError (UNSAFE_SETTING): With one sentence, without the value, for each secret.
    """
    problems = [
        f"{key} looks like a secret, and settings given here are stored with every run and shown in Dagster. "
        f"Keep it in the cluster's own defaults, a Hadoop credential provider or an instance role."
        for key, value in settings.items()
        if (re.search(SECRET_KEYS, key) and not _POINTERS.search(key)) or re.search(SECRET_VALUES, value)
    ]
    if problems:
        raise SetupError.unsafe_setting(problems)
