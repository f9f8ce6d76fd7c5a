"""MLflow's scoring server, made to answer every bad request with 4xx and a reason."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST

from rankplug.exceptions import nearest
from rankplug.mlflow.request_limit import RequestLimit, largest_request

__all__ = ["guard_scoring_server"]

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
        server.invocations = _guarded(server.invocations, server)
        server.init = limited(server.init)


def limited(init: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """MLflow's maker of the application, which it calls when the model is loaded, with a limit."""

    @functools.wraps(init)
    def make(model: Any) -> Any:
        application = init(model)
        application.add_middleware(RequestLimit, most=largest_request())
        return application

    return make


def _guarded(invocations: Callable[..., Any], server: Any) -> Callable[..., Any]:
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
