"""One check of one table, made: which checks there are, within which limits, and how Dagster shows a finding."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, TypeAlias, cast, get_args

import dagster as dg

from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.comparison import compare
from lakehouse.dagster.definitions.findings import Finding, Grade
from lakehouse.dagster.definitions.past_checks import CHECK, LEFT_OUT, NEVER, MadeCheck
from lakehouse.dagster.definitions.recompute import Sample
from lakehouse.errors import DefinitionError, UnreadableLogError

CheckName: TypeAlias = Literal["recompute", "lag", "staleness", "schema", "keys", "feed", "archive"]
NAMES: tuple[CheckName, ...] = get_args(CheckName)
EXPENSIVE = frozenset({"recompute", "keys", "archive"})
"""Checks that read the whole table: a run that materializes the asset leaves them to a run of their own."""
MAX_LAG, MARGIN = timedelta(days=1), timedelta(days=2)
_LIMITS = "limits"
"""Metadata of a check's definition: its limits."""


def id_of(name: CheckName) -> str:
    """The name of a check in Dagster."""
    return CHECK if name == "recompute" else name


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """What decides how a check ends, or what it costs; see `checks`.

    Raises:
        DefinitionError: A limit is not positive, or a share is above one.
    """

    sample: Sample = None
    max_lag: timedelta = MAX_LAG
    margin: timedelta = MARGIN

    def __post_init__(self) -> None:
        if (self.sample or 1) <= 0 or self.sample == 0 or min(self.max_lag, self.margin) <= timedelta():
            raise DefinitionError("sample, max_lag and margin of checks(...) are positive. Correct them.")
        if isinstance(self.sample, float) and self.sample > 1:
            raise DefinitionError(
                f"sample={self.sample} of checks(...) is a share, so at most 1.0. A number of keys is an int."
            )

    @property
    def metadata(self) -> dict[str, Any]:
        """The limits, for the definition of a check."""
        seconds = {"max_lag": self.max_lag.total_seconds(), "margin": self.margin.total_seconds()}
        return {_LIMITS: dg.MetadataValue.json({"sample": self.sample, **seconds})}

    @classmethod
    def of(cls, spec: dg.AssetCheckSpec) -> Self | None:
        """The limits of a check; None if the check is not one of the library's."""
        value = spec.metadata.get(_LIMITS)
        if not isinstance(value, dg.JsonMetadataValue):
            return None
        limits = cast("Mapping[str, Any]", value.data)
        return cls(limits["sample"], timedelta(seconds=limits["max_lag"]), timedelta(seconds=limits["margin"]))


@dataclass(frozen=True)
class CheckedTable:
    """A table of the definitions, of which checks can be made.

    Args:
        table: The table.
        code_location: The code location with the tables that it reads.
        resources: The IO manager of the table, and of each table that it reads, by the names of the resources.
    """

    table: AssetTable
    code_location: CodeLocation
    resources: Mapping[dg.AssetKey, str]

    @property
    def key(self) -> dg.AssetKey:
        return self.table.key

    def checked(self, resources: Any, instance: dg.DagsterInstance) -> Checked:
        """The table as it stands now."""
        managers = {table: getattr(resources, name) for table, name in self.resources.items()}
        return Checked.of(self.table, self.code_location, managers, instance)


def finding_of(name: CheckName, checked: Checked, limits: CheckLimits) -> Finding:
    """What a check finds."""
    try:
        match name:
            case "recompute":
                return compare(checked, limits.sample)
            case "lag":
                return checked.lag(limits.max_lag)
            case "staleness":
                return checked.staleness(limits.margin)
            case "schema":
                return checked.schema()
            case "keys":
                return checked.keys()
            case "feed":
                return checked.feed()
            case "archive":
                return checked.archive()
    except UnreadableLogError as error:
        return Finding(Grade.FAILED, str(error))


def shown(finding: Finding) -> dict[str, Any]:
    """The finding as Dagster shows one: arguments of an `AssetCheckResult` and of an `AssetCheckEvaluation`."""
    metadata: dict[str, Any] = dict(finding.figures)
    if finding.records:
        metadata["details"] = dg.MetadataValue.table([dg.TableRecord(dict(record)) for record in finding.records])
    return {
        "passed": finding.grade is Grade.PASSED,
        "severity": dg.AssetCheckSeverity.WARN if finding.grade is Grade.WARNS else dg.AssetCheckSeverity.ERROR,
        "description": finding.sentence,
        "metadata": metadata,
    }


def left_out(name: CheckName, table: str, last: MadeCheck | None) -> dict[str, Any] | None:
    """What a run says of a check that it leaves out, as `shown` says a finding; None if the check passed when made.

    Dagster would show it as skipped, as if all were well: a check that was never made, and one that failed, are told.

    Args:
        name: The check.
        table: The name of the table.
        last: The last time that the check was made; None if it never was.
    """
    if last is None:
        sentence = (
            f"'{table}' was never {'compared with a recompute' if name == 'recompute' else f'checked ({name})'}. Run "
            f'this check, or let a schedule do that: incremental(definitions, nightly_checks="0 3 * * *").'
        )
        return shown(Finding(Grade.WARNS, sentence, {LEFT_OUT: NEVER}))
    evaluation = last.evaluation
    if evaluation.passed:
        return None
    at = datetime.fromtimestamp(last.at, UTC).isoformat(timespec="seconds")
    is_repeated = LEFT_OUT in evaluation.metadata
    return {
        "passed": False,
        "severity": evaluation.severity,
        "description": evaluation.description
        if is_repeated
        else f"Not checked in this run. {at}: {evaluation.description}",
        "metadata": {**evaluation.metadata, LEFT_OUT: dg.MetadataValue.timestamp(last.at)},
    }
