"""Refusals of requests as such, in the API server's words."""

from __future__ import annotations

import json
from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, bad_request

JSON: Final = "application/json"
LIMIT: Final = 3 * 1024 * 1024
"""Bytes that a body may have (the API server's limit)."""
_SYNTAX: Final = "invalid syntax"
_RANGE: Final = "value out of range"
STORED: Final = 1536 * 1024
"""Bytes that an object may have (etcd's limit of a request)."""


def quoted(text: str) -> str:
    """Return a text in quotes, as messages of the API server have it."""
    return json.dumps(text, ensure_ascii=False)


class DetailedError(ApiError):
    """A refusal whose response always has details, if only empty ones."""

    def status(self) -> dict[str, Any]:
        """Return the body of the response."""
        body = super().status()
        code = body.pop("code")
        return {**body, "details": self.details, "code": code}


class NoSuchPage(Exception):  # noqa: N818 - no error of the API, but of HTTP
    """There is nothing under this path."""


def no_such_resource() -> ApiError:
    """Return the refusal of a path in a group that is served."""
    return DetailedError(404, "NotFound", "the server could not find the requested resource")


def not_allowed() -> ApiError:
    """Return the refusal of a method that the path does not have."""
    message = "the server does not allow this method on the requested resource"
    return DetailedError(405, "MethodNotAllowed", message)


def unauthorized() -> ApiError:
    """Return the refusal of a request that is not authenticated."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def not_acceptable() -> ApiError:
    """Return the refusal of a response in another encoding than JSON."""
    message = f"only the following media types are accepted: {JSON}"
    return ApiError(406, "NotAcceptable", message)


def unsupported(accepted: tuple[str, ...] = (JSON,)) -> ApiError:
    """Return the refusal of a body in another encoding."""
    message = (
        "the body of the request was in an unknown format - accepted media types include:"
        f" {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(message: str = f"limit is {LIMIT}") -> ApiError:
    """Return the refusal of a body that is too long."""
    text = f"Request entity too large: {message}"
    return ApiError(413, "RequestEntityTooLarge", text)


def too_slow() -> ApiError:
    """Return the refusal of a body that does not arrive."""
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(504, "Timeout", message)


def unreadable(kind: str, why: str, body: bytes) -> ApiError:
    """Return the refusal of a body that is no object."""
    what = f"the object provided is unrecognized (must be of type {kind})"
    return bad_request(f"{what}: {why} ({_summary(body)})")


def _summary(body: bytes, limit: int = 30) -> str:
    if not body:
        return "<empty>"
    cut = body[:limit]
    text = cut.decode(errors="replace") if body.startswith(b"{") else cut.hex()
    return f"{text} ..." if len(body) > limit else text


def wrong_option(options: str, field: str, reason: str, why: str) -> ApiError:
    """Return the refusal of a request's option: ``options`` is ListOptions, for one."""
    group = "meta.k8s.io"
    message = f'{options}.{group} "" is invalid: {field}: {why}'
    causes = [{"reason": reason, "message": why, "field": field}]
    return ApiError(422, "Invalid", message, {"group": group, "kind": options, "causes": causes})


def no_version(text: str) -> ApiError:
    """Return the refusal of a resourceVersion that is no number of 64 bits: the client's mistake.

    kube-apiserver calls it its own (500, kubernetes/kubernetes#101350).
    """
    shown = text if len(text) <= 64 else f"{text[:64]}..."
    number = text.isascii() and text.isdigit()
    parse = f'strconv.ParseUint: parsing "{shown}": {_RANGE if number else _SYNTAX}'
    return bad_request(f'resourceVersion: Invalid value: "{shown}": {parse}')


def not_there_yet(version: int, current: int) -> ApiError:
    """Return the refusal of a version that has not been reached."""
    what = "Too large resource version"
    message = f"Timeout: {what}: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": what}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
