"""The wheel in an empty environment, away from the checkout: installed, used by Dagster's own command line, complete.

LAKEHOUSE_DAGSTER names another Dagster than the lock's, LAKEHOUSE_PYSPARK another PySpark: `make wheel` tries the ends of
both ranges.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakehouse import __version__
from lakehouse.server.jars import DIRECTORY, REPOSITORY, Jar, delta_jars, fetch
from lakehouse.server.jvm import find_java
from tests.cluster.processes import free_port
from tests.cluster.test_shared_server import server
from tests.support.server_house import programs

__all__ = ["programs"]  # a fixture
PROJECT = Path(__file__).parents[2]
PACKAGES = ("dagster_delta_lakehouse", "lakehouse")
UV = str(Path(sys.prefix, "bin", "uv"))
SHOP = """
import dagster as dg
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, ClusterSpark, DeltaIOManager, LocalSpark, Merge, Table, validate

orders = dg.AssetSpec(["raw", "orders"], metadata=Table(key="id"))


@dg.asset(key_prefix="shop", ins={"orders": dg.AssetIn(["raw", "orders"])}, metadata=Table(key="id"))
def open_orders(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where("status = 'open'"), touched)


@dg.asset(key_prefix="shop", ins={"open_orders": dg.AssetIn(["shop", "open_orders"])}, metadata=Table(key="customer"))
def totals(open_orders: Changes) -> Aggregate:
    return Aggregate(open_orders, by="customer", count="orders", sums={"amount": "amount"})


spark = SPARK
defs = validate(
    dg.Definitions(
        assets=[orders, open_orders, totals],
        resources={"io_manager": DeltaIOManager(spark=spark, root="ROOT"), "spark": spark},
        executor=dg.in_process_executor,
    )
)
"""
SERVED = """LocalSpark(root="ROOT", spark_config={"spark.driver.memory": "1g"}, idle=600)"""  # long pauses between runs
FETCHED = (
    """ClusterSpark(delta=True, spark_config={"spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"})"""
)
DELIVER = """
import sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1]
if sys.argv[2] == "first":
    rows = {"id": [1, 2, 3, 4], "customer": ["a", "a", "b", "b"], "status": ["open", "open", "open", "sent"],
            "amount": [10, 20, 30, 40]}
    write_deltalake(path, pa.table(rows), configuration={"delta.enableChangeDataFeed": "true"})
else:
    DeltaTable(path).update(predicate="id = 2", updates={"status": "'sent'"})
    more = pa.table({"id": [5], "customer": ["c"], "status": ["open"], "amount": [50]})
    write_deltalake(path, more, mode="append")
"""
LOOK = "from lakehouse.cli.main import main; main(['doctor', '--json', '--root', '.'])"
ROWS = """
import json, sys
import pyarrow
from deltalake import DeltaTable, QueryBuilder

