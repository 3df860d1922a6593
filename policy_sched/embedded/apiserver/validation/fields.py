"""Checks of fields that depend on other fields, or on the form of an amount; rules.yaml names them.

(validation.go of core, apps, batch, policy and storage; pkg/apis/resource/validation for the
selectors over devices, in device classes and resource claims.)
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from policy_sched.embedded.apiserver.validation import pod_groups
from policy_sched.embedded.apiserver.validation.rules import Check, FieldRules
from policy_sched.embedded.schema import Problems, check_annotations, check_labels, inside, items
from policy_sched.language.cel import compile_selector
from policy_sched.manifests import Plain
from policy_sched.model import LabelSelector, formats, label_selector, nanos

MOST_BYTES: Final = 10 * 1024
"""Bytes that an expression may have."""


def check_selector(problems: Problems, at: str, selector: Any) -> None:
    """Check one selector."""
    here, cel = f"{at}.cel", inside(selector, "cel")
    if not isinstance(cel, dict):
        problems.required(here)
        return
    expression = cel.get("expression")
    expression = expression if isinstance(expression, str) else ""
    if len(expression.encode(errors="replace")) > MOST_BYTES:
        problems.too_long(f"{here}.expression", MOST_BYTES)
        return
    compiled = compile_selector(expression, new=True)
    if compiled.error:
        problems.invalid(f"{here}.expression", expression, compiled.error)
    elif compiled.too_complex:
        problems.forbidden(f"{here}.expression", "too complex, exceeds cost limit")


# Resources.

_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE: Final = "hugepages-"
_UNIT: Final = 10**9


def _requirements(problems: Problems, at: str, given: Any) -> None:
    """Check requests and limits of a container or a pod."""
    requests, limits = inside(given, "requests") or {}, inside(given, "limits") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{at}.{field}"
            problems.each(here, name, formats.qualified(name))
            if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
                problems.invalid(here, name, "must be a standard resource for containers")
            if nanos(amount) < 0:
                problems.invalid(f"{here}[{name}]", str(amount), formats.NOT_NEGATIVE)
            elif nanos(amount) % _UNIT and not _overcommits(name):
                problems.invalid(f"{here}[{name}]", amount, "must be an integer")
    for name, amount in requests.items():
        limit, why = limits.get(name), ""
        if limit is None:
            if not _overcommits(name):
                words = "Limit must be set for non overcommitable resources"
                problems.required(f"{at}.limits", words)
        elif nanos(amount) > nanos(limit):
            why = f"must be less than or equal to {name} limit of {limit}"
        elif not _overcommits(name) and nanos(amount) != nanos(limit):
            why = f"must be equal to {name} limit of {limit}"
        if why:
            problems.invalid(f"{at}.requests", str(amount), why)


def _overcommits(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE)


# Pods.


def _containers(problems: Problems, at: str, spec: Any) -> None:
    """Check the containers of a pod: no two have one name, and they mount volumes of the pod."""
    volumes = {str(container.get("name") or "") for _, container in items(inside(spec, "volumes"))}
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in items(inside(spec, field)):
            here, name = f"{at}.{field}[{index}]", container.get("name")
            if name and name in names:
                problems.duplicate(f"{here}.name", name)
            names.add(name or "")
            _RULES.apply(problems, here, container, "Container")
            _mounts(problems, here, container, volumes)


def _mounts(problems: Problems, at: str, container: Plain, volumes: set[str]) -> None:
    for index, mount in items(container.get("volumeMounts")):
        here, name = f"{at}.volumeMounts[{index}]", mount.get("name") or ""
        if not name:
            problems.required(f"{here}.name")
        elif name not in volumes:
            problems.unknown(f"{here}.name", name)
        if not mount.get("mountPath"):
            problems.required(f"{here}.mountPath")


def _volume_source(problems: Problems, at: str, volume: Plain) -> None:
    sources = [field for field, value in volume.items() if field != "name" and value is not None]
    for field in sources[1:]:
        problems.forbidden(f"{at}.{field}", "may not specify more than 1 volume type")


def _image(problems: Problems, at: str, image: Any) -> None:
    if not (image or "").strip():
        problems.required(at)
    elif image != image.strip():
        problems.invalid(at, image, "must not have leading or trailing whitespace")


def _variable(problems: Problems, at: str, variable: Plain) -> None:
    if variable.get("value") and variable.get("valueFrom"):
        why = "may not be specified when `value` is not empty"
        problems.invalid(f"{at}.valueFrom", "", why)


def _deadline(problems: Problems, at: str, deadline: Any) -> None:
    if deadline is not None and not 1 <= deadline < 2**31:
        problems.invalid(at, deadline, "must be between 1 and 2147483647, inclusive")


def _weight(problems: Problems, at: str, weight: Any) -> None:
    if not 1 <= (weight or 0) <= 100:
        problems.invalid(at, weight or 0, "must be in the range 1-100")


_FEW: Final = ("In", "NotIn")
_NONE: Final = ("Exists", "DoesNotExist")
_COMPARED: Final = ("Gt", "Lt")


def _operator(problems: Problems, at: str, requirement: Plain) -> None:
    """Check operator, values and key of a requirement."""
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    if operator in _FEW and not values:
        why = "must be specified when `operator` is 'In' or 'NotIn'"
        problems.required(f"{at}.values", why)
    elif operator in _NONE and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        problems.forbidden(f"{at}.values", why)
    elif operator in _COMPARED and len(values) != 1:
        why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        problems.required(f"{at}.values", why)
    elif operator not in (*_FEW, *_NONE, *_COMPARED):
        problems.invalid(f"{at}.operator", operator or "", "not a valid selector operator")
    key = requirement.get("key") or ""
    problems.each(f"{at}.key", key, formats.qualified(key))


def _label_requirement(problems: Problems, at: str, requirement: Plain) -> None:
    if requirement.get("operator") in _COMPARED:
        problems.invalid(f"{at}.operator", requirement["operator"], "not a valid selector operator")
        requirement = {**requirement, "operator": "Exists", "values": ()}
    _operator(problems, at, requirement)
    for number, value in enumerate(requirement.get("values") or ()):
        problems.each(f"{at}.values[{number}]", value, formats.label_value(str(value)))


def _field_requirement(problems: Problems, at: str, requirement: Plain) -> None:
    values = requirement.get("values") or ()
    if requirement.get("operator") not in _FEW:
        why = "not a valid selector operator"
        problems.invalid(f"{at}.operator", requirement.get("operator") or "", why)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.required(f"{at}.values", why)
    if requirement.get("key") != "metadata.name":
        why = "not a valid field selector key"
        problems.invalid(f"{at}.key", requirement.get("key") or "", why)
        return
    for number, value in enumerate(values):
        problems.each(f"{at}.values[{number}]", value, formats.subdomain(str(value)))


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _toleration(problems: Problems, at: str, toleration: Plain) -> None:
    key, value = toleration.get("key") or "", toleration.get("value") or ""
    operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
    if key:
        problems.each(f"{at}.key", key, formats.qualified(key))
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values'
        problems.invalid(f"{at}.operator", operator, f'{why} and all keys"')
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        problems.invalid(f"{at}.effect", effect, why)
    if operator in ("", "Equal"):
        problems.each(f"{at}.operator", value, formats.label_value(value))
    elif operator == "Exists":
        if value:
            why = "value must be empty when `operator` is 'Exists'"
            problems.invalid(f"{at}.operator", value, why)
    elif operator not in _COMPARED:
        problems.unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        problems.unsupported(f"{at}.effect", effect, _EFFECTS)


def _taints(problems: Problems, at: str, taints: Any) -> None:
    seen = set()
    for index, taint in items(taints):
        here, key, value = f"{at}[{index}]", taint.get("key") or "", taint.get("value") or ""
        problems.each(f"{here}.key", key, formats.qualified(key))
        problems.each(f"{here}.value", value, formats.label_value(value))
        effect = taint.get("effect") or ""
        if not effect:
            problems.required(f"{here}.effect")
        elif effect not in _EFFECTS:
            problems.unsupported(f"{here}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            problems.duplicate(here, taint)
        seen.add((key, effect))


def _spread_constraints(problems: Problems, at: str, constraints: Any) -> None:
    pairs: set[tuple[Any, Any]] = set()
    for index, constraint in items(constraints):
        here = f"{at}[{index}]"
        _RULES.apply(problems, here, constraint, "TopologySpreadConstraint")
        key, when = pair = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")
        if pair in pairs:
            problems.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        pairs.add(pair)


def _min_domains(problems: Problems, at: str, constraint: Plain) -> None:
    least, when = constraint.get("minDomains"), constraint.get("whenUnsatisfiable") or ""
    if least is None:
        return
    if least <= 0:
        problems.invalid(f"{at}.minDomains", least, "must be greater than zero")
    if when != "DoNotSchedule":
        why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
        problems.invalid(f"{at}.minDomains", least, f"{why}{when}")


def _scheduling_gates(problems: Problems, at: str, given: Any) -> None:
    gates: set[str] = set()
    for index, gate in items(given):
        name = gate.get("name") or ""
        problems.each(f"{at}[{index}]", name, formats.qualified(name))
        if name in gates:
            problems.duplicate(f"{at}[{index}]", name)
        gates.add(name)


# Workloads.

_WHOLE: Final = 100
"""Percent that a part may be of a whole."""
_DIGITS: Final = 10
"""Digits of a percentage that are enough to know that it is too large."""


def _selector_and_template(problems: Problems, _at: str, data: Plain) -> None:
    """Check that a set's selector selects its own pods, and what they are made of."""
    spec = data.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template")
    labels = inside(inside(template, "metadata"), "labels") or {}
    if not selector:
        problems.required("spec.selector")
    else:
        _RULES.apply(problems, "spec.selector", selector, "LabelSelector")
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            what = str(data.get("kind")).lower().replace("replicaset", "deployment")
            problems.invalid("spec.selector", selector, f"empty selector is invalid for {what}")
        elif not _selects(selector, labels):
            why = "`selector` does not match template `labels`"
            problems.invalid("spec.template.metadata.labels", labels, why)
    _RULES.apply(problems, "spec.template", template, "PodTemplate")
    restart = inside(inside(template, "spec"), "restartPolicy")
    if restart and restart != "Always":
        problems.unsupported("spec.template.spec.restartPolicy", restart, ("Always",))


