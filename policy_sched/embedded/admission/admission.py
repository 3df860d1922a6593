"""Admission of new objects, as in the API server: names, defaults, priority."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.client.apimachinery import Resource, read
from policy_sched.embedded.admission.defaults import fill_in
from policy_sched.embedded.admission.pod_strategy import forbidden, invalid, set_condition
from policy_sched.manifests import SYSTEM_PRIORITIES, Plain, Priorities, fill_in as fill_in_pod


def admit_runtime(
    resource: Resource, data: Plain, find: Callable[[str], model.RuntimeClass | None]
) -> None:
    """Complete a new pod, in place. Raises ApiError if its runtime class does not let it in."""
    spec, pod = data["spec"], data["metadata"]["name"]
    name = spec.get("runtimeClassName")
    if not name and not spec.get("overhead"):
        return
    runtime_class = find(name) if name else None
    if name and runtime_class is None:
        raise forbidden(resource, pod, f'pod rejected: RuntimeClass "{name}" not found')
    typed = msgspec.convert(spec, model.PodSpec)
    try:
        if runtime_class is not None:
            model.admit(typed, runtime_class)
        model.check_overhead(typed, runtime_class)
    except model.RejectedError as error:
        raise forbidden(resource, pod, str(error)) from None
    for field, value in (
        ("overhead", typed.overhead),
        ("nodeSelector", typed.node_selector),
        ("tolerations", [msgspec.to_builtins(toleration) for toleration in typed.tolerations]),
    ):
        if value:
            spec[field] = value


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    f" for validation is '{_NAME.pattern}')"
)
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_TOLERATED_SECONDS: Final = 300
_JOB_DEFAULTS: Final = {
    "parallelism": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
}
KUBERNETES: Final = "kubernetes"
"""The finalizer of a namespace that the namespace controller takes away."""
PREEMPTS: Final = "PreemptLowerPriority"
HIGHEST_PRIORITY: Final = 1_000_000_000
"""The highest value of a class that is not the system's."""


def check_name(resource: Resource, name: str) -> None:
    """Raise ApiError if an object cannot be called so."""
    if not name:
        why = "Required value: name or generateName is required"
        raise invalid(resource, name, "metadata.name", "FieldValueRequired", why)
    if resource.freely_named or (len(name) <= 253 and _NAME.fullmatch(name)):
        return
    why = f'Invalid value: "{name}": {_NAME_WORDS}'
    raise invalid(resource, name, "metadata.name", "FieldValueInvalid", why)


def admit_priority_class(
    resource: Resource, data: Plain, classes: Iterable[model.PriorityClass]
) -> None:
    """Complete a priority class. Raises ApiError if it may not be."""
    name = data["metadata"]["name"]
    if name not in SYSTEM_PRIORITIES:
        if name.startswith("system-"):
            why = (
                f'Invalid value: "{name}": priority class names with'
                " 'system-' prefix are reserved for system use only"
            )
            raise invalid(resource, name, "metadata.name", "FieldValueInvalid", why)
        if data.get("value", 0) > HIGHEST_PRIORITY:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"
            raise forbidden(resource, name, why)
    if data.get("globalDefault"):
        for priority_class in classes:
            if priority_class.global_default and priority_class.metadata.name != name:
                taken = (
                    f"PriorityClass {priority_class.metadata.name} is already marked as default."
                )
                why = f"{taken} Only one default can exist"
                raise forbidden(resource, name, why)
    else:
        data.pop("globalDefault", None)
    data.setdefault("preemptionPolicy", PREEMPTS)


