"""Subresources that are no part of an object: bindings, evictions, scales."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import ApiError, bad_request
from policy_sched.embedded.admission import invalid
from policy_sched.embedded.apiserver.endpoints.decode import object_of_kind
from policy_sched.embedded.apiserver.endpoints.eviction import Evictions
from policy_sched.embedded.apiserver.endpoints.write import Writing, patch_of, patched
from policy_sched.embedded.apiserver.printers import selector_text
from policy_sched.embedded.apiserver.request import Sent, Target
from policy_sched.embedded.apiserver.security import AccountTokens, token_requests
from policy_sched.embedded.schema import typed
from policy_sched.embedded.store import Key, ObjectStore
from policy_sched.manifests import Plain

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
        place = sent.target.namespace, sent.target.name
        request = object_of_kind(sent.body, sent.content_type, token_requests.KIND)
        return token_requests.answer(self._store, self._tokens, place, request)

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
            # kube-apiserver answers these with code 500, although they are the client's mistakes.
            raise ApiError(422, "Invalid", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
        with self._writing.perhaps(dry=sent.options.dry_run):
            self._store.bind(target.namespace, name, binding)
        return DONE

    def evict(self, sent: Sent) -> Plain:
        """Delete a pod if its disruption budget allows it."""
        self._evictions.evict(sent)
        return DONE

    def scale(self, target: Target) -> Plain:
        """Return how many pods a workload shall have, and has."""
        stored = self._store.get(*_parts(target.key))
        data = stored.data
        meta, spec, status = data["metadata"], data.get("spec") or {}, data.get("status") or {}
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        selector = spec.get("selector")
        if target.served.kind == "ReplicationController":
            selector = {"matchLabels": selector or {}}
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: meta[key] for key in kept if key in meta},
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
        data["spec"] = {**(data.get("spec") or {}), "replicas": wanted}
        self._writing.note(sent, stored, data)
        with self._writing.perhaps(dry=sent.options.dry_run):
            self._store.update(data)
        return self.scale(target)


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
