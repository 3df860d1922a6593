"""What the API server does to new objects, done to those of files."""

from __future__ import annotations

import msgspec

from policy_sched.manifests import Admission
from policy_sched.model import Deployment, Pod, PodGroup, PriorityClass, ResourceClaim

HIGH = msgspec.convert({"metadata": {"name": "high"}, "value": 7}, PriorityClass)
USUAL = msgspec.convert(
    {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True}, PriorityClass
)


def refused(
    value: Pod | PodGroup | Deployment | ResourceClaim, *classes: PriorityClass
) -> list[str]:
    """Admit an object; return path, code and message of what is refused."""
    problems = []

    def report(path: tuple[str | int, ...], code: str, message: str, _hint: str) -> None:
        problems.append(f"{'.'.join(map(str, path))} {code} {message}")

    Admission(classes).admit(value, report)
    return problems


def test_a_group_has_the_priority_of_its_class() -> None:
    """A PodGroup of a file had priority 0 whatever its class, so that others were evicted first."""
    group = msgspec.convert({"spec": {"priorityClassName": "high"}}, PodGroup)
    assert refused(group, HIGH) == []
    assert group.priority == 7
    group = PodGroup()
    assert refused(group, HIGH, USUAL) == []
    assert (group.spec.priority_class_name, group.priority) == ("usual", 3)
    group = msgspec.convert({"spec": {"priorityClassName": "none"}}, PodGroup)
    assert refused(group) == ["spec.priorityClassName PS705 there is no PriorityClass 'none'"]


def test_a_priority_that_is_there_is_kept() -> None:
    """A pod of a snapshot has its number already; its class need not be in the file."""
    pod = msgspec.convert({"spec": {"priorityClassName": "gone", "priority": 5}}, Pod)
    assert refused(pod) == []
    assert pod.spec.priority == 5


def test_the_class_of_a_template_exists() -> None:
    """It is refused where the workload stands, before pods are made of it."""
    template = {"spec": {"priorityClassName": "none"}}
    workload = msgspec.convert({"spec": {"template": template}}, Deployment)
    (problem,) = refused(workload, HIGH)
    assert problem.startswith("spec.template.spec.priorityClassName PS705")


def test_a_claim_is_for_one_device() -> None:
    """Unless it states a mode or a count."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = msgspec.convert({"spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    assert refused(claim) == []
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)
