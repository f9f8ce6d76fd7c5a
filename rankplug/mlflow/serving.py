"""Guards for MLflow's scoring server: bad requests get 4xx and a reason, large ones are refused."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import math
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np
from mlflow.environment_variables import MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST
from mlflow.types import ColSpec, Schema
from mlflow.types.schema import AnyType

from rankplug.data import list_columns
from rankplug.exceptions import ParameterError, nearest
from rankplug.mlflow.requests import plain_model, predict_numbers
from rankplug.models import Model

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

MAX_REQUEST_MB = "RANKPLUG_MAX_REQUEST_MB"
"""The environment variable that sets the limit, in megabytes of 10^6 bytes."""

# 7,000 rows of 700 features as JSON; MLflow holds them in memory several times over.
_DEFAULT_MB = "100"
# How long, and how many times the limit, a request that is refused may go on before the answer.
_SECONDS_TO_FINISH = 2.0
_LIMITS_TO_FINISH = 8
_SERVER = "mlflow.pyfunc.scoring_server"


def guard_scoring_server() -> None:
    """Check requests before MLflow reads them, if this process is its scoring server.

    MLflow's server ends with 500 where a request has no content type, or JSON that is nested too
    deeply, has too long numbers or names columns by objects, and it ignores keys that it does
    not know; and it reads requests of any length into memory. None of this reaches the model, so
    its server's functions are wrapped. Elsewhere nothing is changed: the server's process is the
    one whose application is being imported.
    """
    if f"{_SERVER}.app" not in sys.modules:
        return
    server: Any = sys.modules[_SERVER]
    if not hasattr(server.invocations, "__wrapped__"):
        server.invocations = _guard(server.invocations, server)
        seconds: Any = MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT
        _limit_next_application(largest_request(), seconds.get())


def _limit_next_application(most: int, seconds: float) -> None:
    """Put `RequestLimit` around the application that MLflow makes when it has loaded the model.

    MLflow looks up its maker of the application before it loads the model, so it is too late to
    wrap that; but the maker imports FastAPI's class only when it runs.
    """
    import fastapi

    module: Any = fastapi
    plain = module.FastAPI

    def make(*args: Any, **kwargs: Any) -> Any:
        module.FastAPI = plain
        application = plain(*args, **kwargs)
        build = application.build_middleware_stack
        application.build_middleware_stack = lambda: RequestLimit(build(), most, seconds)
        return application

    module.FastAPI = make


def _guard(invocations: Callable[..., Any], server: Any) -> Callable[..., Any]:
    latest: tuple[Any, Model | None] = (None, None)  # MLflow's model, and what it holds

    def plain(loaded: Any) -> Model | None:
        nonlocal latest
        if latest[0] is not loaded:
            latest = loaded, plain_model(loaded)
        return latest[1]

    @functools.wraps(invocations)
    def checked(data: Any, content_type: str | None, model: Any, input_schema: Any) -> Any:
        known = ", ".join(server.CONTENT_TYPES)
        if not content_type:
            message = f"The request has no Content-Type: send one of {known}."
            return server.InvocationsResponse(message, 415, "text/plain")
        try:
            kind = content_type.split(";")[0].strip()
            if kind == server.CONTENT_TYPE_JSON:
                body = data
                data = _json_object(body, {*server.SUPPORTED_FORMATS, server.SERVING_PARAMS_KEY})
                held = plain(model) if content_type == kind else None
                predictions = None if held is None else predict_numbers(body, data, held)
                if predictions is not None:
                    return server.InvocationsResponse(_write(server, predictions), 200, kind)
            elif kind == server.CONTENT_TYPE_CSV:
                input_schema = _csv_schema(input_schema)
            return invocations(data, content_type, model, input_schema)
        except MlflowException:
            raise
        except Exception as error:
            raise _bad_request(f"{type(error).__name__}: {error}") from error

    return checked


def _write(server: Any, predictions: Any) -> str:
    """The answer as MLflow writes it, which takes its time over long arrays."""
    if isinstance(predictions, np.ndarray):
        return json.dumps({"predictions": predictions.tolist()})
    text = io.StringIO()
    server.predictions_to_json(predictions, text)
    return text.getvalue()


def _csv_schema(schema: Schema | None) -> Schema | None:
    """The columns whose type MLflow is to convert: it cannot read CSV into columns of any type.

    An optional column of any type holds query ids, which are text where they come from text.
    """
    if schema is None or schema.is_tensor_spec():
        return schema
    lists = list_columns(map(str, schema.input_names()))
    columns = [
        ColSpec("string", column.name) if isinstance(column.type, AnyType) else column
        for column in schema.inputs
        if not (isinstance(column.type, AnyType) and (column.required or _is_of(column, lists)))
    ]
    return Schema(columns) if columns else None


def _is_of(column: ColSpec, lists: Mapping[str, int]) -> bool:
    """Whether a column is an element of lists, a number, which may come one by one or as a list."""
    return str(column.name).rpartition("[")[0] in lists


def _json_object(data: bytes, known: set[str]) -> dict[str, Any]:
    """The request as MLflow also takes it, so that it need not parse it again."""
    try:
        request = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad_request(f"the body is not valid JSON: {error}") from error
    formats = ", ".join(sorted(known - {"params"}))
    if not isinstance(request, dict):
        raise _bad_request(
            f"the body must be a JSON object with one of {formats}, not a {type(request).__name__}"
        )
    unknown = [f"{key!r}{nearest(key, known)}" for key in request if key not in known]
    if unknown:
        raise _bad_request(f"unknown keys: {'; '.join(unknown)}")
    given = [key for key in request if key != "params"]
    if len(given) != 1:
        raise _bad_request(f"exactly one of {formats} is needed, not {len(given)}")
    return request


def _bad_request(reason: str) -> MlflowException:
    return MlflowException(f"Invalid input: {reason}", error_code=BAD_REQUEST)


def largest_request() -> int:
    """Bytes that the body of a request may have.

    Raises
    ------
    ParameterError
        If the environment variable is not a number above 0.
    """
    text = os.environ.get(MAX_REQUEST_MB, _DEFAULT_MB)
    try:
        most = float(text)
    except ValueError:
        most = 0.0
    if not 0 < most < math.inf:
        raise ParameterError(f"{MAX_REQUEST_MB}={text!r} must be a number of megabytes above 0")
    return int(most * 10**6)


class RequestLimit:
    """ASGI middleware that answers requests with a longer body by 413, without reading it all.

    Parameters
    ----------
    app : ASGI application
    most : int
        Bytes that a body may have.
    seconds : float
        Time in which it must have come; else the answer is 408.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], most: int, seconds: float) -> None:
        self.app = app
        self.most = most
        self.seconds = seconds

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the request on with its body in one piece, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        too_long = length.isdigit() and int(length) > self.most
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self.seconds):
                while more and not too_long:
                    message = await receive()
                    if message["type"] != "http.request":  # the client has hung up
                        return
                    body += message.get("body", b"")
                    too_long = len(body) > self.most
                    more = message.get("more_body", False)
        except TimeoutError:
            text = f"the request did not come within {self.seconds:g} seconds"
            await _refuse(send, 408, f"{text}: send fewer rows at a time.")
            return
        if too_long:
            if more:
                await self._discard(receive)
            text = f"the request is longer than {self.most:,} bytes: send fewer rows at a time"
            await _refuse(send, 413, f"{text}, or start the server with a larger {MAX_REQUEST_MB}.")
            return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    async def _discard(self, receive: Receive) -> None:
        """Take a little more: a client that is still sending may not see an answer."""
        n_bytes = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_FINISH):
                while n_bytes < _LIMITS_TO_FINISH * self.most:
                    message = await receive()
                    if not message.get("more_body", False):
                        return
                    n_bytes += len(message.get("body", b""))


async def _refuse(send: Send, status: int, reason: str) -> None:
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"Invalid input: {reason}".encode()})
