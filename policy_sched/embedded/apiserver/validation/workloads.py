"""Checks of what makes pods: deployments and the other sets, jobs, budgets, autoscalers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from policy_sched.embedded.apiserver.validation.objects import check_requirements
from policy_sched.embedded.apiserver.validation.problems import (
    IMMUTABLE,
    Problems,
    check_affinity,
    check_annotations,
    check_label_selector,
    check_labels,
    check_tolerations,
    check_topology_key,
    inside,
    items,
)
from policy_sched.manifests import Plain
from policy_sched.model import LabelSelector, formats, label_selector

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


_SET_CHANGES: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_SET_WORDS: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and"
    " 'minReadySeconds' are forbidden"
)
_DIGITS: Final = 10
"""Digits of a percentage that are enough to know that it is too large."""
_WHOLE: Final = 100
"""Percent that a part may be of a whole."""
_NOT_BOTH: Final = "minAvailable and maxUnavailable cannot be both set"


def _counts(problems: Problems, spec: Plain, *fields: str) -> None:
    for field in fields:
        _count(problems, f"spec.{field}", spec.get(field))


def _count(problems: Problems, at: str, value: Any) -> None:
    if isinstance(value, int) and value < 0:
        problems.invalid(at, value, formats.NOT_NEGATIVE)


def _selector_and_template(problems: Problems, data: Plain, spec: Plain) -> None:
    """Check that a set's selector selects its own pods, and what they are made of."""
    selector, template = spec.get("selector"), spec.get("template")
    if not selector:
        problems.required("spec.selector")
    else:
        check_label_selector(problems, "spec.selector", selector)
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            what = str(data.get("kind")).lower().replace("replicaset", "deployment")
            problems.invalid("spec.selector", selector, f"empty selector is invalid for {what}")
        else:
            _selects(problems, selector, template)
    check_template(problems, "spec.template", template)
    restart = inside(inside(template, "spec"), "restartPolicy")
    if restart and restart != "Always":
        problems.unsupported("spec.template.spec.restartPolicy", restart, ("Always",))


def _selects(problems: Problems, selector: Any, template: Any) -> None:
    labels = inside(inside(template, "metadata"), "labels") or {}
    try:
        matches = label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (ValueError, msgspec.ValidationError):
        return  # told already
    if not matches:
        why = "`selector` does not match template `labels`"
        problems.invalid("spec.template.metadata.labels", labels, why)


def check_deployment(problems: Problems, data: Plain) -> None:
    """Check a deployment."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    _selector_and_template(problems, data, spec)
    strategy = spec.get("strategy") or {}
    kind = strategy.get("type")
    if kind and kind not in ("Recreate", "RollingUpdate"):
        problems.unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling:
        why = "may not be specified when strategy `type` is 'Recreate'"
        problems.forbidden("spec.strategy.rollingUpdate", why)
    elif rolling:
        _rolling(problems, rolling)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        why = "must be greater than minReadySeconds"
        problems.invalid("spec.progressDeadlineSeconds", deadline, why)


def _rolling(problems: Problems, rolling: Plain) -> None:
    at = "spec.strategy.rollingUpdate"
    _share(problems, f"{at}.maxUnavailable", rolling.get("maxUnavailable"), _WHOLE)
    _share(problems, f"{at}.maxSurge", rolling.get("maxSurge"))
    nothing = (0, "0%")
    if rolling.get("maxUnavailable") in nothing and rolling.get("maxSurge") in nothing:
        why = "may not be 0 when `maxSurge` is 0"
        problems.invalid(f"{at}.maxUnavailable", rolling["maxUnavailable"], why)


def _share(problems: Problems, at: str, value: Any, most: int | None = None) -> None:
    """Check a number or a percentage, which is at most so many percent."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if not (digits.isascii() and digits.isdecimal()) or digits == value:
            why = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g."
                " '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            problems.invalid(at, value, why)
        elif most is not None and int(digits.lstrip("0")[:_DIGITS] or "0") > most:
            problems.invalid(at, value, f"must not be greater than {most}%")
    else:
        _count(problems, at, value)


