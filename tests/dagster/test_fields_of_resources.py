"""Which fields of resources a run compares with those of the run before: values, but neither secrets nor objects."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.dagster.code.digest import fields_of, is_secret
from tests.support.for_each import for_each


class Client:
    """An object of another library, used unchanged."""

    def get_value(self, key: str) -> str:
        raise AssertionError(f"{key} is asked for")


class Kind(Enum):
    LARGE = "large"


class Inner(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    least: int = 3


class Database(dg.Config):
    host: str = "h"
    password: str = "hush"


class Shop(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    inner: Inner
    client: dg.ResourceDependency[Client]
    cities: list[str]
    kind: Kind = Kind.LARGE
    host: str = "here"
    max_tokens: int = 5
    password: str = "a"
    api_key: str = "b"
    database: Database = Database()
    url: str = "postgresql://reader:hush@db:5432/shop"
    connection: str = "Server=db;Password=hush;Encrypt=yes"


class WithSession(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    memory: str = "4g"

    @property
    def spark_session(self) -> None:
        raise AssertionError("no session is asked for")


def test_values_count_and_secrets_objects_and_settings_of_spark_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "there")
    shop = Shop(cities=["Rome"], inner=Inner(least=5), client=Client(), host=dg.EnvVar("SHOP"))
    plain = {"number": 3, "rules": {"least": 3, "token": "hush"}, "client": Client(), "api_token": "hush"}
    assert fields_of({"shop": shop, "spark": WithSession(), **plain}) == {
        "shop.inner.least": 5,
        "shop.cities": ["Rome"],
        "shop.kind": "large",
        "shop.host": "there",
        "shop.max_tokens": 5,
        "shop.database": {"host": "h"},
        "shop.url": "postgresql://reader@db:5432/shop",
        "shop.connection": "Server=db;;Encrypt=yes",
        "number": 3,
        "rules": {"least": 3},
    }


@for_each(
    "name",
    [
        "password",
        "dbPassword",
        "pwd",
        "secret_key",
        "clientSecret",
        "accessToken",
        "token",
        "credentials",
        "aws_secret_access_key",
    ],
)
def test_a_name_that_is_that_of_a_secret(name: str) -> None:
    assert is_secret(name)


@for_each(
    "name",
    [
        "account_key",
        "primary_key",
        "key",
        "eos_token",
        "max_tokens",
        "band_pass",
        "bypass",
        "password_column",
        "compass",
    ],
)
def test_a_name_that_only_sounds_like_that_of_a_secret(name: str) -> None:
    assert not is_secret(name)


def test_a_set_is_the_same_in_each_process() -> None:
    """The order of a set of texts, like their hashes, differs between processes."""
    cities = [f"city {number}" for number in range(20)]
    assert fields_of({"cities": set(cities)}) == {"cities": sorted(cities)}


def test_what_a_look_would_use_up_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cities").write_text("Rome")
    numbers, endless = iter([1, 2]), list[object]()
    endless.append(endless)
    with (tmp_path / "cities").open() as file:
        assert fields_of({"numbers": numbers, "file": file, "model": {"layers": numbers}, "endless": endless}) == {}
        assert file.read() == "Rome"
    assert list(numbers) == [1, 2]


@dataclass
class Rates:
    low: float
    since: date = date(2024, 1, 1)
    token: str = "hush"


def test_values_of_the_standard_library_count() -> None:
    values = {
        "rates": Rates(0.5),
        "decimal": Decimal("1.10"),
        "bytes": b"\xff",
        "odd": float("inf"),
        "kinds": {Kind.LARGE},
    }
    assert fields_of(values) == {
        "rates": {"low": 0.5, "since": "2024-01-01"},
        "decimal": "1.10",
        "bytes": "ff",
        "odd": "inf",
        "kinds": ["large"],
    }
