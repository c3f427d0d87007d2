"""The words of a tick for people: not all of a thousand tables, or partitions."""

from collections.abc import Collection, Mapping, Sequence

import dagster as dg

_SHOWN = 10


def tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def names(keys: Collection[dg.AssetKey]) -> list[str]:
    return sorted(key.to_user_string() for key in keys)


def listed(keys: Collection[dg.AssetKey]) -> str:
    return some(names(keys))


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def waiting(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each reason, because many tables may have one."""
    by_reason = dict[str, list[dg.AssetKey]]()
    for key, why in sorted(reasons.items()):
        by_reason.setdefault(why, []).append(key)
    return [f"{listed(keys)} {'waits' if len(keys) == 1 else 'wait'}: {why}." for why, keys in by_reason.items()]


def left_out(reasons: Mapping[dg.AssetKey, str]) -> list[str]:
    """A sentence for each table that is left out, up to so many; a tick's text is for people."""
    sentences = [f"Left out: {key.to_user_string()} ({why.rstrip('.')})." for key, why in sorted(reasons.items())]
    return sentences[:_SHOWN] + ([f"And {len(sentences) - _SHOWN} more."] if len(sentences) > _SHOWN else [])