rows = QueryBuilder().register("t", DeltaTable(sys.argv[1])).execute("SELECT * FROM t").read_all()
rows = pyarrow.table(rows).select(["customer", "orders", "amount"]).to_pydict()
print(json.dumps(list(zip(*rows.values()))))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources, because a build leaves a folder of its own next to them."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(PROJECT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("assets", "resources"):
        (source / name).mkdir()
        (source / name / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    run([UV, "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable, "."], source)
    (built,) = (source / "dist").glob("*.whl")
    return built


def run(command: list[str], cwd: Path, **environment: str) -> str:
    """The output of a command; nothing of this project or its environment is on its path."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "LAKEHOUSE", "SPARK", "PYSPARK", "JAVA_HOME", "DAGSTER", "COV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    answer = subprocess.run(
        command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-4000:]
    return answer.stdout


def test_the_wheel_holds_the_library_its_data_and_nothing_else(wheel: Path):
    assert wheel.name == f"dagster_delta_lakehouse-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"dagster_delta_lakehouse-{__version__}.dist-info"}
    sources = {path.relative_to(PROJECT).as_posix() for name in PACKAGES for path in (PROJECT / name).rglob("*.py")}
    template = PROJECT / "dagster_delta_lakehouse" / "template"
    written = {path.relative_to(PROJECT).as_posix() for path in template.rglob("*") if path.is_file()}
    written = {name for name in written if "__pycache__" not in name}
    data = {"lakehouse/py.typed", "lakehouse/server/log4j2.properties"}
    packaged = sources | written | data
    assert {name for name in names if name.startswith(tuple(f"{package}/" for package in PACKAGES))} == packaged


def test_the_page_of_an_index_names_no_file_that_only_a_clone_has(wheel: Path):
    with zipfile.ZipFile(wheel) as content:
        metadata = content.read(f"dagster_delta_lakehouse-{__version__}.dist-info/METADATA").decode()
    fields, page = metadata.split("\n\n", 1)
    assert "Description-Content-Type: text/markdown" in fields
    assert page.startswith("# Lakehouse")
    assert "lakehouse new shop" in page
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", page) == []
    assert "```mermaid" not in page


class Shop:
    """A user's project, in an environment of its own, on a machine without Java.

    A classic session needs a complete installation of Java, so it gets this machine's.
    """

    def __init__(self, directory: Path, python: Path, programs: Path, repository: Path, spark: str) -> None:
        self.directory, self.bin, self.root = directory, python.parent, directory / "la ke"
        self._environment = {
            "PATH": str(programs),
            "DAGSTER_HOME": str(directory / "home"),
            REPOSITORY: repository.as_uri(),
        }
        if spark == FETCHED:
            self._environment["JAVA_HOME"] = str(Path(find_java() or "").resolve().parents[1])
        (directory / "home").mkdir()
        (directory / "shop.py").write_text(SHOP.replace("SPARK", spark).replace("ROOT", str(self.root)))

    def set(self, **variables: str) -> None:
        self._environment |= variables

    def run(self, program: str, *arguments: str) -> str:
        return run([str(self.bin / program), *arguments], self.directory, **self._environment)

    def deliver(self, which: str) -> None:
        self.run("python", "-c", DELIVER, str(self.root / "raw/orders"), which)

    def totals(self) -> list[Any]:
        return sorted(json.loads(self.run("python", "-c", ROWS, str(self.root / "shop/totals"))))


@pytest.fixture
def shop(wheel: Path, programs: Path, tmp_path: Path) -> Iterator[Shop]:
    made = installed(wheel, programs, tmp_path, "local", SERVED)
    yield made
    made.run("lakehouse", "spark", "stop", "--now", "--root", str(made.root))


def installed(wheel: Path, programs: Path, directory: Path, extras: str, spark: str, *also: str) -> Shop:
    """A shop with the wheel, and a Maven repository that has what its PySpark needs and nothing else."""
    environment, constraints, repository = directory / "venv", directory / "constraints.txt", directory / "maven"
    locked = re.findall(r"^([a-z].*==.*?) \\$", (PROJECT / "requirements.lock").read_text(), re.MULTILINE)
    if "LAKEHOUSE_DAGSTER" in os.environ:  # the packages that Dagster needs are those of its release date
        others = [line for line in locked if line.startswith(("pyspark", "delta", "pyarrow", "pandas", "numpy"))]
        locked = [*others, f"dagster=={os.environ['LAKEHOUSE_DAGSTER']}"]
    if "LAKEHOUSE_PYSPARK" in os.environ:
        others = [line for line in locked if not line.startswith("pyspark")]
        locked = [*others, f"pyspark=={os.environ['LAKEHOUSE_PYSPARK']}"]
    constraints.write_text("\n".join(locked))
    run([UV, "venv", "-q", "--python", sys.executable, str(environment)], directory)
    install = [UV, "pip", "install", "-q", "--python", f"{environment}/bin/python", "-c", str(constraints)]
    wanted = [f"{wheel}[{extras}]", *also]
    cached = subprocess.run([*install, "--offline", *wanted], cwd=directory, capture_output=True, check=False)
    if cached.returncode:
        run([*install, *wanted], directory)
    jars = delta_jars(os.environ.get("LAKEHOUSE_PYSPARK"))
    assert fetch(jars=jars) is None
    for jar in jars:
        offer(jar, repository, needs=[other for other in jars if jar is jars[0] and other is not jar])
    return Shop(directory, environment / "bin" / "python", programs, repository, spark)


def offer(jar: Jar, repository: Path, needs: list[Jar]) -> None:
    """Copies a jar to its place in a Maven repository, with its dependencies."""
    place = repository / jar.organisation.replace(".", "/") / jar.name / jar.revision
    place.mkdir(parents=True)
    (place / jar.file_name).symlink_to(DIRECTORY / jar.file_name)
    needed = "".join(f"<dependency>{coordinates(other)}</dependency>" for other in needs)
    (place / jar.file_name).with_suffix(".pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion>{coordinates(jar)}<dependencies>{needed}</dependencies></project>"
    )


def coordinates(jar: Jar) -> str:
    return f"<groupId>{jar.organisation}</groupId><artifactId>{jar.name}</artifactId><version>{jar.revision}</version>"


@pytest.fixture
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose lock no session of this process holds, unlike the lock of the tests' own directory."""
    place = tmp_path_factory.getbasetemp().with_name(f"wheel-{os.getpid()}-{os.urandom(4).hex()}")
    place.mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
def test_classic_spark_fetches_the_delta_that_fits_with_the_extra_cluster(wheel: Path, programs: Path, apart: Path):
    shop = installed(wheel, programs, apart, "cluster", FETCHED)
    for delivery, totals in (
        ("first", [["a", 2, 30], ["b", 1, 30]]),
        ("second", [["a", 1, 10], ["b", 1, 30], ["c", 1, 50]]),
    ):
        shop.deliver(delivery)
        shop.run("dagster", "asset", "materialize", "-m", "shop", "--select", "key:shop/*")
        assert shop.totals() == totals


@pytest.mark.slow
def test_a_project_of_one_s_own_needs_the_wheel_and_nothing_else(shop: Shop):
    materialize = ("dagster", "asset", "materialize", "-m", "shop", "--select", "key:shop/*")
    shop.deliver("first")
    shop.run(*materialize)
    assert shop.totals() == [["a", 2, 30], ["b", 1, 30]]
    started = json.loads(shop.run("lakehouse", "spark", "status", "--json", "-m", "shop"))
    shop.deliver("second")
    shop.run(*materialize)
    assert shop.totals() == [["a", 1, 10], ["b", 1, 30], ["c", 1, 50]]
    again = json.loads(shop.run("lakehouse", "spark", "status", "--json", "--root", str(shop.root)))
    assert again["process"] == started["process"]
    where = shop.run("python", "-c", "import lakehouse, sys; print(lakehouse.__file__, *sys.path)")
    assert where.startswith(str(shop.bin.parent))
    assert str(PROJECT) not in where.replace(str(shop.directory), "")


def databricks_connect(directory: Path) -> Path:
    """A wheel of this name that contains files of `pyspark`, as the real one does: here those of Spark's client."""
    built, name = directory / "databricks_connect-17.3.0-py3-none-any.whl", "databricks_connect-17.3.0.dist-info"
    needs = ("py4j", "grpcio", "grpcio-status", "googleapis-common-protos", "pandas", "pyarrow", "zstandard")
    lines = ["Metadata-Version: 2.1", "Name: databricks-connect", "Version: 17.3.0"]
    files = {
        f"{name}/METADATA": "\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs), ""]).encode(),
        f"{name}/WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "databricks/connect/__init__.py": b"",
    }
    client = Path(pyspark.__file__).parent
    for path in client.rglob("*"):
        if path.suffix in (".py", ".pyi", ".json") and "jars" not in path.relative_to(client).parts:
            files[f"pyspark/{path.relative_to(client).as_posix()}"] = path.read_bytes()
    files["pyspark/version.py"] += b"# of databricks-connect\n"
    with zipfile.ZipFile(built, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        hashes = {path: urlsafe_b64encode(sha256(content).digest()).rstrip(b"=") for path, content in files.items()}
        record = "".join(f"{path},sha256={digest.decode()},{len(files[path])}\n" for path, digest in hashes.items())
        archive.writestr(f"{name}/RECORD", record + f"{name}/RECORD,,\n")
    return built


@pytest.mark.slow
def test_databricks_connect_stands_in_for_pyspark_and_doctor_says_which_is_in_force(
    wheel: Path, programs: Path, apart: Path
):
    override = apart / "no-pyspark.txt"
    override.write_text('pyspark; python_version < "3"')
    stub = databricks_connect(apart)
    shop = installed(wheel, programs, apart, "dev", "ClusterSpark()", "--override", str(override), str(stub))
    (apart / "lake").symlink_to(shop.root)
    shop.root.mkdir()
    code = (apart / "shop.py").read_text()
    (apart / "shop.py").write_text(code.replace(str(shop.root), "viewfs://lake/data"))

    def looked() -> dict[str, str]:
        said = shop.run("python", "-c", LOOK)
        return {each["about"]: f"{each['health']}: {each['what']}" for each in json.loads(said)["symptoms"]}

    assert looked()["Spark"] == "good: the pyspark of databricks-connect 17.3.0"
    assert looked()["Delta's jars"].startswith("good")
    port = free_port()
    with server(apart, port):
        shop.set(SPARK_REMOTE=f"sc://127.0.0.1:{port}")
        shop.deliver("first")
        shop.run("dagster", "asset", "materialize", "-m", "shop", "--select", "key:shop/*")
        assert shop.totals() == [["a", 2, 30], ["b", 1, 30]]

    own = f"pyspark=={pyspark.__version__}"
    for package, in_force, other in ((own, own, "databricks-connect"), (str(stub), "databricks-connect", "pyspark")):
        run([UV, "pip", "install", "-q", "--python", f"{shop.bin}/python", "--reinstall", "--no-deps", package], apart)
        said = looked()["Spark"]
        assert said.startswith(f"wrong: {in_force.replace('==', ' ')}") and f" is in force over {other} " in said
