"""What a run's tags, and its earlier tries, say about one of its assets."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Literal

import dagster as dg

from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, THAW, Allowed, ReadError, WriteError
from lakehouse.read.asset import Asset, PastRows, UserRequest
from lakehouse.read.run import Run

GAP = "lakehouse/gap/"
"""Run tag, with the asset key after it: the run that cannot read the asset's feeds, and why. That run sets it."""
COMPARE = "lakehouse/compare/"
"""Run tag, with the asset key after it: the run that has to compare everything, and why. That run sets it."""
CHECKS = "lakehouse/checks"
"""Run tag: with "true", a run that materializes an asset makes its expensive checks as well."""
SENSOR, UNREAD, DRIVER = "lakehouse/change_sensor", "lakehouse/unread", "lakehouse/driver"
"""Run tags that the library sets: the sensor that asked for the run, the tables that had unread changes then, and the
Spark application that writes the tables of the run."""
NIGHT, NIGHTS_OF = "lakehouse/night", "lakehouse/nightly_checks"
"""Run tags of the nightly checks: when the night began, as the schedule says; a digest of the checks."""
UPKEEP_OF, KEEPING = "lakehouse/upkeep", "lakehouse/keeping"
"""Run tags of the upkeep: a digest of the tables of its code location; the table that it works on now."""
_PREFIX = "lakehouse/"
_OF_A_RUN, _OF_AN_ASSET = (FULL_REFRESH, CHECKS), (GO_ON_FROM, ALLOW, RESTATE_FROM, THAW)
_SET_BY_US = (SENSOR, UNREAD, DRIVER, NIGHT, NIGHTS_OF, UPKEEP_OF, KEEPING)
_TRUTHS = ("", "1", "y", "yes", "on", "all", "0", "n", "no", "off", "none")
"""Words that may be mistaken for `true` or `false`."""
_MISSPELT = 0.9
"""The similarity of two keys, at most 1, from which on one is most likely the other one misspelt."""


def tags_of(execution: dg.AssetExecutionContext) -> Mapping[str, str]:
    """The run's tags as stored now, because a run may tag itself."""
    stored = execution.instance.get_run_by_id(execution.run.run_id)
    return stored.tags if stored is not None else execution.run.tags


def refuse_unknown(tags: Mapping[str, str], assets: Collection[str]) -> list[str]:
    """Refuses a run tag of the library's prefix that has no meaning, so that a misspelt tag is not ignored.

    A tag may name assets of another code location, because Dagster gives the tags of a backfill to each of its runs;
    but a name that is the last part of a key of this code location is refused.

    Returns:
        A sentence about each name that is not an asset of the code location.

    Raises:
        ReadError: A tag has an unknown name or value, or nearly names an asset of the code location.
    """
    sentences: list[str] = []
    for tag, value in tags.items():
        if tag == CHECKS and value.lower() not in ("true", "false"):
            raise ReadError(f"The run tag {CHECKS}={value} says neither true nor false.", f"Give it as {CHECKS}=true.")
        prefix = next((each for each in (*_OF_AN_ASSET, GAP, COMPARE) if tag.startswith(each)), None)
        if prefix is not None:
            sentences += _strangers(tag, [tag.removeprefix(prefix)], assets)
        elif tag == FULL_REFRESH:
            sentences += _strangers(f"{tag}={value}", _names_in(value), assets)
        elif tag.startswith(_PREFIX) and tag not in (CHECKS, *_SET_BY_US):
            meant = ", ".join((*_OF_A_RUN, *(f"{each}<asset key>" for each in _OF_AN_ASSET)))
            raise ReadError(f"There is no run tag {tag}.", f"Nothing was written. There are: {meant}.")
    return sentences


def _names_in(value: str) -> list[str]:
    """The assets that a full refresh names; empty if it is for all assets, or for none."""
    if value.lower() in _TRUTHS:
        raise ReadError(
            f"The run tag {FULL_REFRESH}={value} says neither true nor the keys of assets.",
            f"Nothing was written. Give it as {FULL_REFRESH}=true, or with asset keys separated by commas.",
        )
    return [] if value.lower() in ("true", "false") else _items_of(value)


def _items_of(value: str) -> list[str]:
    return [name.strip() for name in value.split(",")]


def _strangers(tag: str, names: Iterable[str], assets: Collection[str]) -> Iterator[str]:
    for name in names:
        if name in assets:
            continue
        shortened = [asset for asset in sorted(assets) if asset.endswith(f"/{name}")]
        close = shortened or get_close_matches(name, assets, n=1, cutoff=_MISSPELT)
        if close:
            raise ReadError(
                f"The run tag {tag} names '{name}', and there is no asset of that key in this code location.",
                f"Nothing was written. Did you mean {' or '.join(close)}?",
            )
        yield f"The run tag {tag} names '{name}', which is not an asset of this code location. It has no effect here."


