"""Whatever form a source has and whatever is done to it, each table that follows it holds the rows of its query.

`LAKEHOUSE_BLOCKS` is how many blocks of fifty histories are drawn, beginning with the block `LAKEHOUSE_SEED`. A history
that fails is shrunk, and written to build/histories as a test.
"""

import os
import shutil
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from pyspark.sql import SparkSession

from tests.histories.forms import History, histories
from tests.histories.play import play

BLOCKS, FIRST = int(os.environ.get("LAKEHOUSE_BLOCKS", "1")), int(os.environ.get("LAKEHOUSE_SEED", "0"))
FOUND = Path("build/histories")
SCRIPT = """from tests.histories.forms import History
from tests.histories.play import play


def test_history_of_block_{block}(spark, tmp_path):
    play(spark, tmp_path, {history!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("block", range(FIRST, FIRST + BLOCKS))
def test_each_table_is_its_query_after_every_run(block: int, spark: SparkSession, tmp_path: Path) -> None:
    played, failed = Counter[str](), list[History]()

    @seed(block)
    @settings(
        max_examples=50,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(histories())
    def law(history: History) -> None:
        played["histories"] += 1
        root = tmp_path / uuid4().hex
        root.mkdir()
        try:
            played.update(play(spark, root, history))
        except Exception:
            failed.append(history)
            raise
        finally:
            shutil.rmtree(root)

    FOUND.mkdir(parents=True, exist_ok=True)
    try:
        law()
    except Exception:
        (FOUND / f"test_block_{block}.py").write_text(SCRIPT.format(block=block, history=failed[-1]))
        raise
    finally:
        told = "\n".join(f"{count:6} {what}" for what, count in sorted(played.items()))
        (FOUND / f"block_{block}.txt").write_text(told + "\n")
