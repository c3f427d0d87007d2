"""A Spark that a platform governs: a gateway in front of a Connect server, with walls that can be put up one by one.

The real server answers each request that passes. A request that a wall refuses gets the platform's answer on the wire.
The table of walls, with the public sources of their answers, is in docs/how-to/platforms.md.
"""

import gc
import json
import re
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]
from grpc_status import rpc_status
from pyspark.sql.connect.proto import base_pb2 as messages
from pyspark.sql.connect.proto import commands_pb2 as commands

from lakehouse.server.connect import Channel

SETTABLE = frozenset(
    {
        "spark.databricks.execution.timeout",
        "spark.sql.ansi.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
_MODE: Any = commands.WriteOperation
_READABLE = ("spark.sql.", "spark.python.")
"""The client itself reads settings with these prefixes; a platform may not even show the values of other settings."""
_SET = re.compile(r"\s*SET\s+(?:`([^`]+)`|(\S+?))\s*=", re.IGNORECASE)
_MODIFIES = re.compile(r"\s*(?:INSERT|MERGE|UPDATE|DELETE|ALTER|OPTIMIZE|REORG|VACUUM)\b", re.IGNORECASE)
_JVM = re.compile(r"\b(?:java_method|reflect|try_reflect)\s*\(", re.IGNORECASE)


class Wall(Enum):
    """What a platform refuses, by the name that it has in LAKEHOUSE_WALLS and in the table of that page."""

    GLOBAL_VIEWS = "global views"
    SETTINGS = "settings"
    CLONES = "clones"
    CACHES = "caches"
    JVM = "jvm"
    MODIFY = "modify"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the platform: an error class, its message and its SQLSTATE."""

    condition: str
    sentence: str
    state: str

    @property
    def status(self) -> Any:
        """The error as Spark Connect sends errors."""
        classes = ["org.apache.spark.sql.AnalysisException", "java.lang.Exception", "java.lang.Throwable"]
        info = error_details_pb2.ErrorInfo(reason=classes[0], domain="org.apache.spark")
        info.metadata.update({"errorClass": self.condition, "sqlState": self.state, "classes": json.dumps(classes)})
        details = any_pb2.Any()
        details.Pack(info)
        text = f"[{self.condition}] {self.sentence} SQLSTATE: {self.state}"
        return rpc_status.to_status(status_pb2.Status(code=13, message=text, details=[details]))


def _serverless(what: str) -> Answer:
    sentence = f"{what} is not supported on serverless compute."
    return Answer("NOT_SUPPORTED_WITH_SERVERLESS", sentence, "0A000")


def _not_available(setting: str) -> Answer:
    return Answer("CONFIG_NOT_AVAILABLE", f"Configuration {setting} is not available.", "42K0I")


def refused(method: str, request: Any, walls: Collection[Wall], settable: Collection[str]) -> Answer | None:
    """How the platform answers a request; None if the request passes to the server."""
    match method:
        case "Config" if Wall.SETTINGS in walls:
            return _of_config(request.operation, settable)
        case "AnalyzePlan" if Wall.CACHES in walls and request.HasField("persist"):
            return _serverless("PERSIST TABLE")
        case "ExecutePlan":
            return _of_plan(request.plan, walls, settable)
        case _:
            return None


def _of_config(operation: Any, settable: Collection[str]) -> Answer | None:
    changed = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
    asked = [*operation.get.keys, *(pair.key for pair in operation.get_with_default.pairs)]
    refused_ = [key for key in changed if key not in settable] + [key for key in asked if not key.startswith(_READABLE)]
    return _not_available(refused_[0]) if refused_ else None


def _of_plan(plan: Any, walls: Collection[Wall], settable: Collection[str]) -> Answer | None:
    command = plan.command
    if Wall.GLOBAL_VIEWS in walls and command.create_dataframe_view.is_global:
        return _serverless("GLOBAL TEMPORARY VIEW")
    if Wall.CACHES in walls and command.HasField("checkpoint_command"):
        return _serverless("PERSIST TABLE")
    text = command.sql_command.input.sql.query or command.sql_command.sql or plan.root.sql.query
    setting = _SET.match(text)
    name = None if setting is None else setting.group(1) or setting.group(2)
    if Wall.SETTINGS in walls and name is not None and name not in settable:
        return _not_available(name)
    if Wall.MODIFY in walls and (_MODIFIES.match(text) or _adds_rows(command)):
        sentence = "Insufficient privileges:\nUser does not have MODIFY on Table 'main.shop.orders'."
        return Answer("INSUFFICIENT_PERMISSIONS", sentence, "42501")
    if Wall.JVM in walls and _JVM.search(text):
        return Answer("NOT_SUPPORTED_WITH_DB_SQL", "REFLECTION is not supported on a SQL warehouse.", "0A000")
    return None


def _adds_rows(command: Any) -> bool:
    """Whether a command may write rows to an existing table; the creator of a new table may write to it."""
    mode = command.write_operation.mode
    return command.HasField("write_operation") and mode in (_MODE.SAVE_MODE_APPEND, _MODE.SAVE_MODE_OVERWRITE)


_SERVICE = "spark.connect.SparkConnectService/"
_REQUESTS: dict[str, Any] = {
    "Config": messages.ConfigRequest,
    "AnalyzePlan": messages.AnalyzePlanRequest,
    "ExecutePlan": messages.ExecutePlanRequest,
}


class Gateway(grpc.GenericRpcHandler):
    """Passes every request on to a server, except requests that a wall refuses, and all requests after a given number.

    `asked` counts the requests.
    """

    def __init__(self, port: int, walls: Collection[Wall], settable: Collection[str], left: int | None) -> None:
        self.walls, self.settable, self.left = walls, settable, left
        self.asked = 0
        credentials = grpc.local_channel_credentials()
        self._upstream: Any = grpc.secure_channel(f"127.0.0.1:{port}", credentials, _UNLIMITED)
        self._server = grpc.server(ThreadPoolExecutor(64), [self], options=_UNLIMITED)
        self.port = self._server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
        self._server.start()

    def close(self) -> None:
        self._server.stop(0)
        self._upstream.close()

    def service(self, handler_call_details: Any) -> Any:
        handlers: Any = grpc
        method = str(handler_call_details.method)
        name = method.rpartition("/")[2]
        if name == "AddArtifacts":
            return handlers.stream_unary_rpc_method_handler(self._passing(name, self._upstream.stream_unary(method)))
        if name in ("ExecutePlan", "ReattachExecute"):
            return handlers.unary_stream_rpc_method_handler(self._streaming(name, self._upstream.unary_stream(method)))
        return handlers.unary_unary_rpc_method_handler(self._passing(name, self._upstream.unary_unary(method)))

    def _passing(self, name: str, call: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        def behave(request: Any, context: Any) -> Any:
            self._refuse(name, request, context)
            try:
                return call(request, metadata=_metadata(context))
            except grpc.RpcError as error:
                _relay(error, context)

        return behave

    def _streaming(self, name: str, call: Callable[..., Any]) -> Callable[[Any, Any], Iterator[Any]]:
        def behave(request: Any, context: Any) -> Iterator[Any]:
            self._refuse(name, request, context)
            answers = call(request, metadata=_metadata(context))
            context.add_callback(answers.cancel)
            try:
                yield from answers
            except grpc.RpcError as error:
                _relay(error, context)

        return behave

    def _refuse(self, name: str, request: Any, context: Any) -> None:
        self.asked += 1
        if self.left is not None and self.asked > self.left:
            context.abort(grpc.StatusCode.UNAVAILABLE, "The server went away.")
        if name == "CloneSession" and Wall.CLONES in self.walls:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"Method not found: {_SERVICE}{name}")
        kind = _REQUESTS.get(name)
        answer = None if kind is None else refused(name, kind.FromString(request), self.walls, self.settable)
        if answer is not None:
            context.abort_with_status(answer.status)


_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def _metadata(context: Any) -> Any:
    return [pair for pair in context.invocation_metadata() if not pair[0].startswith(("grpc-", "user-agent"))]


def _relay(error: Any, context: Any) -> None:
    context.set_trailing_metadata(error.trailing_metadata() or ())
    context.abort(error.code(), error.details())


@contextmanager
def governed(
    walls: Collection[Wall], settable: Collection[str] = SETTABLE, left: int | None = None
) -> Generator[dict[int, Gateway]]:
    """Within the block the library reaches its own servers through gateways; the gateways by the ports of the servers.

    Garbage is collected where a client begins a session. If it were collected in a thread of a gateway, PySpark would
    ask the server there to release what was collected, and that thread would wait for itself.

    Args:
        walls: What is refused.
        settable: The settings that the wall of settings lets through.
        left: The number of requests after which a gateway answers none; None if it answers all.
    """
    gateways: dict[int, Gateway] = {}

    def endpoint(channel: Any) -> str:
        gc.collect(1)
        port = channel._state.port
        if port not in gateways:
            gateways[port] = Gateway(port, walls, settable, left)
        return f"127.0.0.1:{gateways[port].port}"

    former = Channel.endpoint
    Channel.endpoint = property(endpoint)  # type: ignore[method-assign, assignment]
    gc.disable()
    try:
        yield gateways
    finally:
        gc.enable()
        Channel.endpoint = former  # type: ignore[method-assign]
        for gateway in gateways.values():
            gateway.close()
