"""A session on a root's Spark Connect server, which knows when its server has gone."""

import atexit
import os
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import base_pb2 as messages
from pyspark.sql.connect.proto import base_pb2_grpc as rpc
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.errors import SessionError
from lakehouse.server.lifecycle import Server, find_or_start, is_running, last_words
from lakehouse.server.rendezvous import Lock, ServerState
from lakehouse.spark.session import let_results_go

ANSWERS_WITHIN = 30
"""Seconds within which a server answers. A busy server still answers at once: it has threads for that alone."""
LEAVES_WITHIN = 5
"""Seconds within which the server has to answer a process that ends."""


@dataclass(frozen=True, slots=True)
class _Connected:
    session: Any
    channel: "Channel"
    state: ServerState
    used: Lock


_lock = RLock()
_connected: dict[Path, _Connected] = {}
"""This process's sessions: one for each root, as classic Spark has one for each process."""


def session_on(server: Server) -> SparkSession:
    """This process's session on the server of a root; a new session if the server of the old session has ended."""
    with _lock:
        connected = _connected.get(server.root)
        if connected is not None:
            if is_running(server.rendezvous, connected.state):
                return connected.session
            _leave(server.root)
        session_id = str(uuid4())
        state, used = find_or_start(server, lambda state: _answers(Channel(server, state, session_id)))
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions choose Connect or classic by it
        channel = Channel(server, state, session_id)
        session: Any = ConnectSession.builder.channelBuilder(channel).create()
        # Registered last, `leave_all` runs before PySpark's own handler, which sends the server a query without a time
        # limit. If the server hangs, that handler would keep the process, and the process would keep the server's lock.
        atexit.unregister(leave_all)
        atexit.register(leave_all)
        _connected[server.root] = _Connected(session, channel, state, used)
        return session


def locked_roots(session: SparkSession) -> list[Path]:
    """The root whose server a session of this process is on; empty if the session is not one of these."""
    return [root for root, connected in _connected.items() if connected.session is session]


def _leave(root: Path) -> None:
    """Releases the session, so that the server need not wait for its timeout. A server that hangs is ignored."""
    connected = _connected.pop(root)
    connected.used.let_go()
    answers = connected.session.release_session_on_close = _answers(connected.channel, LEAVES_WITHIN)
    if answers:
        let_results_go(connected.session.client)
    connected.channel.leave()
    client = connected.session.client
    connected.session.stop()
    # PySpark 4.0 closes a garbage-collected session once more, and thereby what sessions that began later need.
    client.close = lambda: None


def leave_all() -> None:
    """Releases every session of this process, as the end of the process does."""
    with _lock:
        for root in list(_connected):
            _leave(root)


class Channel(DefaultChannelBuilder):
    """The way to a server on this machine: its port on loopback, and no proxy whatever the environment says."""

    def __init__(self, server: Server, state: ServerState, session_id: str) -> None:
        url = f"sc://127.0.0.1:{state.port}/;user_id=lakehouse;session_id={session_id}"
        super().__init__(url, [("grpc.enable_http_proxy", 0)])
        self._state = state
        self._alive = _Alive(server, state)
        self.add_interceptor(self._alive)

    def leave(self) -> None:
        """Allows no call except the release of the session, because gRPC crashes if a closed channel is used."""
        self._alive.is_closing = True

    def metadata(self) -> list[tuple[str, str]]:
        """What every call carries: the token.

        It is not given as credentials of gRPC's own: a thread of gRPC would release these, and would wait for Python's
        lock, while the thread that closes the channel holds that lock and waits for the thread of gRPC.
        """
        return [*super().metadata(), ("authorization", f"Bearer {self._state.token}")]

    def toChannel(self) -> grpc.Channel:  # noqa: N802  (PySpark's name)
        return self._secure_channel(self.endpoint, grpc.local_channel_credentials())


class _Alive(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """Checks before every call that the server lives: PySpark would try to reach a dead server for ten minutes."""

    def __init__(self, server: Server, state: ServerState) -> None:
        self._server, self._state, self.is_closing = server, state, False

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._check(client_call_details)
        return continuation(client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._check(client_call_details)
        return continuation(client_call_details, request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        self._check(client_call_details)
        return continuation(client_call_details, request_iterator)

    def _check(self, call: Any) -> None:
        is_closing = self.is_closing and "ReleaseSession" not in str(call.method)
        if is_closing or not is_running(self._server.rendezvous, self._state):
            raise SessionError.server_lost(self._server.root, last_words(self._server.rendezvous))


def _answers(channel: Channel, within: float = ANSWERS_WITHIN) -> bool:
    """Whether the server answers with its version, which requires the token, within a time limit."""
    request = messages.AnalyzePlanRequest(session_id=channel.session_id or "", client_type="lakehouse")
    request.user_context.user_id = channel.userId or ""
    request.spark_version.SetInParent()
    with channel.toChannel() as wire:
        try:
            rpc.SparkConnectServiceStub(wire).AnalyzePlan(request, timeout=within, metadata=channel.metadata())
        except (grpc.RpcError, SessionError):
            return False
    return True