def _selects(selector: Any, labels: Any) -> bool:
    """Return whether a selector selects labels; one that is not valid is reported elsewhere."""
    try:
        return label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (ValueError, msgspec.ValidationError):
        return True


def _rolling_update(problems: Problems, at: str, strategy: Any) -> None:
    here, rolling = f"{at}.rollingUpdate", inside(strategy, "rollingUpdate")
    if not rolling:
        return
    if inside(strategy, "type") == "Recreate":
        problems.forbidden(here, "may not be specified when strategy `type` is 'Recreate'")
        return
    _percentage(problems, f"{here}.maxUnavailable", rolling.get("maxUnavailable"))
    _percentage(problems, f"{here}.maxSurge", rolling.get("maxSurge"), None)
    zero = (0, "0%")
    if rolling.get("maxUnavailable") in zero and rolling.get("maxSurge") in zero:
        why = "may not be 0 when `maxSurge` is 0"
        problems.invalid(f"{here}.maxUnavailable", rolling["maxUnavailable"], why)


def _percentage(problems: Problems, at: str, value: Any, most: int | None = _WHOLE) -> None:
    """Check a number or a percentage, which is at most so many percent."""
    if isinstance(value, int):
        if value < 0:
            problems.invalid(at, value, formats.NOT_NEGATIVE)
    elif isinstance(value, str):
        digits = value.removesuffix("%")
        if not (digits.isascii() and digits.isdecimal()) or digits == value:
            why = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g."
                " '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            problems.invalid(at, value, why)
        elif most is not None and int(digits.lstrip("0")[:_DIGITS] or "0") > most:
            problems.invalid(at, value, f"must not be greater than {most}%")


