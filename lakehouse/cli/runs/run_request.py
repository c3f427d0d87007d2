"""What `lakehouse run` asks of a run: which assets, which partition, and the run tags that its options stand for."""

from dataclasses import dataclass
from typing import get_args

from lakehouse.cli.command import UsageError
from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, Allowed

ALLOWED: tuple[Allowed, ...] = get_args(Allowed)
"""What `--allow` takes; the same words as the run tag takes."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run.

    Args:
        assets: The keys of its assets, their parts joined by "/".
        partition: The partition; None if the assets have none.
        full_refresh: Whether everything is computed, and the rows that differ are written.
        go_on_from: The version of the source after which an `Append` continues; `now` of a history.
        restate_from: The time, or the version of an extract, from which on a history is restated.
        allow: What is let through once: an extract, or a result that changes much of its table.
        checks: Whether the checks that read whole tables are made as well.

    Raises:
        UsageError: An option that is about one asset stands beside several.
    """

    assets: tuple[str, ...]
    partition: str | None = None
    full_refresh: bool = False
    go_on_from: str | None = None
    restate_from: str | None = None
    allow: tuple[str, ...] = ()
    checks: bool = False

    def __post_init__(self) -> None:
        of_one = {"--go-on-from": self.go_on_from, "--restate-from": self.restate_from, "--allow": self.allow}
        named = [option for option, value in of_one.items() if value]
        if named and len(self.assets) > 1:
            raise UsageError(f"{named[0]} is about one asset, and {len(self.assets)} are named. Run them one by one.")

    @property
    def tags(self) -> dict[str, str]:
        """The run tags."""
        from lakehouse.dagster.run_tags import CHECKS

        asset = self.assets[0]
        tags = {
            FULL_REFRESH: ",".join(self.assets) if self.full_refresh else None,
            GO_ON_FROM + asset: self.go_on_from,
            RESTATE_FROM + asset: self.restate_from,
            ALLOW + asset: ",".join(self.allow) or None,
            CHECKS: "true" if self.checks else None,
        }
        return {tag: value for tag, value in tags.items() if value is not None}
