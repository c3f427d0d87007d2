"""What an asset's function is handed by its resources, as values that one run can hold against those of another.

Secrets decide no row, and not even a digest of a secret belongs into a log that others read. The name of a field, at
any depth, says whether the field holds a secret. In doubt a field counts, because rows would stay wrong if it did not.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import dagster as dg
from pydantic import BaseModel, SecretBytes, SecretStr

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET = re.compile(
    r"(^| )(passwords?|passwd|pwd|passphrase|secrets?|credentials?)$"
    r"|(^|(^| )(access|api|auth|bearer|oauth|refresh|sas|security|session) )tokens?$"
    r"|(^| )(access|api|encryption|master|private|secret|shared|signing|ssh) keys?$"
    r"|(^|(^| )(db|user) )pass$"
)
"""How the words of a name end if a secret has it. (`account_key`, `eos_token` and `band_pass` are none.)"""
_SECRET_PARTS = re.compile(
    r"(?<=://)([^/@:\s]*):[^/@\s]*(?=@)|\b(?:password|pwd|account_?key|shared_?access_?key)=[^;\s]*", re.IGNORECASE
)
"""The secret in an address, as `user:password@`, or in a connection string."""


def fields_of(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The values of resources: of a configurable resource field by field, each as `resource.field`; others whole.

    A resource with a Spark session says how rows are computed, and not which: its fields do not count. Neither do
    secrets, nor objects that are no values (a client of another library), because nobody can tell whether two of them
    are the same.
    """
    values = dict[str, Any]()
    for key, resource in resources.items():
        if _is_resource(resource):
            if not hasattr(resource.__class__, "spark_session"):
                fields = {name: getattr(resource, name) for name in resource.__class__.model_fields}
                values |= {f"{key}.{name}": value for name, value in fields_of(fields).items()}
        elif not is_secret(key):
            with suppress(ValueError, RecursionError):  # it is an object, or holds itself
                values[key] = plain(_value_of(resource))
    return values


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    return _SECRET.search(" ".join(_WORD.findall(name)).lower()) is not None


def _refuse(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} is no value")


def plain(value: Any, other: Callable[[Any], Any] = _refuse) -> Any:
    """A value as JSON has it, without the secrets in it; a set in an order that each process gives it.

    Only values of a closed set of types are looked at: an iterator, or an open file, would be used up by a look.

    Args:
        value: The value.
        other: Gives what stands for an object that is none of these; not for one in a set, whose order it would decide.

    Raises:
        ValueError: The value, or a part of it, is an object.
    """

    def without_secrets(values: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(plain(name)): plain(each, other) for name, each in values.items() if not is_secret(str(name))}

    match value:
        case Enum():
            return plain(value.value, other)
        case str():
            return _SECRET_PARTS.sub(r"\1", value)
        case float():
            return value if isfinite(value) else repr(value)
        case None | int():
            return value
        case bytes():
            return value.hex()
        case SecretStr() | SecretBytes():
            return None
        case BaseModel():
            return without_secrets({name: getattr(value, name) for name in type(value).model_fields})
        case Mapping():
            return without_secrets(cast("Mapping[Any, Any]", value))
        case set() | frozenset():
            return sorted(map(plain, cast("frozenset[Any]", value)), key=json.dumps)
        case list() | tuple():
            return [plain(each, other) for each in cast("list[Any]", value)]
        case date() | time() | timedelta() | Decimal() | UUID() | PurePath() | re.Pattern():
            return str(cast("Any", value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return without_secrets({field.name: getattr(value, field.name) for field in fields(value)})
        case _:
            return other(value)


def _is_resource(value: Any) -> bool:
    return isinstance(value, dg.ConfigurableResource)


def _value_of(value: Any) -> Any:
    """A field's value. In a run Dagster has put a variable's value in its place; a command asks the variable here."""
    ask = (
        getattr(value, "get_value", None) if isinstance(value, str | int) else None
    )  # EnvVar is one, EnvVar.int another
    return value if ask is None else ask()
