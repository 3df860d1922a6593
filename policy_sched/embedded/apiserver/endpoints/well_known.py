"""Responses that are no objects: discovery, health, version, the API's description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from policy_sched.client.apimachinery import encoded
from policy_sched.embedded.apiserver.endpoints.negotiation import DISCOVERY, Accepted, accepted
from policy_sched.embedded.apiserver.registry import JSON, NoSuchPage, discovery, not_acceptable
from policy_sched.embedded.apiserver.security import HEALTH

TEXT: Final = "text/plain; charset=utf-8"
_STORAGE: Final = "storage-readiness"
_CHECKS: Final = ("ping", "log", _STORAGE)


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """The body of a response, and its media type."""

    body: bytes
    content_type: str = JSON
    status: int = 200


def document(
    path: str, accept: str, host: str, trouble: Callable[[], str], *, verbose: bool
) -> ResponseBody | None:
    """Return what is under a path, None if it is none of these.

    Raises ApiError if it is not in an accepted form. ``host``: host and port that were reached.
    ``trouble`` returns why changes cannot be written, "" if they can.
    """
    parts = path.strip("/").split("/")
    match parts:
        case [""]:
            return _json({"paths": ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"]})
        case ["version"]:
            return _json(discovery.VERSION)
        case [name, *rest] if name in HEALTH:
            return _health(name, rest, trouble, verbose=verbose)
        case ["openapi", *rest]:
            return _openapi(rest, accept)
        case ["api"]:
            return _discovered(accept, lambda: discovery.api_versions(host), core=True)
        case ["apis"]:
            return _discovered(accept, discovery.group_list, core=False)
        case ["api", version]:
            return _found(discovery.resource_list("", version), accept)
        case ["apis", group]:
            return _found(discovery.group(group), accept)
        case ["apis", group, version]:
            return _found(discovery.resource_list(group, version), accept)
    return None


def _json(value: object) -> ResponseBody:
    return ResponseBody(encoded(value) + b"\n")


def _found(value: object | None, accept: str) -> ResponseBody:
    if value is None:
        raise NoSuchPage
    accepted(accept, ())
    return _json(value)


def _discovered(accept: str, classic: Callable[[], object], *, core: bool) -> ResponseBody:
    form: Accepted = accepted(accept, (DISCOVERY,))
    if form.shown_as == DISCOVERY:
        return ResponseBody(encoded(discovery.aggregated(core=core)) + b"\n", form.content_type)
    return _json(classic())


def _health(
    name: str, rest: list[str], trouble: Callable[[], str], *, verbose: bool
) -> ResponseBody:
    """Report at a health path. A server that cannot write is not ready, and lives on."""
    if rest and rest[0] not in _CHECKS:
        raise NoSuchPage
    failed = name == "readyz" and (not rest or rest[0] == _STORAGE) and bool(trouble())
    if not failed and (not verbose or rest):
        return ResponseBody(b"ok", TEXT)
    lines = [f"[+]{check} ok" for check in _CHECKS if not (failed and check == _STORAGE)]
    if failed:
        lines.append(f"[-]{_STORAGE} failed: reason withheld")
    lines += [f"{name} check {'failed' if failed else 'passed'}", ""]
    return ResponseBody("\n".join(lines).encode(), TEXT, 500 if failed else 200)


def _openapi(rest: list[str], accept: str) -> ResponseBody:
    match rest:
        case ["v2"]:
            if "protobuf" in accept.partition(",")[0]:
                return ResponseBody(discovery.openapi_v2_protobuf(), discovery.OPENAPI_V2_PROTOBUF)
            return _json(discovery.openapi_v2())
        case ["v3"]:
            return _json(discovery.openapi_v3_index())
        case ["v3", *path]:
            if accept and "json" not in accept and "*" not in accept:
                raise not_acceptable()
            schema = discovery.openapi_v3("/".join(path))
            if schema is not None:
                return _json(schema)
    raise NoSuchPage
