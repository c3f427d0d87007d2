"""Whose files an address names, and whether this process may read a log there."""

from pathlib import Path

import pytest

from lakehouse import DeltaIOManager, LocalSpark, Table
from lakehouse.delta.location import BRANCH, CREDENTIALS, Location, Storage
from lakehouse.spark.table_version import TableRef
from tests.support.for_each import for_each
from tests.support.raises import raises_code

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hush"}


@for_each("path", ["/lake/x", "lake/x", "file:/lake/x", "file:///lake/x", "/lake/a:b", "./a:b"])
def test_a_path_without_a_scheme_names_files_of_this_machine(path: str):
    assert Location(path).storage is Storage.FILES
    assert Location(path).unreadable({}) is None


@for_each("path", ["/lake/a%2Fb", "file:///lake/a%20b", "/lake/%C3%BC"])
def test_a_path_that_deltalake_would_take_for_another_one_is_left_to_spark(path: str):
    assert "is another character" in str(Location(path).unreadable({}))
    assert TableRef.at_path("t", path).why_only_spark() is not None


@for_each("path", ["/lake/100%", "/lake/%zz", "/lake/a b", "/lake/ü"])
def test_a_percent_sign_alone_is_a_character_as_others(path: str):
    assert Location(path).unreadable({}) is None


@for_each("address", ["file:/lake/x", "file:///lake/x", "/lake/x"])
def test_a_path_is_the_same_however_it_is_written(address: str):
    assert Location(address).path == "/lake/x"


@for_each("address", ["dbfs:/lake/x", "hdfs:/lake/x", "hdfs://host:9000/x", "wasbs://a@b/x"])
def test_a_file_system_that_only_spark_reaches_is_left_to_spark(address: str):
    assert Location(address, KEYS).unreadable(dict.fromkeys(sum(CREDENTIALS.values(), ()), "x"))


@for_each(
    "address, provider",
    [("s3a://lake/x", "AWS"), ("s3://lake/x", "AWS"), ("abfss://a@b/x", "AZURE"), ("gs://b/x", "GOOGLE")],
)
def test_an_object_store_is_read_with_options_or_with_the_credentials_of_its_own_provider(address: str, provider: str):
    others = {name: "x" for other, names in CREDENTIALS.items() if other != provider for name in names}
    assert "storage_options" in str(Location(address).unreadable(others))
    for name in CREDENTIALS[provider]:
        assert Location(address).unreadable({name: "x"}) is None
        assert Location(address).unreadable({name: ""}) is not None
    assert Location(address, KEYS).unreadable({}) is None
    assert Location(address, {}).unreadable({}) is None  # the machine's own role is used


def test_the_secrets_of_a_location_are_shown_nowhere():
    ref = TableRef.at("orders", Location("s3a://lake/orders", KEYS))
    assert "hush" not in f"{ref!r} {ref.files!r} {ref.location} {ref.why_only_spark()}"


def test_options_are_handed_to_the_store_beside_a_limit_on_its_patience():
    options = Location("s3a://lake/x", KEYS | {"timeout": "1s"}).store_options
    assert options["AWS_ACCESS_KEY_ID"] == "a"
    assert options["timeout"] == "1s"
    assert options["retry_timeout"] == "20s"


def test_a_name_in_a_catalog_is_left_to_spark():
    assert TableRef.in_catalog("x", "main.lake.x").why_only_spark() is not None


@for_each("path", ["orders", "./orders", "~/orders", "../orders"])
def test_a_table_is_not_at_a_relative_path(path: str):
    with pytest.raises(ValueError, match="path is absolute or has a scheme"):
        Table(path=path)


def test_a_table_with_a_name_and_a_path_is_external_and_so_is_its_quarantine():
    table = Table("id", path="/lake/orders/", name="shop.orders")
    assert (table.external_path, table.quarantine.external_path) == ("/lake/orders", "/lake/orders_quarantine")
    assert Table(path="/lake/orders").external_path is Table(name="shop.orders").external_path is None


@for_each(
    "root", ["/data/lake", "/data/lake/", "file:///data/lake", "s3a://bucket/lake", "abfss://a@b/x/lake", "C:/lake"]
)
def test_a_branch_is_beside_the_root_and_moves_all_that_goes_by_the_root(root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(BRANCH, raising=False)
    trunk = Location.of_root(root, KEYS)
    monkeypatch.setenv(BRANCH, "fix-12")
    own = Location.of_root(root, KEYS)

    assert own == trunk.branch("fix-12")
    assert own.address == f"{trunk.address.rstrip('/')}_branches/fix-12"
    assert own.options == KEYS
    assert not own.address.startswith(f"{trunk.address.rstrip('/')}/")
    assert DeltaIOManager(spark=LocalSpark(root=root), root=root).location == own
    assert own.storage is not Storage.FILES or str(LocalSpark(root=root).directory) == own.path


def test_a_root_has_one_name_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv(BRANCH, raising=False)
    for root in ("../lake", f"{tmp_path}/project/../lake", "./x/../../lake/"):
        assert Location.of_root(root) == Location(f"{tmp_path}/lake"), root
        assert LocalSpark(root=root).directory == tmp_path / "lake", root


@for_each("root", ["/", "s3a://bucket", "s3a://bucket/", "file:///", "abfss://container@account.dfs.core.windows.net/"])
def test_a_root_beside_which_nothing_can_be_has_no_branches(root: str):
    with raises_code("VARIABLE", match="beside"):
        Location(root).branch("fix")


@for_each("name", ["", "..", ".", "a/b", "a\\b", "-x", "a b", "x" * 65])
def test_a_branch_has_a_name_that_is_one_directory(name: str):
    with raises_code("VARIABLE"):
        Location("/data/lake").branch(name)