def admit_pod_group(
    resource: Resource, data: Plain, priorities: Priorities, workload: Plain | None
) -> None:
    """Set the priority of a pod group. Raises ApiError if it is refused.

    ``workload``: the workload that it references. (The admissions Priority, and
    PodGroupWorkloadExists of 1.36.)
    """
    spec, name = data["spec"], data["metadata"]["name"]
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload")
    if reference:
        of, template = reference.get("workloadName"), reference.get("podGroupTemplateName")
        if workload is None:
            raise forbidden(resource, name, f'PodGroup rejected: Workload "{of}" not found')
        templates = workload.get("spec", {}).get("podGroupTemplates") or ()
        if all(entry.get("name") != template for entry in templates):
            why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{of}"'
            raise forbidden(resource, name, why)
    pod = model.Pod()
    pod.spec.priority_class_name = given = spec.get("priorityClassName") or ""
    if not priorities.admit(pod):
        raise forbidden(resource, name, f"no PriorityClass with name {given} was found")
    if pod.spec.priority_class_name:
        computed = pod.spec.priority
        if spec.get("priority") not in (None, computed):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod"
                f" group spec; priority admission controller computed {computed} from the given"
                " PriorityClass name"
            )
            raise forbidden(resource, name, why)
        spec["priorityClassName"], spec["priority"] = pod.spec.priority_class_name, computed


def complete(resource: Resource, data: Plain) -> None:
    """Complete a new object of another kind, in place."""
    meta = data["metadata"]
    default(resource, data)
    match resource.kind:
        case "PersistentVolume" | "PersistentVolumeClaim":
            status = data["status"] = data.get("status") or {}
            free = "Available" if resource.kind == "PersistentVolume" else "Pending"
            status.setdefault("phase", free)
        case "Job":
            _select_own_pods(meta, data["spec"])
        case "Namespace":
            label = {"kubernetes.io/metadata.name": meta["name"]}
            meta["labels"] = {**(meta.get("labels") or {}), **label}
            data.setdefault("status", {"phase": "Active"})
            data["spec"] = data.get("spec") or {}
            data["spec"].setdefault("finalizers", [KUBERNETES])
        case "PodDisruptionBudget":
            counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
            data["status"] = dict.fromkeys(counts, 0) | (data.get("status") or {})


def default(resource: Resource, data: Plain) -> None:
    """Fill in what an object of another kind does not say, new or not, in place."""
    match resource.kind:
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" | "DaemonSet":
            data["spec"] = data.get("spec") or {}
            fill_in(resource.kind, data)
        case "Secret":
            _fill_secret(data)
        case "ValidatingWebhookConfiguration":
            _fill_webhooks(data)
        case "Service" | "PersistentVolume" | "PersistentVolumeClaim":
            fill_in(resource.kind, data)
        case "ResourceClaim" | "ResourceClaimTemplate":
            fill_in(resource.kind, data)
        case "StorageClass":
            for field, usual in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
                data[field] = data.get(field) or usual
        case "Job":
            spec = data["spec"] = data.get("spec") or {}
            if spec.get("completions") is None and spec.get("parallelism") is None:
                spec["completions"] = 1
            for field, value in _JOB_DEFAULTS.items():
                if spec.get(field) is None:
                    spec[field] = value


_WEBHOOK_DEFAULTS: Final = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 10,
}


