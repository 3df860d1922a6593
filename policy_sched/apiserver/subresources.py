"""Subresources that are no part of an object: bindings, evictions, scales."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.apiserver.bodies import object_data
from policy_sched.apiserver.calls import Sent, Target
from policy_sched.apiserver.refusals import unreadable
from policy_sched.apiserver.security import token_requests
from policy_sched.apiserver.security.account_tokens import AccountTokens
from policy_sched.apiserver.workload_cells import selector_text
from policy_sched.apiserver.writing import Writing, patch_of, patched
from policy_sched.client.embedded.api_error import ApiError, bad_request
from policy_sched.client.embedded.deletion import ENDED, DeleteOptions
from policy_sched.client.embedded.pod_changes import set_condition
from policy_sched.client.embedded.refusals import invalid
from policy_sched.client.embedded.resources import BUDGET, POD
from policy_sched.client.embedded.store import Key, ObjectStore
from policy_sched.client.embedded.stored import Stored
from policy_sched.client.embedded.times import timestamp
from policy_sched.model.disruption import PodDisruptionBudget
from policy_sched.model.expansion import Plain
from policy_sched.model.pod import Pod
from policy_sched.model.selectors import label_selector

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

    def token(self, sent: Sent) -> Plain:
        """Return a token of a service account."""
        place = sent.target.namespace, sent.target.name
        request = _read(sent.body, sent.content_type, token_requests.KIND)
        return token_requests.answer(self._store, self._tokens, place, request)

    def bind(self, sent: Sent) -> Plain:
        """Bind a pod to a node."""
        target, binding = sent.target, _read(sent.body, sent.content_type, "Binding")
        meta, node = binding.get("metadata") or {}, (binding.get("target") or {}).get("name")
        name = target.name or meta.get("name") or ""
        if target.name and meta.get("name") not in (None, "", target.name):
            what = f"the name of the object ({meta['name']}) does not match the name on the URL"
            raise bad_request(f"{what} ({target.name})")
        if not isinstance(node, str) or not node:
            why = "Required value"
            pod = target.served.resource
            raise invalid(pod, name, "target.name", "FieldValueRequired", why)
        with self._writing.perhaps(dry=sent.options.dry_run):
            self._store.bind(target.namespace, name, binding)
        return DONE

    def evict(self, sent: Sent) -> Plain:
        """Delete a pod if its disruption budget allows it."""
        target, eviction = sent.target, _read(sent.body, sent.content_type, "Eviction")
        given = eviction.get("deleteOptions") or {}
        before = given.get("preconditions") or {}
        stored = self._store.get(POD, target.namespace, target.name)
        typed = stored.typed
        assert isinstance(typed, Pod)
        dry = sent.options.dry_run or given.get("dryRun") == ["All"]
        free = not typed.spec.node_name or typed.status.phase in ENDED or stored.deleting
        deletion = DeleteOptions(
            given.get("gracePeriodSeconds"), before.get("uid"), before.get("resourceVersion")
        )
        with self._writing.perhaps(dry=dry):
            if not free:
                self._take_from_budget(stored)
                self._store.revise(stored, self._marked(stored))
            self._store.delete(target.key, deletion)
        return DONE

    def _marked(self, pod: Stored) -> Plain:
        data = pod.data
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        set_condition(data.setdefault("status", {}), condition, self._store.now())
        return data

    def _take_from_budget(self, pod: Stored) -> None:
        """Count a pod's disruption. Raises ApiError if no more are allowed."""
        found = [one for one in self._store.select(BUDGET, pod.namespace) if _covers(one, pod)]
        if len(found) > 1:
            raise ApiError(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource"
                " does not support.",
            )
        for budget in found:
            typed = budget.typed
            assert isinstance(typed, PodDisruptionBudget)
            status = typed.status
            if status.disruptions_allowed <= 0:
                raise _over_budget(budget.name, status.desired_healthy, status.current_healthy)
            data = budget.data
            data["status"]["disruptionsAllowed"] = status.disruptions_allowed - 1
            gone = data["status"].setdefault("disruptedPods", {})
            gone[pod.name] = timestamp(self._store.now())
            self._store.revise(budget, data)

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
        return self._scaled(sent, _read(sent.body, sent.content_type, "Scale"))

    def patch_scale(self, sent: Sent) -> Plain:
        """Patch how many pods a workload shall have."""
        patch = patch_of(sent.body, sent.content_type)
        return self._scaled(sent, patched(self.scale(sent.target), patch, sent.content_type))

    def _scaled(self, sent: Sent, scale: Any) -> Plain:
        target = sent.target
        if not isinstance(scale, dict) or not isinstance(scale.get("spec") or {}, dict):
            raise bad_request("json: cannot unmarshal Scale.spec")
        wanted = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            raise bad_request("json: cannot unmarshal Scale.spec.replicas into int32")
        if not 0 <= wanted < 2**31:
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


def _read(body: bytes, content_type: str, kind: str) -> Plain:
    """Return the object of a kind that a body holds."""
    data = object_data(body, content_type, kind)
    if not isinstance(data, dict) or data.get("kind") not in (None, kind):
        raise unreadable(kind, "couldn't get version/kind", body)
    for field in ("metadata", "spec", "target", "deleteOptions"):
        if not isinstance(data.get(field) or {}, dict):
            raise unreadable(kind, f"json: cannot unmarshal {field}", body)
    return data


def _covers(budget: Stored, pod: Stored) -> bool:
    typed = budget.typed
    assert isinstance(typed, PodDisruptionBudget)
    selector = label_selector(typed.spec.selector)
    return selector is not None and selector.matches(pod.labels)


def _over_budget(name: str, desired: int, current: int) -> ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    why = f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return ApiError(429, "TooManyRequests", message, {"causes": causes})
