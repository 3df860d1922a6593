"""How the suite takes away what it made, whatever became of it, and sees its namespaces off.

What has finalizers and no controller to take them away is freed of them: it is ours. A namespace
goes when a controller has emptied it; on a server without one it is ended by the suite, after a
while in which no controller has said anything of it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from policy_sched.client.apimachinery import resources
from policy_sched.client.kube.rest.client import MERGE_PATCH, Api
from policy_sched.client.kube.rest.errors import NOT_FOUND, collection_path, object_path
from policy_sched.client.kube.time.work_queue import SECOND
from policy_sched.errors import ClusterError
from policy_sched.model.kinds import Kind
from tests.client.kube.conformance.servers import CLOCKS, NAMED, SERVERS
from tests.client.kube.conformance.wire import Wire

Plain = dict[str, Any]

IN_NAMESPACES: Final[tuple[Kind, ...]] = (
    resources.POD,
    resources.CLAIM,
    ("coordination.k8s.io/v1", "Lease"),
    ("events.k8s.io/v1", "Event"),
)
"""Kinds of which there may be more in a namespace of ours than the tests know of."""
AT_ONCE: Final = {"gracePeriodSeconds": 0}
FREE: Final = {"metadata": {"finalizers": None}}
SILENCE: Final = 15.0
"""Seconds after which a controller has begun with a namespace (kube-controller-manager: 5)."""
PATIENCE: Final = 120.0
"""Seconds in which a controller is done with it."""

DELETED: list[str] = []
"""Namespaces of the named server that were deleted, and may still be there."""


class LeftBehind(Exception):  # noqa: N818 - named after what is left
    """Something is still there that the suite has made."""


async def clear(api: Api, made: list[tuple[Kind, str, str]], namespace: str) -> None:
    """Delete what was made, the namespace last. Raises LeftBehind if something cannot be."""
    trouble: list[str] = []
    for kind in IN_NAMESPACES:
        await _delete(api, collection_path(kind, namespace), trouble)
    for one in reversed(made):
        await _delete(api, object_path(*one), trouble)
    if trouble:
        raise LeftBehind("; ".join(trouble))


async def _delete(api: Api, path: str, trouble: list[str]) -> None:
    """Delete one thing or all of a kind, and free what waits for its finalizers."""
    try:
        body = await api.request("DELETE", path, AT_ONCE, repeatable=True)
        answer = json.loads(body)
        for one in answer.get("items") or [answer]:
            await _free(api, path, one)
    except resources.ApiError as error:
        if error.code != NOT_FOUND:
            trouble.append(str(error))
    except ClusterError as error:
        trouble.append(str(error))


async def _free(api: Api, path: str, last: Plain) -> None:
    """Take the finalizers of an object that was deleted, given its last state."""
    meta = last.get("metadata") or {}
    if last.get("kind") == "Namespace" or not meta.get("finalizers"):
        return
    name = meta["name"]
    itself = path if path.endswith(f"/{name}") else f"{path}/{name}"
    try:
        await api.request("PATCH", itself, FREE, content_type=MERGE_PATCH, repeatable=True)
    except resources.ApiError as error:
        if error.code != NOT_FOUND:
            raise


async def see_off() -> None:
    """Wait until the namespaces of the named server have gone. Raises LeftBehind."""
    names = list(DELETED)
    DELETED.clear()
    if not names:
        return
    async with SERVERS[NAMED]() as served, Wire(served.access, CLOCKS, "leaving") as api:
        left = [one for one in await asyncio.gather(*(end(api, n) for n in names)) if one]
    if left:
        raise LeftBehind(f"namespaces that are still there: {' '.join(left)}")


async def end(api: Api, name: str) -> str:
    """Wait until a namespace has gone, or end it; return its name if it stays."""
    path = object_path(resources.NAMESPACE, "", name)
    try:
        last = await _last_seen(api, path)
        if last is not None and not _looked_at(last):
            ended = {**last, "spec": {"finalizers": []}}
            await api.request("PUT", f"{path}/finalize", ended)
            await _delete(api, path, [])  # some servers end it only now
            last = await _last_seen(api, path)
    except ClusterError:
        return name
    return "" if last is None else name


async def _last_seen(api: Api, path: str) -> Plain | None:
    """Wait until a namespace has gone: None; or until it is clear that no controller handles it."""
    sleep, now = api.environment.sleep, api.environment.clocks.monotonic
    began = now()
    while True:
        try:
            found: Plain = json.loads(await api.get(path))
        except resources.ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None
        if now() - began > (PATIENCE if _looked_at(found) else SILENCE) * SECOND:
            return found
        await sleep(0.5)


def _looked_at(namespace: Plain) -> bool:
    """Tell whether a controller has said how far a namespace's end is."""
    return bool((namespace.get("status") or {}).get("conditions"))
