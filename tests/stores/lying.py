"""A proxy in front of an S3 server that gives a wrong answer of a closed set when a test asks for it.

It is a process of its own: `deltalake` holds the lock of its interpreter while it opens an object, so a proxy in the
same process could not answer.
"""

import re
import time
from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path
from threading import Lock, Thread
from typing import Any, ClassVar, assert_never
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.harness.gateway import Store


class Fault(Enum):
    """What the store does wrong."""

    ANSWER_LOST = "a log entry is written, and the connection ends before the answer"
    ENTRY_LOST = "the connection ends before a log entry is written"
    CONFLICT = "409 to the PUT of a log entry, which is not written"
    PRECONDITION = "412 to the PUT of a log entry, which is not written"
    SERVER_ERROR = "500 to the PUT of a log entry, which is not written"
    UNAVAILABLE = "503 with Retry-After to the PUT of a log entry, which is not written"
    COMPLETION_LOST = "a multipart upload is completed, and the connection ends before the answer"
    STALE_LISTING = "a listing lacks the objects of the last three seconds"
    SLOW_READS = "each GET takes a tenth of a second more"
    CUT_READS = "the connection ends in the middle of an object"
    THROTTLED = "503 SlowDown to any request"
    UNREADABLE = "500 to the GET of a log entry"


@dataclass(frozen=True, slots=True)
class Lie:
    """A fault, and how long it lasts.

    Args:
        fault: What the store does wrong.
        lasts: Whether every request meets the fault; otherwise only the first request for each object meets it, so that
            another try succeeds.
    """

    fault: Fault
    lasts: bool

    def __str__(self) -> str:
        return f"{self.fault.name}{', lasting' if self.lasts else ''}"


STALE_SECONDS, SLOW_SECONDS = 3.0, 0.1
_ENTRY = re.compile(r"/([^/]+)/_delta_log/\d{20}\.json$")
_LISTED = re.compile(r"<Contents>.*?</Contents>", re.DOTALL)
_KEY = re.compile(r"<Key>(.*?)</Key>")
_REFUSALS = {
    Fault.CONFLICT: (409, "ConditionalRequestConflict"),
    Fault.PRECONDITION: (412, "PreconditionFailed"),
    Fault.SERVER_ERROR: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.THROTTLED: (503, "SlowDown"),
    Fault.UNREADABLE: (500, "InternalError"),
}
_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}


@dataclass
class _Proxied:
    """What the proxy does, and a record of it, within the process of the proxy."""

    behind: Store
    lie: Lie | None = None
    spared: frozenset[str] = frozenset()
    met: Counter[str] = field(default_factory=Counter[str])
    overwritten: list[str] = field(default_factory=list[str])
    _written: dict[str, float] = field(default_factory=dict[str, float])
    _first: set[str] = field(default_factory=set[str])
    _lock: Lock = field(default_factory=Lock)

    def serve(self) -> int:
        """Starts to answer requests; the port."""
        proxy = _Proxy(("127.0.0.1", 0), type("Handler", (_Handler,), {"liar": self}))
        Thread(target=proxy.serve_forever, daemon=True).start()
        return proxy.server_port

    def begin(self, lie: Lie, spared: Collection[str]) -> None:
        self.met.clear()
        self._first.clear()
        self.lie, self.spared = lie, frozenset(spared)

    def end(self) -> tuple[Counter[str], list[str]]:
        self.lie = None
        return self.met, self.overwritten

    def fault_of(self, method: str, target: str) -> Fault | None:
        """The fault that a request meets; None if it gets the true answer."""
        lie = self.lie
        if lie is None:
            return None
        path, entry = unquote(urlsplit(target).path), _ENTRY.search(unquote(urlsplit(target).path))
        name = path if entry is None else entry.group(1)
        if not _is_about(lie.fault, method, target, entry=None if name in self.spared else entry):
            return None
        with self._lock:
            what = f"{method} {target}"
            if not lie.lasts and what in self._first:
                return None
            self._first.add(what)
            self.met[name] += 1
        return lie.fault

    def file(self, target: str) -> Path:
        return self.behind.directory / unquote(urlsplit(target).path).lstrip("/")

    def wrote(self, target: str, before: bytes | None) -> None:
        """Records when an object was written, and a log entry whose content a later write has changed."""
        self._written[unquote(urlsplit(target).path).split("/", 2)[2]] = time.monotonic()
        if before is not None and self.file(target).read_bytes() != before:
            self.overwritten.append(target)

    def stale(self, listing: bytes) -> bytes:
        """A listing without the objects that were written a moment ago."""
        late = time.monotonic() - STALE_SECONDS

        def kept(entry: re.Match[str]) -> str:
            key = _KEY.search(entry.group())
            return "" if key is not None and self._written.get(unquote(key.group(1)), 0) > late else entry.group()

        return _LISTED.sub(kept, listing.decode()).encode()


