"""Checks of the pod groups and workloads of scheduling.k8s.io.

(pkg/apis/scheduling/validation, v1alpha2.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.schema import IMMUTABLE, Problems, inside, items
from policy_sched.manifests import Plain
from policy_sched.model import SCHEDULING_VERSION, formats

_POLICIES: Final = ("basic", "gang")
_MODES: Final = ("Pod", "PodGroup")
_MOST_TEMPLATES: Final = 8
_MOST_CLAIMS: Final = 4
_MOST_TOPOLOGIES: Final = 1


def check_pod_group(problems: Problems, _at: str, data: Plain) -> None:
    """Check a pod group; one of scheduling.x-k8s.io is none of these."""
    if data.get("apiVersion") != SCHEDULING_VERSION:
        return
    spec = data.get("spec")
    _check_template(problems, "spec", spec)
    reference = inside(inside(spec, "podGroupTemplateRef"), "workload")
    if isinstance(reference, dict):
        for field in ("workloadName", "podGroupTemplateName"):
            if not reference.get(field):
                problems.required(f"spec.podGroupTemplateRef.workload.{field}")


def check_workload(problems: Problems, _at: str, data: Plain) -> None:
    """Check a workload."""
    at, seen = "spec.podGroupTemplates", set()
    templates = list(items(inside(data.get("spec"), "podGroupTemplates")))
    if not templates:
        problems.required(at)
    _check_number(problems, at, templates, _MOST_TEMPLATES)
    for i, template in templates:
        name = template.get("name") or ""
        if not name:
            problems.required(f"{at}[{i}].name")
        else:
            problems.each(f"{at}[{i}].name", name, formats.label(name))
        if name in seen:
            problems.duplicate(f"{at}[{i}]", name)
        seen.add(name)
        _check_template(problems, f"{at}[{i}]", template)


def change_spec(problems: Problems, old: Plain, new: Plain) -> None:
    """Check a change of a pod group or a workload: its spec is immutable."""
    if new.get("apiVersion") == SCHEDULING_VERSION and old.get("spec") != new.get("spec"):
        problems.invalid("spec", new.get("spec"), IMMUTABLE)


def _check_template(problems: Problems, at: str, value: Any) -> None:
    """Check what a pod group and a template of pod groups have in common."""
    policy = inside(value, "schedulingPolicy")
    given = [policy_name for policy_name in _POLICIES if inside(policy, policy_name) is not None]
    choices = ", ".join(f"`{policy_name}`" for policy_name in _POLICIES)
    if not given:
        problems.invalid(f"{at}.schedulingPolicy", "", f"must specify one of: {choices}")
    elif len(given) > 1:
        both = f"{{{', '.join(given)}}}"
        why = f"must specify exactly one of: {choices}"
        problems.invalid(f"{at}.schedulingPolicy", both, why)
    count = inside(inside(policy, "gang"), "minCount")
    if "gang" in given and (not isinstance(count, int) or count < 1):
        where = f"{at}.schedulingPolicy.gang.minCount"
        if count:
            problems.invalid(where, count, "must be greater than or equal to 1")
        else:
            problems.required(where)
    topologies = list(items(inside(inside(value, "schedulingConstraints"), "topology")))
    where = f"{at}.schedulingConstraints.topology"
    _check_number(problems, where, topologies, _MOST_TOPOLOGIES)
    for i, topology in topologies:
        key = topology.get("key") or ""
        if not key:
            problems.required(f"{where}[{i}].key")
        else:
            problems.each(f"{where}[{i}].key", key, formats.qualified(key))
    _check_number(problems, f"{at}.resourceClaims", inside(value, "resourceClaims"), _MOST_CLAIMS)
    mode = inside(value, "disruptionMode")
    if mode and mode not in _MODES:
        problems.unsupported(f"{at}.disruptionMode", mode, _MODES)


def _check_number(problems: Problems, at: str, value: Any, most: int) -> None:
    if isinstance(value, list) and len(value) > most:
        problems.too_many(at, len(value), most)
