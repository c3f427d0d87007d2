"""One Spark session for the whole run, one lakehouse directory for each test, and tables to copy that are made once.

LAKEHOUSE_TEST_SPARK sets where that session's JVM is: `process` (default; classic Spark) or `server` (Spark Connect).
LAKEHOUSE_WALLS names what a gateway in front of that server refuses (`global views,settings,clones,caches,jvm`).
LAKEHOUSE_EXAMPLES sets how long the tests without Spark look for a counterexample (400: a hundred times as long).
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress

os.environ["LAKEHOUSE_SPARK"] = os.environ.get("LAKEHOUSE_TEST_SPARK") or "process"  # before assets are imported

from pathlib import Path

import dagster as dg
import pyspark
import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.errors import SetupError
from lakehouse.server.lifecycle import stop
from lakehouse.server.settings import local_settings
from lakehouse.server.versions import minor
from lakehouse.spark.session import FACTORY_MODE
from tests.support.commits import History
from tests.support.dagster_house import House
from tests.support.governed import Wall, governed
from tests.support.lake import Lake
from tests.support.log_work import count_log_work
from tests.support.ready_runs import KEYED, SRC, copy
from tests.support.tables import ASSETS, DAY_1, DAY_2, EVENTS

JAVA = "spark.driver.extraJavaOptions"
JVM_OF_TESTS = (
    "-XX:+UseSerialGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
EXAMPLES = 10 * int(os.environ.get("LAKEHOUSE_EXAMPLES", "4"))
settings.register_profile(
    "unit", max_examples=EXAMPLES, deadline=None, derandomize="LAKEHOUSE_EXAMPLES" not in os.environ
)
settings.load_profile("unit")


def pytest_configure(config: pytest.Config) -> None:
    if minor(pyspark.__version__) in ("4.0", "4.1"):  # they leave the sockets of collected rows to Python
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test on Spark is `deep` unless it is `core`; tests on Spark come first, so that short ones are at the end."""
    items.sort(key=lambda item: not _is_on_spark(item))
    for item in items:
        if _is_on_spark(item) and not item.get_closest_marker("core"):
            item.add_marker("deep")


def _is_on_spark(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "local_spark" in item.fixturenames


@pytest.fixture(scope="session")
def more_settings() -> dict[str, str]:
    """Further Spark settings that the tests of a folder need, such as another catalog."""
    return {}


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory, more_settings: dict[str, str]) -> Iterator[LocalSpark]:
    """Spark as the local environment has it, in a JVM for tests: two such JVMs run at once, for ten minutes.

    The garbage collector has one thread. The second compiler, which took a quarter of the CPU, waits ten times as long:
    the tests of `write` and `scd` took 266 s instead of 297. A heap that begins as large as it may become takes 5 % less
    time, because the collector runs less often.
    """
    where, root = Where(os.environ["LAKEHOUSE_SPARK"]), tmp_path_factory.getbasetemp()
    if where is Where.SERVER and "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # one server for all workers, so that only one JVM has to warm up
    settings = local_settings(root) | more_settings  # above the roots of all tests, so that its JVM may write to each
    heap = f"-Xms{settings['spark.driver.memory']}"
    settings[JAVA] = f"{settings.get(JAVA, '')} {heap} {JVM_OF_TESTS}".strip()
    if where is Where.SERVER:
        # Compiled, as it is where there are many rows; in this process queries over few rows are interpreted.
        settings[FACTORY_MODE] = "FALLBACK"
    walls = [Wall(name) for name in os.environ.get("LAKEHOUSE_WALLS", "").split(",") if name]
    with governed(walls) if walls else nullcontext():
        yield LocalSpark(spark_config=settings, root=str(root), where=where, idle=60)  # in case this process is killed
    if where is Where.SERVER:
        from lakehouse.server.connect import leave_all

        leave_all()
        with suppress(SetupError):  # another worker uses the server, and ends it when that worker is done
            stop(root)


@pytest.fixture
def classic(spark: SparkSession) -> None:
    """For tests that hold a Delta transaction open, which takes the JVM in this process."""
    if not hasattr(spark, "sparkContext"):
        pytest.skip("a transaction is held where the test has its JVM at hand")


@pytest.fixture(scope="session")
def spark(local_spark: LocalSpark) -> SparkSession:
    return local_spark.spark_session


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    root = tmp_path / "lake"
    root.mkdir()
    return Lake(spark, root)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def house(lake: Lake, instance: dg.DagsterInstance) -> House:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    return House(lake, ASSETS, instance)


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A copy of a source in two files, and a source that has moved on: row 1 was updated and row 2 deleted."""
    made = Lake(spark, tmp_path_factory.mktemp("made"))
    made.create("src", [(1, "a", 10), (2, "b", 20), (3, "a", 30)], SRC)
    made.materialize(copy, KEYED)
    made.insert("src", [(4, "c", 40)])
    made.materialize(copy, KEYED)
    made.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    made.sql("DELETE FROM {src} WHERE id = 2")
    return made


@pytest.fixture
def moved_lake(made: Lake, lake: Lake) -> Lake:
    shutil.copytree(made.root, lake.root, dirs_exist_ok=True)
    return lake


@pytest.fixture(params=[True, False], ids=["epochs known", "epochs unknown"])
def history(request: pytest.FixtureRequest) -> History:
    return History(knows_epochs=request.param)


@pytest.fixture(scope="session")
def forms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table of each form in tests/upstream/acts.py, made when it is first requested."""
    return Lake(spark, tmp_path_factory.mktemp("forms"))


@pytest.fixture
def log_work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many tables are opened, and how many files of logs are read."""
    return count_log_work(monkeypatch)