def _is_about(fault: Fault, method: str, target: str, entry: re.Match[str] | None) -> bool:
    asked = parse_qs(urlsplit(target).query, keep_blank_values=True)
    match fault:
        case Fault.ANSWER_LOST | Fault.ENTRY_LOST | Fault.CONFLICT | Fault.PRECONDITION:
            return method == "PUT" and entry is not None
        case Fault.SERVER_ERROR | Fault.UNAVAILABLE:
            return method == "PUT" and entry is not None
        case Fault.COMPLETION_LOST:
            return method == "POST" and "uploadId" in asked
        case Fault.STALE_LISTING:
            return method == "GET" and "list-type" in asked
        case Fault.SLOW_READS | Fault.CUT_READS:
            return method in ("GET", "HEAD") and "list-type" not in asked
        case Fault.THROTTLED:
            return True
        case Fault.UNREADABLE:
            return method == "GET" and entry is not None
        case _:
            assert_never(fault)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    liar: ClassVar[_Proxied]

    def setup(self) -> None:
        super().setup()
        self._upstream = HTTPConnection("127.0.0.1", self.liar.behind.port)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.liar.fault_of(self.command, self.path)
        if fault in _REFUSALS:
            self._refuse(*_REFUSALS[fault])
        elif fault is Fault.ENTRY_LOST:
            self.close_connection = True
        else:
            if fault is Fault.SLOW_READS:
                time.sleep(SLOW_SECONDS)
            answer, content = self._forward(body)
            if fault in (Fault.ANSWER_LOST, Fault.COMPLETION_LOST):
                self.close_connection = True
            else:
                self._pass_on(answer, self.liar.stale(content) if fault is Fault.STALE_LISTING else content, fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815  (names that http.server calls)

    def _forward(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _PER_HOP}
        entry = self.liar.file(self.path) if self.command == "PUT" and _ENTRY.search(unquote(self.path)) else None
        before = entry.read_bytes() if entry is not None and entry.exists() else None
        self._upstream.request(self.command, self.path, body, headers)
        answer = self._upstream.getresponse()
        content = answer.read()
        if self.command in ("PUT", "POST") and answer.status < 300:
            self.liar.wrote(self.path, before)
        return answer, content

    def _pass_on(self, answer: HTTPResponse, content: bytes, fault: Fault | None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {*_PER_HOP, "content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        if answer.status != 204:
            self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if fault is Fault.CUT_READS and len(content) > 1:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        content = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None: ...  # a client that gave up


@dataclass
class Liar:
    """Controls the proxy.

    Args:
        proxied: The proxy, in its process.
        lie: The fault that is on; None: every answer is true.
        met: How many requests have met the last fault, by the table of a log entry, or by the path.
        overwritten: The log entries that a later PUT has changed.
    """

    proxied: Any
    lie: Lie | None = None
    met: Counter[str] = field(default_factory=Counter[str])
    overwritten: list[str] = field(default_factory=list[str])

    @contextmanager
    def telling(self, lie: Lie, spared: Collection[str] = ()) -> Generator[None]:
        """Lies while the block runs, except about the log entries of spared tables."""
        self.proxied.begin(lie, spared)
        self.lie = lie
        try:
            yield
        finally:
            self.lie = None
            self.met, self.overwritten = self.proxied.end()


class _Process(BaseManager):
    """The process of a proxy."""


_Process.register("Proxied", _Proxied, exposed=("serve", "begin", "end"))


@contextmanager
def lying(store: Store) -> Generator[tuple[Store, Liar]]:
    """The same store behind a proxy, and the control of the proxy, which at first gives true answers."""
    with _Process(ctx=get_context("spawn")) as process:
        proxied: Any = process.Proxied(store)  # type: ignore[attr-defined]
        yield replace(store, port=proxied.serve()), Liar(proxied)
