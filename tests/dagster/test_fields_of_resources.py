"""Which fields of resources a run holds against those of the run before: values, and neither secrets nor objects."""

from enum import Enum

import dagster as dg
import pytest

from lakehouse.dagster.contexts import fields_of


class Client:
    """What another library gives, as it is."""


class Kind(Enum):
    LARGE = "large"


class Inner(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    least: int = 3


class Shop(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    inner: Inner
    client: dg.ResourceDependency[Client]
    cities: list[str]
    kind: Kind = Kind.LARGE
    host: str = "here"
    max_tokens: int = 5
    password: str = "a"
    api_key: str = "b"
    aws_secret_access_key: str = "c"
    refresh_token: str = "d"


class WithSession(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    memory: str = "4g"

    @property
    def spark_session(self) -> None:
        raise AssertionError("no session is asked for")


def test_values_count_and_secrets_objects_and_settings_of_spark_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "there")
    shop = Shop(cities=["Rome"], inner=Inner(least=5), client=Client(), host=dg.EnvVar("SHOP"))
    assert fields_of({"shop": shop, "spark": WithSession(), "number": 3}) == {
        "shop.inner.least": 5,
        "shop.cities": ["Rome"],
        "shop.kind": "large",
        "shop.host": "there",
        "shop.max_tokens": 5,
    }
