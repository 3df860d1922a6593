"""The verb ``rollout``: where a rollout is, and how it is promoted or aborted."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from cyclopts import Parameter

from policy_sched.cli.input.live_cluster import environment_of
from policy_sched.cli.output.diagnostics import OK
from policy_sched.cli.output.report import write_report
from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.rest import MERGE_PATCH, NOT_FOUND, Api, Settings
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.http import Address
from policy_sched.profiles.models import POLICY_API_VERSION
from policy_sched.report import json_text
from policy_sched.rollout import (
    ANNOTATIONS,
    Action,
    Phase,
    RolloutReport,
    StateError,
    report_of_object,
    state_of_object,
)

_PATH: Final = f"/apis/{POLICY_API_VERSION}/rollouts"
_SERVER: Final = "http://127.0.0.1:10259"
_SECONDS: Final = 30.0
"""That a scheduler may take to answer."""
_MOST: Final = 4 << 20
"""Bytes of an answer that are read."""
_NO_KIND: Final = (
    "the cluster has no kind Rollout: policy-sched manifests --crds | kubectl apply -f -"
)
Output = Literal["text", "json"]
Form = TypeVar("Form")


def rollout(
    action: Annotated[Literal["status", "promote", "abort"], Parameter(name="ACTION")],
    name: Annotated[str, Parameter(name="NAME")] = "",
    /,
    *,
    kubeconfig: str | None = None,
    server: str | None = None,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Show where a rollout is, or promote or abort its candidate.

    With --kubeconfig the rollout is an object of that cluster: its status is read, and a promotion
    or an abort is written to it as an annotation that names the candidate, which takes the
    right to patch it. Otherwise a scheduler on this machine is asked at its endpoints.

    Parameters
    ----------
    action
        status: steps, measures of both sides, abort rules with their figures, the last differences;
        promote: the candidate decides everything now; abort: the set in force stays.
    name
        The Rollout; needed with --kubeconfig where there are several.
    kubeconfig
        The cluster of this kubeconfig, or of the pod that the process runs in (in-cluster).
    server
        Without --kubeconfig: the endpoints of a scheduler on this machine, http://127.0.0.1:10259
        unless given. `run --secure-port` turns them on.
    output
        text, or json; of several rollouts that is a list, `items`.
    """
    if kubeconfig is not None:
        if server is not None:
            raise PolicySchedError("--server does not go together with --kubeconfig")
        return asyncio.run(_of_cluster(action, name, kubeconfig, output))
    return _of_scheduler(action, name, server or _SERVER, output)


# A scheduler on this machine.


def _of_scheduler(action: str, name: str, server: str, output: Output) -> int:
    """Ask the endpoints of a scheduler, and print what they answer."""
    report = _asked(server, "GET", "/rollout")
    if name and report.name != name:
        raise PolicySchedError(f"{server} rolls out {report.name}, not {name}")
    if action != "status":
        query = urlencode({"candidate": report.candidate})
        report = _asked(server, "POST", f"/-/rollout/{action}?{query}")
    write_report(report, output)
    return OK


def _asked(server: str, method: str, path: str) -> RolloutReport:
    """Return the answer of a scheduler. Raises ClusterError."""
    connection = _connection(server)
    try:
        connection.request(method, path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(_MOST)
    except (OSError, http.client.HTTPException) as error:
        hint = "policy-sched run --secure-port turns the endpoints on"
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ClusterError(f"{server} cannot be asked: {reason}; {hint}") from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        answered = f"{server}: {response.status} {response.reason}"
        raise ClusterError(_refusal(body) or f"{answered}; is it a scheduler with rollouts?")
    return _decoded(body, RolloutReport, f"{server} is no scheduler that this command knows")


def _decoded(body: bytes, form: type[Form], what: str) -> Form:
    """Return an answer that has a form. Raises ClusterError, which says ``what`` it is if not."""
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ClusterError(f"{what}: {error}") from None


def _connection(server: str) -> http.client.HTTPConnection:
    """Return a connection to this machine. Raises PolicySchedError for another one."""
    try:
        parts = urlsplit(server)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        scheme, host, port = "", "", None
    if scheme not in ("http", "https") or not Address(host, port or 0).loopback:
        why = "name a scheduler on this machine, as http://127.0.0.1:10259"
        raise PolicySchedError(f"--server {server}: {why}; a cluster is named by --kubeconfig")
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)