def check_set(problems: Problems, data: Plain) -> None:
    """Check a replica set, a stateful set or a daemon set."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    _selector_and_template(problems, data, spec)
    rolling, at = (
        inside(spec.get("updateStrategy"), "rollingUpdate"),
        "updateStrategy.rollingUpdate",
    )
    _share(problems, f"spec.{at}.maxUnavailable", inside(rolling, "maxUnavailable"), _WHOLE)
    for field, value in (
        (f"{at}.partition", inside(rolling, "partition")),
        ("ordinals.start", inside(spec.get("ordinals"), "start")),
    ):
        _count(problems, f"spec.{field}", value)


def check_controller(problems: Problems, data: Plain) -> None:
    """Check a replication controller."""
    spec = data.get("spec") or {}
    _counts(problems, spec, "replicas", "minReadySeconds")
    if not spec.get("template"):
        problems.required("spec.template")
    else:
        check_template(problems, "spec.template", spec["template"])


def check_job(problems: Problems, data: Plain) -> None:
    """Check a job."""
    spec = data.get("spec") or {}
    fields = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    _counts(problems, spec, *fields, "ttlSecondsAfterFinished")
    mode = spec.get("completionMode")
    if mode and mode not in ("NonIndexed", "Indexed"):
        problems.unsupported("spec.completionMode", mode, ("Indexed", "NonIndexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        problems.required("spec.completions", "when completion mode is Indexed")
    template = spec.get("template")
    check_template(problems, "spec.template", template)
    restart = inside(inside(template, "spec"), "restartPolicy") or "Always"
    if restart == "Always":
        why = 'valid values: "OnFailure", "Never"'
        problems.required("spec.template.spec.restartPolicy", why)


def check_cron_job(problems: Problems, data: Plain) -> None:
    """Check a cron job."""
    spec = data.get("spec") or {}
    schedule, policy = str(spec.get("schedule") or ""), spec.get("concurrencyPolicy")
    if not schedule:
        problems.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        given = f"expected exactly 5 fields, found {len(schedule.split())}"
        problems.invalid("spec.schedule", schedule, f"{given}: [{' '.join(schedule.split())}]")
    if policy and policy not in ("Allow", "Forbid", "Replace"):
        problems.unsupported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))


def check_budget(problems: Problems, data: Plain) -> None:
    """Check a disruption budget."""
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        problems.invalid("spec", spec, _NOT_BOTH)
    for field in ("minAvailable", "maxUnavailable"):
        _share(problems, f"spec.{field}", spec.get(field), _WHOLE)
    check_label_selector(problems, "spec.selector", spec.get("selector"))


def check_autoscaler(problems: Problems, data: Plain) -> None:
    """Check a horizontal pod autoscaler."""
    spec = data.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        problems.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        problems.invalid("spec.maxReplicas", most, "must be greater than 0")
    elif least is not None and most < least:
        why = "must be greater than or equal to `minReplicas`"
        problems.invalid("spec.maxReplicas", most, why)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            problems.required(f"spec.scaleTargetRef.{field}")


# Changes.


def _same(problems: Problems, at: str, old: Any, new: Any) -> None:
    if old != new:
        problems.invalid(at, new, IMMUTABLE)


def change_selector(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a deployment, a replica set or a daemon set."""
    before, after = (inside(one.get("spec"), "selector") for one in (old, new))
    _same(problems, "spec.selector", before, after)


def change_stateful_set(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a stateful set."""
    before, after = (
        {k: v for k, v in (one.get("spec") or {}).items() if k not in _SET_CHANGES and v}
        for one in (old, new)
    )
    if before != after:
        problems.forbidden("spec", _SET_WORDS)


def change_job(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a job: of its template what is scheduled may change while it waits."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    suspended = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
    for field in ("selector", "completionMode"):
        _same(problems, f"spec.{field}", before.get(field), after.get(field))
    indexed = before.get("completionMode") == "Indexed"
    elastic = indexed and after.get("completions") == after.get("parallelism")
    if not elastic:
        _same(problems, "spec.completions", before.get("completions"), after.get("completions"))
    if not suspended:
        _same(problems, "spec.template", before.get("template"), after.get("template"))


Check = Callable[[Problems, Plain], None]
Change = Callable[[Problems, Plain, Plain], None]
