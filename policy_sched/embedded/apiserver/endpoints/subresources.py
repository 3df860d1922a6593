"""Subresources: bindings, evictions, scales, tokens, and those that need a kubelet.

Logs, commands in containers and ports need a kubelet, and there is none. Such requests are checked
as the API server checks them, and then fail as on a cluster without a reachable kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, Stored, bad_request
from policy_sched.embedded.admission import invalid
from policy_sched.embedded.apiserver.endpoints.negotiation import object_of_kind
from policy_sched.embedded.apiserver.endpoints.write import Writing, patch_of, patched
from policy_sched.embedded.apiserver.printers import selector_text, values_at
from policy_sched.embedded.apiserver.request import RequestTarget, Sent
from policy_sched.embedded.apiserver.security import TOKEN_REQUEST, AccountTokens, token_for
from policy_sched.embedded.schema import CustomVersion, typed
from policy_sched.embedded.store import DeleteOptions, Key, ObjectStore, evict
from policy_sched.manifests import Plain
from policy_sched.model import Pod

PATHS: Final = {
    "attach": "attach",
    "exec": "exec",
    "log": "containerLogs",
    "portforward": "portForward",
}
"""The kubelet's paths, by subresource."""
_PORT: Final = 10250


def refusal(target: RequestTarget, stored: Stored, query: Mapping[str, str]) -> ApiError:
    """Return why a pod's container cannot be reached."""
    pod = stored.typed
    assert isinstance(pod, Pod)
    part, wanted = target.subresource, query.get("container", "")
    names = [each.name for each in (*pod.spec.init_containers, *pod.spec.containers)]
    if part != "portforward" and wanted not in ("", *names):
        return bad_request(f"container {wanted} is not valid for pod {stored.name}")
    if part != "portforward" and not wanted and len(pod.spec.containers) > 1:
        shown = " ".join(each.name for each in pod.spec.containers)
        what = f"a container name must be specified for pod {stored.name}"
        return bad_request(f"{what}, choose one of: [{shown}]")
    node = pod.spec.node_name
    if not node:
        return bad_request(f"pod {stored.name} does not have a host assigned")
    container = wanted or pod.spec.containers[0].name if pod.spec.containers else wanted
    path = f"{stored.namespace}/{stored.name}"
    if part != "portforward":
        path += f"/{container}"
    url = f"https://{node}:{_PORT}/{PATHS[part]}/{path}"
    verb = "Get" if part == "log" else "Post"
    message = f'{verb} "{url}": dial tcp: lookup {node}: no such host'
    return ApiError(500, "", message)


class Evictions:
    """Evicts the pods of a store."""

    def __init__(self, store: ObjectStore, writing: Writing) -> None:
        self._store = store
        self._writing = writing

    def evict(self, sent: Sent) -> None:
        """Delete a pod if its disruption budget allows it. Raises ApiError."""
        target, eviction = sent.target, object_of_kind(sent.body, sent.content_type, "Eviction")
        given = eviction.get("deleteOptions") or {}
        before = given.get("preconditions") or {}
        dry = sent.options.dry_run or given.get("dryRun") == ["All"]
        deletion = DeleteOptions(
            given.get("gracePeriodSeconds"), before.get("uid"), before.get("resourceVersion")
        )
        with self._writing.committing(dry=dry):
            evict(self._store, target.key, deletion)


