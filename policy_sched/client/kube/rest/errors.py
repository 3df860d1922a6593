"""Paths of objects in the API, and the responses of an API server that refuse a request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from policy_sched.client.apimachinery import ApiError, resource
from policy_sched.errors import ClusterError
from policy_sched.manifests import fit_partly
from policy_sched.model import Kind

Place = tuple[str, str]
"""Namespace ("" for what lives in none) and name."""


class Selection(msgspec.Struct, frozen=True):
    """Objects of one kind: in one namespace or all (""), and those that selectors select.

    ``plural`` is the resource of a kind that only discovery knows, "" for others.
    """

    kind: Kind
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""
    plural: str = ""

    @property
    def path(self) -> str:
        """The path of the collection."""
        if self.plural:
            return f"{version_path(self.kind[0])}/{self.plural}"
        return collection_path(self.kind, self.namespace)

    def object_path(self, namespace: str, name: str, subresource: str = "") -> str:
        """Return the path of an object of the kind, or of a subresource of it."""
        if not self.plural:
            return object_path(self.kind, namespace, name, subresource)
        inside = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
        path = f"{version_path(self.kind[0])}/{inside}{self.plural}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def query(self, **more: str) -> dict[str, str]:
        """Return the selectors as parameters of a request, with others."""
        given = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in {**given, **more}.items() if value}


def version_path(api_version: str) -> str:
    """Return the path of a version of an API."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


@lru_cache(maxsize=1024)
def collection_path(kind: Kind, namespace: str = "") -> str:
    """Return the path of a kind's objects. Raises ApiError for a kind that is not known."""
    served = resource(kind)
    root = version_path(kind[0])
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace and served.namespaced else ""
    return f"{root}{inside}/{served.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of an object or of a subresource of it."""
    # Nearly all names can stand as they are; a lone pod finds a regular expression cold.
    plain = name.isascii() and name.replace("-", "a").replace(".", "a").isalnum()
    quoted = name if plain else quote(name, safe="")
    path = f"{collection_path(kind, namespace)}/{quoted}"
    return f"{path}/{subresource}" if subresource else path


GONE: Final = 410
CONFLICT: Final = 409
NOT_FOUND: Final = 404
UNAUTHORIZED: Final = 401
TOO_MANY: Final = 429
LONGEST_TEXT: Final = 1024
"""Characters of a response that is no Status which a message repeats (client-go: 2048 bytes)."""
LONGEST_WAIT: Final = 300.0
"""Seconds of Retry-After that are believed."""

_REASONS: Final[Mapping[int, str]] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""Reasons of responses that say none (apimachinery, NewGenericServerResponse)."""


class Unreachable(ClusterError):  # noqa: N818 - what is wrong is the connection
    """No response: the server was not reached, was too slow or broke off.

    ``sent``: whether the request may have arrived, so that it may have been carried out.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Malformed(ClusterError):  # noqa: N818 - what is wrong is the response
    """An unreadable response: it is not JSON, or has another form than expected."""


class ApiStatus(msgspec.Struct, rename="camel"):
    """metav1.Status."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


def error_of_status(status: ApiStatus) -> ApiError:
    """Return the refusal that a Status object is."""
    code = status.code or 500
    reason = status.reason or _REASONS.get(code, "")
    return ApiError(code, reason, status.message or reason or str(code), status.details)


def error_of_response(code: int, body: bytes) -> ApiError:
    """Return the refusal that a response is; its body is a Status, unless a proxy wrote it."""
    try:
        status = fit_partly(msgspec.json.decode(body), ApiStatus)
    except (ValueError, RecursionError):
        status = ApiStatus()
    if status.kind == "Status" and (status.message or status.reason):
        status.code = status.code or code
        return error_of_status(status)
    text = " ".join(body[: 4 * LONGEST_TEXT].decode(errors="replace").split())[:LONGEST_TEXT]
    phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "no reason"
    message = f"the server responded with {code} ({phrase})" + (f": {text}" if text else "")
    return ApiError(code, _REASONS.get(code, ""), message)


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header names; None if it names none.

    Seconds, or an HTTP date if ``now`` is given. No more than LONGEST_WAIT.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT)
    if now is None:
        return None
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(0.0, (aware - now).total_seconds()), LONGEST_WAIT)


def wait_of(error: ClusterError) -> float | None:
    """Return the seconds of Retry-After, None if the response has none."""
    if not isinstance(error, ApiError):
        return None
    seconds = error.details.get("retryAfterSeconds")
    if isinstance(seconds, int | float) and seconds > 0:
        return min(float(seconds), LONGEST_WAIT)
    return None


def expired(error: ApiError) -> bool:
    """Return whether a version is too old to go on from: list again."""
    return error.code == GONE or error.reason in ("Expired", "Gone")
