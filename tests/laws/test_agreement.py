"""After each commit, a table whose inputs agree holds what its query gives at the cut that the commit stands for."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.agreeing_lake import AgreeingLake
from tests.support.lake import Lake
from tests.support.slow import slow


@contextmanager
def told(story: list[str]) -> Iterator[None]:
    """Adds the story of what was done to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note("\n".join(story))
        raise


SEED = int(os.environ.get("LAKEHOUSE_SEED", "0"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [SEED, *(slow(SEED + more) for more in range(1, 6))])
def test_each_commit_is_the_query_over_one_state_of_the_sources_and_all_reach_their_heads(
    lake: Lake, seed: int
) -> None:
    chance = random.Random(seed)
    graph = AgreeingLake(lake, chance)
    story = [f"{graph.inputs} {graph.kinds}"]
    with told(story):
        story.extend(graph.run(table) for table in graph.inputs)
        for _ in range(30):
            table = chance.choice([*graph.inputs])
            match chance.choice(["edit", "run", "run", "run", "act", "refresh"]):
                case "edit":
                    story.append(graph.edit())
                case "act" if lake.exists(table):
                    story.append(graph.act_on(table))
                case "refresh" if graph.kinds[table] not in ("history", "append"):
                    story.append(graph.run(table, compare="a user asks for it"))
                case _:
                    story.append(graph.run(table))
        for _ in range(len(graph.inputs)):
            story.extend(graph.run(table) for table in graph.inputs)
        assert [table for table in graph.inputs if not graph.is_at_the_heads(table)] == []
