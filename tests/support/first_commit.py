"""Changes the first commit of a table by hand: it then declares what no statement of open-source Delta can declare."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Declared:
    """What a table declares.

    Args:
        features: The table features that readers and writers need; None leaves them unchanged.
        of_writers: The features that only writers need.
        properties: Further properties.
    """

    features: Sequence[str] | None = None
    of_writers: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


TIMED = {"delta.enableInCommitTimestamps": "true"}
CATALOG_COMMITS = {
    "catalogManaged": Declared(("catalogManaged", "vacuumProtocolCheck"), ("inCommitTimestamp",), TIMED),
    "coordinated commits": Declared(
        (),
        ("coordinatedCommits-preview", "inCommitTimestamp"),
        {
            "delta.coordinatedCommits.commitCoordinator-preview": "somebody",
            "delta.coordinatedCommits.commitCoordinatorConf-preview": "{}",
            **TIMED,
        },
    ),
}
"""Tables to which only a catalog, or another coordinator, may commit."""


def declare(table: Path, declared: Declared) -> None:
    """Changes what the table declares. The table must not have been read before, because Delta caches its log."""
    log = table / "_delta_log"
    first = log / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] |= declared.properties
        if "protocol" in action and declared.features is not None:
            both = [*declared.features]
            names = {"readerFeatures": both, "writerFeatures": [*both, *declared.of_writers, "changeDataFeed"]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **names}
        if "commitInfo" in action:
            action["commitInfo"]["inCommitTimestamp"] = action["commitInfo"]["timestamp"]
    actions.sort(key=lambda action: "commitInfo" not in action)  # first, if commits carry times
    first.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in [*log.glob("*.crc")]:
        checksum.unlink()
