"""The page of the public names of `lakehouse`, whose text is in the docstrings."""

import json
from collections.abc import Collection

GROUPS = {
    "What an asset declares": ("Table", "Expect", "Policy", "Read", "Retry"),
    "What an asset reads": ("Changes", "Touched", "VersionRange", "touched_by"),
    "What an asset returns": ("View", "Merge", "Overwrite", "Append", "Aggregate", "Snapshot", "History"),
    "Slowly changing dimensions": ("scd.type1", "scd.type2", "scd.as_of", "scd.Events"),
    "Definitions": ("incremental", "validate", "checks", "Nightly", "explain", "cut", "views_from"),
    "What starts runs": ("automation", "change_sensor"),
    "Resources": ("DeltaIOManager", "LocalSpark", "ClusterSpark", "spark_settings"),
    "Errors": ("LakehouseError",),
}
MEMBERS = {
    "Changes": ("range", "is_initial", "is_empty", "source", "touched", "feed", "appended", "net", "log"),
    "Touched": ("keys", "rows", "of", "via"),
    "View": ("of", "check"),
}
"""Of the classes with methods that a user calls."""


def page_of_names(public: Collection[str]) -> str:
    """The Markdown of the page: a heading for each name, and below it what mkdocstrings makes of its docstring.

    Raises:
        ValueError: A public name is in no group, or a group has a name that is not public.
    """
    grouped = {name.split(".")[0] for names in GROUPS.values() for name in names}
    if grouped != set(public):
        raise ValueError(f"the groups and the public names of lakehouse differ: {sorted(grouped ^ set(public))}")
    parts = ["# Public names", "Each name is imported from `lakehouse`; those of `scd` from `lakehouse.scd`."]
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}")
        parts += (_directive(name, MEMBERS.get(name, ())) for name in names)
    return "\n\n".join(parts) + "\n"


def _directive(name: str, members: Collection[str]) -> str:
    """What mkdocstrings replaces with the heading, the signature and the docstring of a name."""
    options = {"heading": name, "toc_label": name, "members": list(members)}
    lines = (f"      {option}: {json.dumps(value)}" for option, value in options.items())
    return f"::: lakehouse.{name}\n    options:\n" + "\n".join(lines)
