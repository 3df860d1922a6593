"""ApiError: what the API server says when it refuses."""

from __future__ import annotations

from typing import Any

from policy_sched.errors import ClusterError
from policy_sched.model import Kind


def cannot_be_handled(kind: Kind, why: str) -> ApiError:
    """Return the refusal of what is no object of its kind."""
    version = kind[0].rpartition("/")[2]
    return bad_request(f'{kind[1]} in version "{version}" cannot be handled as a {kind[1]}: {why}')


class ApiError(ClusterError):
    """A refusal; ``status()`` is the metav1.Status that a client gets."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the body of the response."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}


class Expired(ApiError):  # noqa: N818 - the API's own name of the reason
    """A watch asked for changes that are not remembered any more; list again."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(410, "Expired", f"too old resource version: {asked} ({oldest})")


def bad_request(message: str) -> ApiError:
    """Return the refusal of something that cannot be read."""
    return ApiError(400, "BadRequest", message)
