"""A limit to the size of requests, which MLflow's scoring server reads whole into memory."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from rankplug.exceptions import ParameterError

__all__ = ["MAX_REQUEST_MB", "RequestLimit", "largest_request"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

MAX_REQUEST_MB = "RANKPLUG_MAX_REQUEST_MB"
"""The environment variable that sets the limit, in megabytes of 10^6 bytes."""

_DEFAULT_MB = "100"


def largest_request() -> int:
    """Bytes that the body of a request may have.

    Raises
    ------
    ParameterError
        If the environment variable is no number above 0.
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