DONE: Final[Plain] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class Subresources:
    """Serves the subresources of a store's objects."""

    def __init__(self, store: ObjectStore, writing: Writing, tokens: AccountTokens) -> None:
        self._store = store
        self._writing = writing
        self._tokens = tokens
        self._evictions = Evictions(store, writing)

    def token(self, sent: Sent) -> Plain:
        """Return a token of a service account."""
        account = sent.target.namespace, sent.target.name
        request = object_of_kind(sent.body, sent.content_type, TOKEN_REQUEST)
        return token_for(self._store, self._tokens, account, request)

    def bind(self, sent: Sent) -> Plain:
        """Bind a pod to a node."""
        target, binding = sent.target, object_of_kind(sent.body, sent.content_type, "Binding")
        meta = binding.get("metadata") or {}
        name = target.name or meta.get("name") or ""
        if target.name and meta.get("name") not in (None, "", target.name):
            what = f"the name of the object ({meta['name']}) does not match the name on the URL"
            raise bad_request(f"{what} ({target.name})")
        wrong = _wrong_target(binding.get("target") or {})
        if wrong:
            # kube-apiserver reports these with code 500, although they are the client's mistakes.
            raise ApiError(422, "Invalid", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
        with self._writing.committing(dry=sent.options.dry_run):
            self._store.bind(target.namespace, name, binding)
        return DONE

    def evict(self, sent: Sent) -> Plain:
        """Delete a pod if its disruption budget allows it."""
        self._evictions.evict(sent)
        return DONE

    def scale(self, target: RequestTarget) -> Plain:
        """Return how many pods a workload shall have, and has."""
        stored = self._store.get(*_parts(target.key))
        data = stored.data
        if target.served.custom:
            return _custom_scale(target.served.custom, data)
        meta, spec, status = data["metadata"], data.get("spec") or {}, data.get("status") or {}
        selector = spec.get("selector")
        if target.served.kind == "ReplicationController":
            selector = {"matchLabels": selector or {}}
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: meta[key] for key in _SCALED if key in meta},
            "spec": {"replicas": spec.get("replicas", 1)},
            "status": {
                "replicas": status.get("replicas") or 0,
                "selector": selector_text(selector),
            },
        }

    def set_scale(self, sent: Sent) -> Plain:
        """Replace how many pods a workload shall have."""
        return self._scaled(sent, object_of_kind(sent.body, sent.content_type, "Scale"))

    def patch_scale(self, sent: Sent) -> Plain:
        """Patch how many pods a workload shall have."""
        patch = patch_of(sent.body, sent.content_type)
        return self._scaled(sent, patched(self.scale(sent.target), patch, sent.content_type))

    def _scaled(self, sent: Sent, scale: Any) -> Plain:
        target = sent.target
        if not isinstance(scale, dict):
            raise bad_request("expected an object of kind Scale")
        scale = typed(("autoscaling/v1", "Scale"), scale)
        wanted = (scale.get("spec") or {}).get("replicas", 0)
        if wanted < 0:
            why = f"Invalid value: {wanted}: must be greater than or equal to 0"
            resource, name = target.served.resource, target.name
            raise invalid(resource, name, "spec.replicas", "FieldValueInvalid", why)
        stored = self._store.get(*_parts(target.key))
        data = stored.data
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version:
            data["metadata"]["resourceVersion"] = version
        if target.served.custom:
            assert target.served.custom.scale is not None
            _write(data, target.served.custom.scale["specReplicasPath"], wanted)
        else:
            data["spec"] = {**(data.get("spec") or {}), "replicas": wanted}
        self._writing.note(sent, stored, data)
        with self._writing.committing(dry=sent.options.dry_run):
            self._store.update(data)
        return self.scale(target)


_SCALED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""The metadata of an object that its scale has, too."""


def _custom_scale(custom: CustomVersion, data: Plain) -> Plain:
    """Return the scale of a custom object, by the paths of its definition."""
    paths = custom.scale
    assert paths is not None
    replicas = next(iter(values_at(paths["specReplicasPath"], data)), None)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        what = f'the spec replicas field "{paths["specReplicasPath"]}" does not exist'
        raise ApiError(500, "InternalError", f"Internal error occurred: {what}")
    present = next(iter(values_at(paths["statusReplicasPath"], data)), 0)
    selected = paths.get("labelSelectorPath")
    selector = next(iter(values_at(selected, data)), "") if selected else ""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: data["metadata"][key] for key in _SCALED if key in data["metadata"]},
        "spec": {"replicas": replicas},
        "status": {"replicas": present, **({"selector": selector} if selector else {})},
    }


def _write(data: Plain, path: str, value: Any) -> None:
    """Write a field at a path of names."""
    *names, last = path.removeprefix(".").split(".")
    for name in names:
        data = data.setdefault(name, {})
    data[last] = value


def _parts(key: Key) -> tuple[tuple[str, str], str, str]:
    return key.kind, key.namespace, key.name


def _wrong_target(target: Plain) -> list[str]:
    """Return what is wrong with the node that a binding names (ValidatePodBinding)."""
    wrong, kind, name = [], target.get("kind"), target.get("name")
    if kind not in (None, "", "Node"):
        text = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        wrong.append(text)
    if not isinstance(name, str) or not name:
        wrong.append("target.name: Required value")
    return wrong
