"""Answers to what is no request, and to what failed: a Status that repeats nothing of the request.

A request that cannot be parsed may hold a token, and so may the parser's message about it, or the
text of an exception; neither gets into an answer or a log.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, LineTooLong

from policy_sched.client.apimachinery import ApiError, bad_request

JSON: Final = "application/json"
_LOG: Final = logging.getLogger("policy_sched.http")


def status_response(error: ApiError) -> web.Response:
    """Return a refusal as the API writes it."""
    response = web.Response(status=error.code, body=msgspec.json.encode(error.status()) + b"\n")
    response.headers["Content-Type"] = JSON
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def broken_request(status: int, error: BaseException | None) -> web.Response:
    """Return the answer to what cannot be read as HTTP (400), or to what failed; then hang up."""
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        what = "the request is not valid HTTP"
        if isinstance(error, LineTooLong):
            what = "the request line or a header is too long"
        elif isinstance(error, ContentEncodingError):
            what = "the body is not encoded as Content-Encoding says"
        refused = bad_request(what)
    else:
        refused = failure("", error)
    response = status_response(refused)
    response.force_close()
    return response


def failure(request: str, error: BaseException | None) -> ApiError:
    """Log that a request failed by a mistake of ours, and return the refusal.

    The log names the kind of the error and where it was raised, never its text.
    """
    kind = type(error).__name__ if error is not None else "unknown"
    trace = error.__traceback__ if error is not None else None
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    _LOG.error("Failed to answer %s: %s at %s", request or "a request", kind, place)
    causes = {"causes": [{"message": kind}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {kind}", causes)
