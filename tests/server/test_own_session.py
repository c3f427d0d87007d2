"""A local root that the user's own session writes: only one JVM may write it, however the session was started."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse import Append, DeltaIOManager
from lakehouse.server.in_process import _locks_here, guard
from lakehouse.server.rendezvous import Rendezvous
from tests.support.raises import raises_code

# Takes Java's lock as another JVM would: between processes Java's and Python's locks are of one kind.
HOLDER = (
    "import fcntl, sys; f = open(sys.argv[1], 'wb'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); input()"
)


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root that is not below the root whose lock the Spark of this process holds."""
    root = tmp_path_factory.getbasetemp().with_name(f"own-{os.getpid()}-{os.urandom(4).hex()}")
    yield root
    _locks_here.pop(root, None)


@pytest.mark.skipif(os.environ["LAKEHOUSE_SPARK"] == "server", reason="of a classic session's JVM")
class TestOfAClassicSession:
    def test_its_jvm_takes_the_lock_and_every_other_process_is_refused(self, spark: SparkSession, root: Path):
        guard(spark, root)
        guard(spark, root)
        lock = Rendezvous(root).jvm()
        assert lock.is_held()
        assert lock.holder() == f"process {os.getpid()}"
        code = (
            "import sys; from pathlib import Path; from lakehouse.server.rendezvous import Rendezvous; "
            "lock = Rendezvous(Path(sys.argv[1])).jvm(); print(lock.is_held(), lock.take())"
        )
        other = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True)
        assert other.stdout.split() == ["True", "False"]

    def test_a_root_that_a_server_has_is_refused(self, spark: SparkSession, root: Path):
        lock = Rendezvous(root).jvm()
        assert lock.take()
        lock.sign("its server")
        for place in (root, root / "below"):
            with raises_code("SERVER", match="its server has the root, and only one JVM may write to it"):
                guard(spark, place)
        lock.let_go()
        guard(spark, root)

    def test_a_root_that_another_session_s_jvm_has_is_refused_until_that_jvm_ends(
        self, spark: SparkSession, root: Path
    ):
        path = Rendezvous(root).java_lock
        path.parent.mkdir(parents=True)
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert Rendezvous(root).jvm().is_held()
        with raises_code("SERVER", match="another process has the root"):
            guard(spark, root)
        holder.communicate("\n")
        guard(spark, root)

    def test_the_io_manager_refuses_the_write_and_reads_on(self, spark: SparkSession, root: Path):
        @dg.asset
        def numbers() -> Append:
            return Append(spark.range(3).toDF("id"))

        manager = DeltaIOManager(spark=SimpleNamespace(spark_session=spark), root=str(root))
        assert dg.materialize([numbers], resources={"io_manager": manager}).success
        _locks_here.pop(root).release()
        lock = Rendezvous(root).jvm()
        assert lock.take()
        lock.sign("its server")
        with pytest.raises(dg.Failure, match="its server has the root"):
            dg.materialize([numbers], resources={"io_manager": manager})
        defs = dg.Definitions(assets=[numbers], resources={"io_manager": manager})
        assert defs.load_asset_value(numbers.key).count() == 3
        lock.let_go()


def test_a_connect_session_of_another_server_is_refused(root: Path):
    elsewhere = SimpleNamespace(client=None)  # a Connect session does not have `newSession`
    with raises_code("SERVER", match=r"is not one of the server of that root.*LocalSpark\(root=\.\.\.\)"):
        guard(elsewhere, root)  # type: ignore[arg-type]
    assert not root.exists()