def _progress_deadline(problems: Problems, at: str, spec: Any) -> None:
    seconds, ready = inside(spec, "progressDeadlineSeconds"), inside(spec, "minReadySeconds") or 0
    if seconds is not None and seconds <= ready:
        why = "must be greater than minReadySeconds"
        problems.invalid(f"{at}.progressDeadlineSeconds", seconds, why)


def _indexed_completions(problems: Problems, at: str, spec: Any) -> None:
    if inside(spec, "completionMode") == "Indexed" and inside(spec, "completions") is None:
        problems.required(f"{at}.completions", "when completion mode is Indexed")


def _job_restart(problems: Problems, at: str, restart: Any) -> None:
    if (restart or "Always") == "Always":
        problems.required(at, 'valid values: "OnFailure", "Never"')


def _budget(problems: Problems, at: str, spec: Any) -> None:
    if all(inside(spec, field) is not None for field in ("minAvailable", "maxUnavailable")):
        problems.invalid(at, spec, "minAvailable and maxUnavailable cannot be both set")


# Configuration, services, storage.

MOST_DATA: Final = 1024 * 1024
"""Bytes that a config map or a secret may have."""
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NO_SOURCES: Final = frozenset({
    "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName",
    "mountOptions", "volumeMode", "nodeAffinity", "volumeAttributesClassName",
})  # fmt: skip
"""Fields of a volume that are no source."""


