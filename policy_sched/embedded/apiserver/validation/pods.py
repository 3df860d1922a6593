"""Checks of pods, and of the templates of pods.

(ValidatePodSpec of kube-apiserver, for what a scheduler, its users and their slips have to do
with: containers and their resources, ports, volumes, affinity, tolerations, topology, gates.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.validation.others import check_requirements
from policy_sched.embedded.apiserver.validation.problems import (
    Problems,
    check_annotations,
    check_labels,
)
from policy_sched.embedded.apiserver.validation.selecting import (
    check_affinity,
    check_label_selector,
    check_tolerations,
    check_topology_key,
    inside,
    items,
)
from policy_sched.manifests import Plain
from policy_sched.model import formats

RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


def check_pod(problems: Problems, data: Plain) -> None:
    """Check a pod."""
    check_pod_spec(problems, "spec", data.get("spec"))


def check_template(problems: Problems, at: str, template: Any) -> None:
    """Check the template of pods of a workload."""
    meta = inside(template, "metadata")
    check_labels(problems, f"{at}.metadata.labels", inside(meta, "labels"))
    check_annotations(problems, f"{at}.metadata.annotations", inside(meta, "annotations"))
    check_pod_spec(problems, f"{at}.spec", inside(template, "spec"))


def check_pod_spec(problems: Problems, at: str, spec: Any) -> None:
    """Check the specification of a pod."""
    spec = spec if isinstance(spec, dict) else {}
    volumes = _check_volumes(problems, f"{at}.volumes", spec.get("volumes"))
    if not spec.get("containers"):
        problems.required(f"{at}.containers")
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for place, one in items(spec.get(field)):
            here = f"{at}.{field}[{place}]"
            _check_container(problems, here, one, names)
            _check_mounts(problems, here, one, volumes)
    _check_choice(problems, f"{at}.restartPolicy", spec.get("restartPolicy"), RESTARTS)
    _check_choice(problems, f"{at}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    _check_choice(problems, f"{at}.preemptionPolicy", spec.get("preemptionPolicy"), _PREEMPTION)
    _check_scheduling(problems, at, spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        why = "must be between 1 and 2147483647, inclusive"
        problems.invalid(f"{at}.activeDeadlineSeconds", deadline, why)
    if spec.get("resources"):
        check_requirements(problems, f"{at}.resources", spec["resources"])


def _check_choice(problems: Problems, at: str, value: Any, known: tuple[str, ...]) -> None:
    if value and value not in known:
        problems.unsupported(at, value, known)


def _check_scheduling(problems: Problems, at: str, spec: Plain) -> None:
    """Check what a scheduler reads."""
    check_labels(problems, f"{at}.nodeSelector", spec.get("nodeSelector"))
    for field, form in (
        ("nodeName", formats.subdomain),
        ("priorityClassName", formats.subdomain),
        ("serviceAccountName", formats.subdomain),
        ("runtimeClassName", formats.subdomain),
        ("hostname", formats.label),
        ("subdomain", formats.label),
    ):
        if value := spec.get(field):
            problems.each(f"{at}.{field}", value, form(str(value)))
    check_affinity(problems, f"{at}.affinity", spec.get("affinity"))
    check_tolerations(problems, f"{at}.tolerations", spec.get("tolerations"))
    pairs: set[tuple[Any, Any]] = set()
    for place, one in items(spec.get("topologySpreadConstraints")):
        here = f"{at}.topologySpreadConstraints[{place}]"
        _check_spread(problems, here, one)
        pair = one.get("topologyKey"), one.get("whenUnsatisfiable")
        if pair in pairs:
            problems.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", _pair(*pair))
        pairs.add(pair)
    gates: set[str] = set()
    for place, one in items(spec.get("schedulingGates")):
        name = one.get("name") or ""
        problems.each(f"{at}.schedulingGates[{place}]", name, formats.qualified(name))
        if name in gates:
            problems.duplicate(f"{at}.schedulingGates[{place}]", name)
        gates.add(name)


def _pair(key: Any, policy: Any) -> str:
    return f"{{{key}, {policy}}}"


def _check_spread(problems: Problems, at: str, one: Plain) -> None:
    skew = one.get("maxSkew") or 0
    if skew <= 0:
        problems.invalid(f"{at}.maxSkew", skew, "must be greater than zero")
    check_topology_key(problems, f"{at}.topologyKey", one.get("topologyKey"))
    when = one.get("whenUnsatisfiable") or ""
    if when not in _UNSATISFIABLE:
        problems.unsupported(f"{at}.whenUnsatisfiable", when, _UNSATISFIABLE)
    least = one.get("minDomains")
    if least is not None:
        if least <= 0:
            problems.invalid(f"{at}.minDomains", least, "must be greater than zero")
        if when != "DoNotSchedule":
            why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
            problems.invalid(f"{at}.minDomains", least, f"{why}{when}")
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        _check_choice(problems, f"{at}.{field}", one.get(field), _POLICIES)
    check_label_selector(problems, f"{at}.labelSelector", one.get("labelSelector"))


def _check_container(problems: Problems, at: str, one: Plain, names: set[str]) -> None:
    name, image = one.get("name") or "", one.get("image") or ""
    if not name:
        problems.required(f"{at}.name")
    else:
        problems.each(f"{at}.name", name, formats.label(name))
    if name in names:
        problems.duplicate(f"{at}.name", name)
    elif name:
        names.add(name)
    if not image.strip():
        problems.required(f"{at}.image")
    elif image != image.strip():
        why = "must not have leading or trailing whitespace"
        problems.invalid(f"{at}.image", image, why)
    _check_choice(problems, f"{at}.imagePullPolicy", one.get("imagePullPolicy"), _PULLS)
    port_names: set[str] = set()
    for place, port in items(one.get("ports")):
        _check_port(problems, f"{at}.ports[{place}]", port, port_names)
    for place, variable in items(one.get("env")):
        if not variable.get("name"):
            problems.required(f"{at}.env[{place}].name")
        if variable.get("value") and variable.get("valueFrom"):
            why = "may not be specified when `value` is not empty"
            problems.invalid(f"{at}.env[{place}].valueFrom", "", why)
    if one.get("resources"):
        check_requirements(problems, f"{at}.resources", one["resources"])


def _check_port(problems: Problems, at: str, port: Plain, names: set[str]) -> None:
    number, name = port.get("containerPort"), port.get("name") or ""
    if name:
        words = list(formats.port_name(name))
        problems.each(f"{at}.name", name, words)
        if name in names:
            problems.duplicate(f"{at}.name", name)
        names.add(name)
    if not number:
        problems.required(f"{at}.containerPort")
    else:
        problems.each(f"{at}.containerPort", number, formats.port(number))
    if port.get("hostPort"):
        problems.each(f"{at}.hostPort", port["hostPort"], formats.port(port["hostPort"]))
    protocol = port.get("protocol")
    if protocol is not None:
        _check_choice(problems, f"{at}.protocol", protocol, _PROTOCOLS)


def _check_volumes(problems: Problems, at: str, volumes: Any) -> set[str]:
    """Check the volumes of a pod; return their names."""
    names: set[str] = set()
    for place, one in items(volumes):
        here, name = f"{at}[{place}]", str(one.get("name") or "")
        if not name:
            problems.required(f"{here}.name")
        else:
            problems.each(f"{here}.name", name, formats.label(name))
        if name in names:
            problems.duplicate(f"{here}.name", name)
        names.add(name)
        sources = [field for field, value in one.items() if field != "name" and value is not None]
        for field in sources[1:]:
            problems.forbidden(f"{here}.{field}", "may not specify more than 1 volume type")
    return names


def _check_mounts(problems: Problems, at: str, container: Plain, volumes: set[str]) -> None:
    for place, one in items(container.get("volumeMounts")):
        here, name = f"{at}.volumeMounts[{place}]", one.get("name") or ""
        if not name:
            problems.required(f"{here}.name")
        elif name not in volumes:
            problems.unknown(f"{here}.name", name)
        if not one.get("mountPath"):
            problems.required(f"{here}.mountPath")