def request_by(tags: Mapping[str, str], asset: Asset) -> UserRequest:
    """What the run's tags ask about an asset.

    Raises:
        ReadError, WriteError: A tag names something that cannot be asked of the asset.
    """
    return UserRequest(
        compare=_full_refresh(tags, asset.name),
        go_on_from=_go_on_from(tags, asset),
        allowed=_allowances(tags, asset),
        restate_from=_ask(tags, RESTATE_FROM, asset, "that keeps no history", fits=asset.past is PastRows.KEPT),
        thaw=_ask(tags, THAW, asset, "whose table owns all of its rows", fits=asset.table.owns is not None),
    )


def _full_refresh(tags: Mapping[str, str], asset: str) -> str | None:
    """Why the run has to compare everything, if its tag asks this asset for that; else None."""
    wanted = tags.get(FULL_REFRESH, "")
    named = wanted.lower() == "true" or asset in _items_of(wanted)
    return "a full refresh was asked for" if named else None


def _go_on_from(tags: Mapping[str, str], asset: Asset) -> int | Literal["now"] | None:
    """The version of the source from which a run tag asks to continue."""
    wanted = tags.get(GO_ON_FROM + asset.name)
    if wanted is None:
        return None
    if asset.past is PastRows.KEPT and asset.incremental:
        if wanted != "now":
            raise ReadError(
                f"The run tag {GO_ON_FROM}{asset.name}={wanted} is about a History, which can go on from now only.",
                "Nothing was written. To compute the history again from a time on, use the run tag "
                f"{RESTATE_FROM}{asset.name}=<a time>.",
            )
        return "now"
    if asset.past is not PastRows.APPENDED or not asset.incremental:
        raise ReadError(
            f"The run tag {GO_ON_FROM}{asset.name} is about an asset that is not an Append of Changes.",
            f"Nothing was written. The run tag {FULL_REFRESH}=true compares everything instead.",
        )
    if wanted == "now":
        return "now"
    if not wanted.isdecimal():
        raise ReadError(
            f"The run tag {GO_ON_FROM}{asset.name}={wanted} names no version of the source.",
            "Nothing was written. Give a version, whose rows are the last ones that the table has, or now.",
        )
    return int(wanted)


def _allowances(tags: Mapping[str, str], asset: Asset) -> frozenset[Allowed]:
    """What the run's tag allows although the asset would hold it back."""
    wanted = tags.get(ALLOW + asset.name)
    if wanted is None:
        return frozenset()
    takes_extracts = not asset.incremental and asset.past in (PastRows.DELIVERED, PastRows.KEPT)
    of_extracts: tuple[Allowed, ...] = ("max_deleted", "version") if takes_extracts else ()
    of_changes: tuple[Allowed, ...] = () if asset.policy.max_changed is None else ("max_changed",)
    held_back = (*of_extracts, *of_changes)
    if not held_back:
        raise WriteError(
            f"The run tag {ALLOW}{asset.name} is about an asset that takes no extracts, and whose policy has no "
            f"max_changed.",
            "Nothing was written. Remove the tag.",
        )
    words = _items_of(wanted)
    allowed = frozenset[Allowed](word for word in held_back if word in words)
    if len(allowed) < len(set(words)):
        raise WriteError(
            f"The run tag {ALLOW}{asset.name}={wanted} names something that cannot be allowed.",
            f"Nothing was written. It names one or several of: {', '.join(held_back)}.",
        )
    return allowed


def _ask(tags: Mapping[str, str], tag: str, asset: Asset, unfit: str, *, fits: bool) -> str | None:
    """The value of a tag that asks something of an asset; None if the run has no such tag."""
    wanted = tags.get(tag + asset.name)
    if wanted is not None and not fits:
        raise WriteError(
            f"The run tag {tag}{asset.name} is about an asset {unfit}.", "Nothing was written. Remove the tag."
        )
    return wanted


def without_effect(run: Run) -> str | None:
    """A sentence if a tag of the run was not needed; None if there is no such tag, or it had an effect."""
    wanted = run.request.go_on_from
    if wanted is None or run.continued_from is not None:
        return None
    return f"The run tag {GO_ON_FROM}{run.name}={wanted} had no effect: nothing kept '{run.name}' from reading on."


def found_by_earlier_try(tags: Mapping[str, str], tag: str, run_id: str) -> str | None:
    """The reason that an earlier try of this run put into a tag. A re-executed run inherits the tag, but ignores it."""
    repeated, _, reason = tags.get(tag, "").partition(" ")
    return reason if repeated == run_id else None


def unacknowledged_runs(execution: dg.AssetExecutionContext) -> frozenset[str]:
    """The runs that this try repeats, up to one whose materialization Dagster knows. Their commits count as its own."""
    runs: set[str] = {execution.run.run_id} if execution.retry_number else set()
    parent = execution.run.parent_run_id
    while parent is not None and parent not in runs and not _is_acknowledged(execution, parent):
        runs.add(parent)
        repeated = execution.instance.get_run_by_id(parent)
        parent = None if repeated is None else repeated.parent_run_id
    return frozenset(runs)


def _is_acknowledged(execution: dg.AssetExecutionContext, repeated: str) -> bool:
    events = execution.instance.all_logs(repeated, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    return any(entry.get_dagster_event().asset_key == execution.asset_key for entry in events)