def _config_map(problems: Problems, _at: str, data: Plain) -> None:
    size, binary = 0, data.get("binaryData") or {}
    for field in ("data", "binaryData"):
        for key, value in (data.get(field) or {}).items():
            problems.each(f"{field}[{key}]", key, formats.config_key(key))
            size += len(str(value))
            if field == "data" and key in binary:
                why = "duplicate of key present in binaryData"
                problems.invalid(f"data[{key}]", key, why)
    if size > MOST_DATA:
        problems.too_long("", MOST_DATA)


def _secret(problems: Problems, _at: str, data: Plain) -> None:
    size, values = 0, data.get("data") or {}
    for key, value in values.items():
        problems.each(f"data[{key}]", key, formats.config_key(key))
        try:
            size += len(base64.b64decode(str(value), validate=True))
        except binascii.Error:
            problems.invalid(f"data[{key}]", "<secret contents redacted>", "must be base64")
    if size > MOST_DATA:
        problems.too_long("data", MOST_DATA)
    if data.get("type") == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in values:
                problems.required(f"data[{key}]")


def _service(problems: Problems, at: str, spec: Any) -> None:
    ports, external = inside(spec, "ports") or [], inside(spec, "type") == "ExternalName"
    if not ports and not external and inside(spec, "clusterIP") != "None":
        problems.required(f"{at}.ports")
    if external and not inside(spec, "externalName"):
        problems.required(f"{at}.externalName")
    names: set[str] = set()
    for index, port in items(ports):
        here, name = f"{at}.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            problems.required(f"{here}.name")
        elif name:
            problems.each(f"{here}.name", name, formats.label(name))
            if name in names:
                problems.duplicate(f"{here}.name", name)
            names.add(name)
        problems.each(f"{here}.port", port.get("port") or 0, formats.port(port.get("port")))


def _access_modes(problems: Problems, at: str, modes: Any) -> None:
    for mode in modes:
        if mode not in _MODES:
            problems.unsupported(at, mode, _MODES)


def _capacity(problems: Problems, at: str, capacity: Any) -> None:
    if not inside(capacity, "storage"):
        problems.required(at)


def _volume_type(problems: Problems, at: str, spec: Any) -> None:
    fields = spec if isinstance(spec, dict) else {}
    if not any(field not in _NO_SOURCES and value is not None for field, value in fields.items()):
        problems.required(at, "must specify a volume type")


def _claim_size(problems: Problems, at: str, resources: Any) -> None:
    size = inside(inside(resources, "requests"), "storage")
    if size is None:
        problems.required(f"{at}[storage]")
    elif nanos(size) <= 0:
        problems.invalid(f"{at}[storage]", str(size), "must be greater than zero")


def _event_type(problems: Problems, _at: str, data: Plain) -> None:
    if data.get("eventTime") and data.get("type") not in ("Normal", "Warning"):
        problems.invalid("type", "", f"has invalid value: {data.get('type') or ''}")


# Webhooks.

_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEWS: Final = ("v1", "v1beta1")
LONGEST_WAIT: Final = 30
"""Seconds that a webhook may take."""


