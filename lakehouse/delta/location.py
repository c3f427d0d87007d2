"""Where a table's files are, and whether this process can read its log there without Spark."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Self

from lakehouse.errors import SetupError

BRANCH = "LAKEHOUSE_BRANCH"
"""The variable that names the branch on which a process works: each root is then replaced by the root of the branch."""
BRANCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
BRANCH_NAMES = "a name has letters, digits, _ and -, up to 64. Use, say, fix-12."
_WHOLE_STORE = re.compile(r"/*|[A-Za-z0-9+.-]+:/*[^/]*/*")
"""The address of a whole bucket or disk, next to which no directory can be."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
"""A percent escape: an address may have one; a path may not, because `deltalake` would read another character."""

CREDENTIALS = {
    "AWS": (
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "AZURE": (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_MSI_ENDPOINT",
    ),
    "GOOGLE": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
}
"""The variables of the environment by which a process may read a provider's store."""
_PROVIDERS = {"s3": "AWS", "s3a": "AWS", "abfs": "AZURE", "abfss": "AZURE", "gs": "GOOGLE"}
PATIENCE = {"timeout": "20s", "connect_timeout": "5s", "max_retries": "3", "retry_timeout": "20s"}
"""How long a store may take to answer; deltalake's own defaults are ten tries and three minutes."""


def scheme_of(address: str) -> str | None:
    """The scheme of an address such as s3a://bucket/lake or file:/lake; None for a plain path."""
    match = _SCHEME.match(address)  # one letter is a drive
    return None if match is None else match.group(1)


def branch_here(environment: Mapping[str, str] = os.environ) -> str | None:
    """The branch on which this process works; None if it works on the roots themselves."""
    return environment.get(BRANCH) or None


class Storage(Enum):
    """What kind of storage an address names."""

    FILES = "files of this machine"
    OBJECTS = "an object store"
    OTHER = "a file system that only Spark reaches"


@dataclass(frozen=True, slots=True)
class Location:
    """An address of files, and what it takes to read them.

    Args:
        address: A path, or an address with a scheme.
        options: Options of the object store, as `deltalake` takes them; None if none are given.
    """

    address: str
    # They may contain secrets, so they are never shown. The address alone decides which files are meant.
    options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_root(cls, root: str, options: Mapping[str, str] | None = None) -> Self:
        """The location of a root as a user writes it, perhaps with `~`, `..` or relative; on a branch, the branch's."""
        # Without `..`: roots are compared by their names, and so are the files that upkeep lists for VACUUM.
        is_path = scheme_of(root) is None
        location = cls(os.path.normpath(Path(root).expanduser().absolute()) if is_path else root, options)
        name = branch_here()
        return location if name is None else location.branch(name)

    @property
    def storage(self) -> Storage:
        match scheme_of(self.address):
            case None | "file":
                return Storage.FILES  # to Spark a path without a scheme may still be on another file system
            case scheme if scheme in _PROVIDERS:
                return Storage.OBJECTS
            case _:
                return Storage.OTHER

    @property
    def path(self) -> str:
        """The path, for files of this machine."""
        return re.sub("^file:(//)?", "", self.address)

    @property
    def place(self) -> str:
        """The address in its one normal spelling, so that two addresses of one place are equal."""
        if self.storage is Storage.FILES:
            return os.path.normpath(self.path)
        return re.sub("^s3:", "s3a:", self.address).rstrip("/")

    def unreadable(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Why this process cannot read a log there itself, as the end of a sentence; None if it can.

        An object store is read with options, or with the credentials that the environment names. Options may be
        empty: a machine's own role needs none, and only the user can state that the machine has a role.
        """
        escape = _ESCAPE.search(self.address)
        match self.storage:
            case Storage.FILES | Storage.OBJECTS if escape is not None:
                return f"to deltalake {escape.group(0)} is another character in a path"
            case Storage.FILES:
                return None
            case Storage.OTHER:
                return f"{scheme_of(self.address)}: is {Storage.OTHER.value}"
            case Storage.OBJECTS:
                names = CREDENTIALS[_PROVIDERS[str(scheme_of(self.address))]]
                if self.options is not None or any(environment.get(name) for name in names):
                    return None
                return (
                    f"nothing says how {self.address} may be read: give DeltaIOManager(storage_options=...) or set "
                    f"one of {', '.join(names)}"
                )

    def misfit(self) -> str | None:
        """Which of the options cannot be meant for this storage, as a clause; None if all can."""
        if not self.options or self.storage is not Storage.OBJECTS:
            return None  # a table may be in a store although its manager's root is not: Table(path=...)
        provider = _PROVIDERS[str(scheme_of(self.address))]
        others = tuple(f"{other}_" for other in CREDENTIALS if other != provider)
        names = sorted(name for name in self.options if name.upper().startswith(others))
        return f"{self.address} is {provider}'s, and {', '.join(names)} is not" if names else None

    @property
    def store_options(self) -> dict[str, str]:
        """The options with which the object store is opened."""
        return PATIENCE | dict(self.options or {})

    @property
    def branches(self) -> Self:
        """Where the branches of a root are: next to the root, so that nothing is written within it.

        Raises:
            SetupError (VARIABLE): The root is a whole bucket or disk.
        """
        address = self.address.rstrip("/")
        if _WHOLE_STORE.fullmatch(address):
            raise SetupError.variable(
                BRANCH, branch_here(), f"beside {self.address} no directory can be. Give the root a directory in it."
            )
        return type(self)(f"{address}_branches", self.options)

    def branch(self, name: str) -> Self:
        """The root of a branch.

        Raises:
            SetupError (VARIABLE): The name is not the name of a branch, or the root is a whole bucket or disk.
        """
        if not BRANCH_NAME.fullmatch(name):
            raise SetupError.variable(BRANCH, name, BRANCH_NAMES)
        return self.branches.below(name)

    def below(self, name: str) -> Self:
        """The location of a directory below this one."""
        return type(self)(f"{self.address.rstrip('/')}/{name}", self.options)
