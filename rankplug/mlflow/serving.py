"""Guards for MLflow's scoring server: bad requests get 4xx and a reason, large ones are refused."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST

from rankplug.exceptions import ParameterError, nearest

__all__ = ["MAX_REQUEST_MB", "guard_scoring_server"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

MAX_REQUEST_MB = "RANKPLUG_MAX_REQUEST_MB"
"""The environment variable that sets the limit, in megabytes of 10^6 bytes."""

# 7,000 rows of 700 features as JSON; MLflow holds them in memory several times over.
_DEFAULT_MB = "100"
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
        server.init = limit_requests(server.init)


def limit_requests(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """MLflow's maker of the application, which it calls when the model is loaded, with a limit."""

    @functools.wraps(init)
    def make(model: Any) -> Any:
        application = init(model)
        application.add_middleware(RequestLimit, most=largest_request())
        return application

    return make


def _guard(invocations: Callable[..., Any], server: Any) -> Callable[..., Any]:
    @functools.wraps(invocations)
    def checked(data: Any, content_type: str | None, model: Any, input_schema: Any) -> Any:
        known = ", ".join(server.CONTENT_TYPES)
        if not content_type:
            message = f"The request has no Content-Type: send one of {known}."
            return server.InvocationsResponse(message, 415, "text/plain")
        try:
            if content_type.split(";")[0].strip() == server.CONTENT_TYPE_JSON:
                data = _json_object(data, {*server.SUPPORTED_FORMATS, server.SERVING_PARAMS_KEY})
            return invocations(data, content_type, model, input_schema)
        except MlflowException:
            raise
        except Exception as error:
            raise _bad_request(f"{type(error).__name__}: {error}") from error

    return checked


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
    """

    def __init__(self, app: Callable[..., Awaitable[None]], most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass the request on with its body in one piece, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.most:
            await self._refuse(send)
            return
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.most:
                await self._refuse(send)
                return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    async def _refuse(self, send: Send) -> None:
        text = (
            f"Invalid input: the request is longer than {self.most:,} bytes: send fewer rows at a "
            f"time, or start the server with a larger {MAX_REQUEST_MB}."
        ).encode()
        headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": text})