def _fill_webhooks(data: Plain) -> None:
    """Write the defaults of webhooks. (SetDefaults functions of admissionregistration/v1.)"""
    for webhook in data.get("webhooks") or ():
        for field, value in _WEBHOOK_DEFAULTS.items():
            if webhook.get(field) is None:
                webhook[field] = value
        for field in ("namespaceSelector", "objectSelector"):
            webhook[field] = webhook.get(field) or {}
        for rule in webhook.get("rules") or ():
            rule["scope"] = rule.get("scope") or "*"
        service = (webhook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            service["port"] = service.get("port") or 443


def _select_own_pods(meta: Plain, spec: Plain) -> None:
    """Generate the selector of a job: its uid as a label (the strategy's generateSelector)."""
    template = spec.get("template")
    if spec.get("manualSelector") or spec.get("selector") or not isinstance(template, dict):
        return
    inner = template["metadata"] = dict(template.get("metadata") or {})
    names = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    labels = {f"batch.kubernetes.io/{key}": value for key, value in names.items()} | names
    inner["labels"] = {**(inner.get("labels") or {}), **labels}
    key = "batch.kubernetes.io/controller-uid"
    spec["selector"] = {"matchLabels": {key: meta["uid"]}}


def _fill_secret(data: Plain) -> None:
    """Set the type of a secret, and move stringData into its data."""
    if not data.get("type"):
        data["type"] = "Opaque"
    texts = data.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        encoded = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
        data["data"] = {**(data.get("data") or {}), **encoded}


def admit_pod(resource: Resource, data: Plain, priorities: Priorities, now: int) -> None:
    """Complete a pod as the API server does, in place. Raises ApiError if it is refused.

    A number of its own is left to a pod that names no class, where the API server wants a class.
    """
    spec = data["spec"] = data.get("spec") or {}
    pod = _fill_containers(resource, data)
    for field, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
    ):
        if spec.get(field) in (None, ""):
            spec[field] = value
    add_default_tolerations(spec)
    _set_priority(resource, data, priorities)
    status = data["status"] = data.get("status") or {}
    status.setdefault("phase", "Pending")
    if spec.get("schedulingGates") and not spec.get("nodeName"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        set_condition(status, condition, now)
    status.setdefault("qosClass", model.qos_class(pod))


def _fill_containers(resource: Resource, data: Plain) -> model.Pod:
    """Write what defaulting gives the containers into the data; return the pod with that."""
    pod = read(resource, msgspec.json.encode(data))
    assert isinstance(pod, model.Pod)
    fill_in_pod(pod)
    spec = data["spec"]
    for field, filled in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        for given, container in zip(spec.get(field) or (), filled, strict=True):
            _fill_container(given, container)
    if pod.spec.resources is not None and pod.spec.resources.requests:
        spec["resources"]["requests"] = dict(pod.spec.resources.requests)
    return pod


def _fill_container(given: Plain, filled: model.ContainerSpec) -> None:
    given["resources"] = given.get("resources") or {}
    if filled.resources.requests:
        given["resources"]["requests"] = dict(filled.resources.requests)
    for port, complete in zip(given.get("ports") or (), filled.ports, strict=True):
        port.setdefault("protocol", "TCP")
        if complete.host_port:
            port["hostPort"] = complete.host_port
    given.setdefault("terminationMessagePath", "/dev/termination-log")
    given.setdefault("terminationMessagePolicy", "File")
    if not given.get("imagePullPolicy"):
        tag = given.get("image", "").rpartition("/")[2].partition(":")[2]
        pinned = "@" in given.get("image", "") or tag not in ("", "latest")
        given["imagePullPolicy"] = "IfNotPresent" if pinned else "Always"


def add_default_tolerations(spec: Plain) -> None:
    """Add the default tolerations of a pod: it tolerates failing nodes for five minutes.

    (The DefaultTolerationSeconds admission.)
    """
    given = list(spec.get("tolerations") or ())
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates(toleration, key) for toleration in given):
            bears = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            given.append({**bears, "tolerationSeconds": _TOLERATED_SECONDS})
    spec["tolerations"] = given


def _tolerates(toleration: Plain, key: str) -> bool:
    same_key = toleration.get("key", "") in ("", key)
    return same_key and toleration.get("effect", "") in ("", "NoExecute")


def _set_priority(resource: Resource, data: Plain, priorities: Priorities) -> None:
    spec, name = data["spec"], data["metadata"]["name"]
    given: dict[str, Any] = {key: spec.get(key) for key in ("priority", "preemptionPolicy")}
    if given["priority"] is not None and not spec.get("priorityClassName"):
        spec.setdefault("preemptionPolicy", PREEMPTS)
        return
    probe = model.Pod()
    probe.spec.priority_class_name = spec.get("priorityClassName") or ""
    if not priorities.admit(probe):
        wanted = probe.spec.priority_class_name
        raise forbidden(resource, name, f"no PriorityClass with name {wanted} was found")
    computed = {
        "priority": probe.spec.priority or 0,
        "preemptionPolicy": probe.spec.preemption_policy or PREEMPTS,
    }
    for key, words in (
        ("priority", "the integer value of priority"),
        ("preemptionPolicy", "the string value of PreemptionPolicy"),
    ):
        if given[key] not in (None, "", computed[key]):
            why = (
                f"{words} ({given[key]}) must not be provided in pod spec; priority admission"
                f" controller computed {computed[key]} from the given PriorityClass name"
            )
            raise forbidden(resource, name, why)
    spec |= computed
    if probe.spec.priority_class_name:
        spec["priorityClassName"] = probe.spec.priority_class_name
