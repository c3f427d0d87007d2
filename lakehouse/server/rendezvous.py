"""How the processes that use one root find one server: three locks and a state file below `<root>/_spark`.

The operating system releases a lock when its holder ends, however it ends. Nothing here has to be cleaned up, and no
process id has to be trusted. Only the standard library is imported, so the supervisor starts at once and stays small.
"""

import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCRATCH = "_spark"
"""Where Spark keeps its own files, below the root of the tables."""
_LOOK_AGAIN = 0.05


class Lock:
    """A lock on a file, between processes. The text of the file names the holder, for people who read it.

    Args:
        path: The file; it is created if it is missing, and stays.
        java: A file that a JVM locks instead, with a lock of Java's own kind, which does not exclude the other
            kind.
    """

    def __init__(self, path: Path, java: Path | None = None) -> None:
        self._path, self._java = path, java
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The open file: a process that inherits it holds the lock too."""
        assert self._fd is not None
        return self._fd

    def take(self, seconds: float = 0, *, shared: bool = False) -> bool:
        """Takes the lock within a time limit, alone or shared with other processes; returns whether it did.

        If it fails, this object no longer holds the lock.
        """
        if self._fd is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                if not _is_held_by_a_jvm(self._java):
                    return True
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            except BlockingIOError:
                pass
            if time.monotonic() >= deadline:
                self.let_go()
                return False
            time.sleep(_LOOK_AGAIN)

    def let_go(self) -> None:
        """Releases the lock; a lock that a child has inherited stays the child's."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def sign(self, holder: str) -> None:
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, holder.encode(), 0)

    def holder(self) -> str:
        return self._path.read_text() if self._path.is_file() else ""

    def is_held(self) -> bool:
        """Whether any process, even this one, holds the lock alone."""
        if not self._path.is_file():
            return _is_held_by_a_jvm(self._java)
        probe = Lock(self._path, self._java)
        free = probe.take(shared=True)
        probe.let_go()
        return not free


def _is_held_by_a_jvm(path: Path | None) -> bool:
    """Whether a JVM has locked the file as Java does."""
    if path is None or not path.is_file():
        return False
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the file is closed
        except (BlockingIOError, PermissionError):  # POSIX allows either error
            return True
    return False


@dataclass(frozen=True, slots=True)
class ServerState:
    """Where a server listens, for processes that may read the state file.

    Args:
        port: Its port on loopback; 0 while it starts.
        token: The server answers only requests with this token; empty while it starts.
        fingerprint: A digest of its versions, jars and settings.
        supervisor: The process that ends the JVM when it is idle.
        jvm: The process that is the server.
    """

    port: int
    token: str
    fingerprint: str
    supervisor: int
    jvm: int


class Rendezvous:
    """The files of one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scratch = root / SCRATCH
        self.log = self.scratch / "server.log"
        self.java_lock = self.scratch / "session.lock"
        """The file that the JVM of a session of the user's own locks while it lives."""
        self._state = self.scratch / "server.json"
        self._used = self.scratch / "used.lock"

    def jvm(self) -> Lock:
        """The lock that the one JVM that may write to the root holds as long as it lives."""
        return Lock(self.scratch / "jvm.lock", self.java_lock)

    def starting(self) -> Lock:
        """The lock that a process holds while it looks for the server, starts it or stops it."""
        return Lock(self.scratch / "starting.lock")

    def lock_of_users(self) -> Lock:
        """The lock that the users of the server share. If one process can take it alone, no other uses the server."""
        return Lock(self._used)

    def last_used(self) -> float:
        """When a process last came to use the server, in seconds since 1970."""
        return self._used.stat().st_mtime if self._used.is_file() else 0

    def use(self) -> None:
        os.utime(self._used)

    def state(self) -> ServerState | None:
        """The server that is or was running; None if there was none, or if its file cannot be read."""
        try:
            fields: dict[str, Any] = json.loads(self._state.read_text())
            return ServerState(**fields)
        except (OSError, ValueError, TypeError):
            return None

    def write(self, state: ServerState) -> None:
        new = self._state.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        new.write_text(json.dumps(asdict(state)))
        new.replace(self._state)

    def forget(self) -> None:
        """Removes the state file; a server whose file is gone ends itself."""
        with suppress(FileNotFoundError):
            self._state.unlink()