def _refusal(body: bytes) -> str:
    """Return the message of a Status, empty if the body is none."""
    try:
        message = msgspec.json.decode(body).get("message", "")
    except (msgspec.DecodeError, AttributeError):
        return ""
    return message if isinstance(message, str) else ""


# An object of a cluster.


async def _of_cluster(action: str, name: str, kubeconfig: str, output: Output) -> int:
    environment, access = environment_of(kubeconfig)
    settings = Settings(qps=50, burst=100, timeout=_SECONDS, read_only=action == "status")
    async with Api(access, environment, settings) as api:
        objects = await _objects(api, name)
        if action == "status":
            return _shown(objects, output)
        if len(objects) > 1:
            names = ", ".join(sorted(item["metadata"]["name"] for item in objects))
            raise PolicySchedError(f"there are several rollouts: name one of {names}")
        (item,) = objects
        await _request(api, "promote" if action == "promote" else "abort", item, output)
    return OK


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Head(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[dict[str, Any]]


async def _objects(api: Api, name: str) -> list[dict[str, Any]]:
    """Return the rollout of a name, or all. Raises ClusterError if there is none."""
    path = f"{_PATH}/{quote(name, safe='')}" if name else _PATH
    try:
        body = await api.get(path)
    except ApiError as error:
        if error.code == NOT_FOUND and not error.details.get("name"):
            raise ClusterError(_NO_KIND) from None
        raise
    what = "the cluster answers with no Rollout"
    items = [_decoded(body, dict[str, Any], what)] if name else _decoded(body, _List, what).items
    if not items:
        raise ClusterError("the cluster has no Rollout")
    try:
        msgspec.convert(items, list[_Head])
    except msgspec.ValidationError as error:
        raise ClusterError(f"{what}: {error}") from None
    implied = {"apiVersion": POLICY_API_VERSION, "kind": "Rollout"}
    return [{**implied, **item} for item in items]


def _shown(objects: list[dict[str, Any]], output: Output) -> int:
    """Print the status of rollouts; those that have not begun say so."""
    reports: list[RolloutReport] = []
    for value in objects:
        try:
            reports.append(report_of_object(value))
        except StateError as error:
            if len(objects) == 1:
                raise
            print(f"policy-sched: {error}", file=sys.stderr)
    if output == "json" and len(objects) > 1:
        sys.stdout.write(json_text({"items": [report.document() for report in reports]}))
        return OK
    for number, report in enumerate(reports):
        if number:
            sys.stdout.write("\n")
        write_report(report, output)
    return OK


async def _request(api: Api, action: Action, value: Mapping[str, Any], output: Output) -> None:
    """Write what is asked of a rollout to its object."""
    name, state = value["metadata"]["name"], state_of_object(value)
    if state is None:
        raise PolicySchedError(f"rollout {name} has not begun: there is nothing to {action}")
    if state.phase is not Phase.PROGRESSING:
        ended = f"{state.phase}: {state.message}" if state.message else state.phase
        raise PolicySchedError(f"rollout {name} has ended ({ended})")
    asked, key = state.candidate, ANNOTATIONS[action]
    if value["status"].get("answered", {}).get(action, "").partition("/")[0] == asked:
        asked += f"/{value['metadata']['resourceVersion']}"  # it was tried before
    patch = {"metadata": {"annotations": {key: asked}}}
    body = await api.request(
        "PATCH", f"{_PATH}/{quote(name, safe='')}", patch, content_type=MERGE_PATCH, repeatable=True
    )
    if output == "json":
        sys.stdout.write(json_text(msgspec.json.decode(body)))
    else:
        print(f"rollout.policysched.dev/{name}: {action} of {state.candidate[:12]} requested")