def _webhook(problems: Problems, at: str, given: Any) -> None:
    """Check one webhook. (validation.go of admissionregistration.)"""
    _webhook_name(problems, f"{at}.name", str(given.get("name") or ""))
    for field, choices in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("sideEffects", _SIDE_EFFECTS),
    ):
        value = given.get(field)
        if value is not None and value not in choices:
            problems.unsupported(f"{at}.{field}", value, choices)
    if given.get("sideEffects") is None:
        words = ", ".join(_SIDE_EFFECTS)
        problems.required(f"{at}.sideEffects", f"must specify one of {words}")
    wait = given.get("timeoutSeconds")
    if wait is not None and not 1 <= wait <= LONGEST_WAIT:
        why = "the timeout value must be between 1 and 30 seconds"
        problems.invalid(f"{at}.timeoutSeconds", wait, why)
    versions = given.get("admissionReviewVersions") or ()
    if not versions:
        words = ", ".join(_REVIEWS)
        problems.required(f"{at}.admissionReviewVersions", f"must specify one of {words}")
    elif "v1" not in versions:
        why = "must include v1, the version that this API server sends"
        problems.invalid(f"{at}.admissionReviewVersions", list(versions), why)
    if given.get("matchConditions"):
        why = "conditions are not evaluated by this API server; use rules and selectors"
        problems.forbidden(f"{at}.matchConditions", why)
    for field in ("namespaceSelector", "objectSelector"):
        try:
            label_selector(msgspec.convert(given.get(field) or {}, LabelSelector))
        except (msgspec.ValidationError, ValueError) as error:
            problems.invalid(f"{at}.{field}", given.get(field), str(error))
    for index, rule in items(given.get("rules")):
        for field in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(field):
                problems.required(f"{at}.rules[{index}].{field}")
    _client_config(problems, f"{at}.clientConfig", given.get("clientConfig") or {})


def _webhook_name(problems: Problems, at: str, name: str) -> None:
    if not name:
        problems.required(at)
    elif wrong := list(formats.subdomain(name)):
        problems.each(at, name, wrong)
    elif name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        problems.invalid(at, name, why)


def _client_config(problems: Problems, at: str, given: Plain) -> None:
    url, service = given.get("url"), given.get("service")
    if (url is None) == (service is None):
        problems.required(at, "exactly one of url or service is required")
    elif url is not None:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError as error:
            problems.required(f"{at}.url", f"url must be a valid URL: {error}")
            return
        form = "; desired format: https://host[/path]"
        if parts.scheme != "https":
            why = f"'https' is the only allowed URL scheme{form}"
            problems.invalid(f"{at}.url", parts.scheme, why)
        if not host:
            problems.invalid(f"{at}.url", host, f"host must be specified{form}")
        for what, value, words in (
            ("user", parts.username, "user information is not permitted in the URL"),
            ("fragment", parts.fragment, "fragments are not permitted in the URL"),
            ("query", parts.query, "query parameters are not permitted in the URL"),
        ):
            if value:
                problems.invalid(f"{at}.url", value if what != "user" else "user", words)
    elif isinstance(service, dict):
        for field in ("name", "namespace"):
            if not service.get(field):
                problems.required(f"{at}.service.{field}", f"service {field} is required")


_CHECKS: Final[dict[str, Check]] = {
    "access_modes": _access_modes,
    "annotations": check_annotations,
    "budget": _budget,
    "capacity": _capacity,
    "claim_size": _claim_size,
    "config_map": _config_map,
    "containers": _containers,
    "deadline": _deadline,
    "device_selector": check_selector,
    "event_type": _event_type,
    "field_requirement": _field_requirement,
    "image": _image,
    "indexed_completions": _indexed_completions,
    "job_restart": _job_restart,
    "label_requirement": _label_requirement,
    "labels": check_labels,
    "min_domains": _min_domains,
    "node_requirement": _operator,
    "percentage": _percentage,
    "pod_group": pod_groups.check_pod_group,
    "progress_deadline": _progress_deadline,
    "requirements": _requirements,
    "rolling_update": _rolling_update,
    "scheduling_gates": _scheduling_gates,
    "secret": _secret,
    "selector_and_template": _selector_and_template,
    "service": _service,
    "spread_constraints": _spread_constraints,
    "taints": _taints,
    "webhook": _webhook,
    "toleration": _toleration,
    "variable": _variable,
    "volume_source": _volume_source,
    "volume_type": _volume_type,
    "weight": _weight,
    "workload": pod_groups.check_workload,
}
"""The functions that rules.yaml names."""
_RULES: Final = FieldRules(_CHECKS)


def check_fields(problems: Problems, kind: str, data: Plain) -> None:
    """Check the fields of an object of a kind."""
    _RULES.apply(problems, "", data, kind)
