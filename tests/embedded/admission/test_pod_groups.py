"""Pod groups at admission: their priority, and the workload that they reference."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.apimachinery import ApiError
from tests.embedded.store.test_store import new_store

GROUPS = "scheduling.k8s.io/v1alpha2"


def _group(**spec: Any) -> dict[str, Any]:
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    meta = {"name": "ring", "namespace": "default"}
    return {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta, "spec": {**policy, **spec}}


def _class(name: str, value: int, *, default: bool = False) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name}, "value": value, "globalDefault": default}


def _created(*objects: dict[str, Any]) -> dict[str, Any]:
    """Create objects in a store with the namespace default; return the spec of the last one."""
    store = new_store()
    for obj in objects:
        stored = store.create(obj)
    spec: dict[str, Any] = stored.data["spec"]
    return spec


def test_the_priority_is_that_of_the_class() -> None:
    """Of the one that is named, or of the default one; without either there is none."""
    high, usual = _class("high", 7), _class("usual", 3, default=True)
    assert _created(high, _group(priorityClassName="high"))["priority"] == 7
    spec = _created(usual, _group())
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 3)
    assert "priority" not in _created(_group())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "low"}, "no PriorityClass with name low was found"),
        (
            {"priorityClassName": "high", "priority": 8},
            "the integer value of priority (8) must not be provided in pod group spec",
        ),
    ],
)
def test_a_priority_that_is_not_the_class_is_refused(spec: dict[str, Any], words: str) -> None:
    """As for pods."""
    with pytest.raises(ApiError) as refused:
        _created(_class("high", 7), _group(**spec))
    assert refused.value.code == 403
    assert words in str(refused.value)


def test_a_group_needs_the_template_that_it_references() -> None:
    """The workload and its template are there first, in the group's namespace."""
    template = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}}
    meta = {"name": "train", "namespace": "default"}
    workload = {
        "apiVersion": GROUPS,
        "kind": "Workload",
        "metadata": meta,
        "spec": {"podGroupTemplates": [template]},
    }

    def reference(name: str) -> dict[str, Any]:
        return {"workload": {"workloadName": "train", "podGroupTemplateName": name}}

    assert _created(workload, _group(podGroupTemplateRef=reference("worker")))
    elsewhere = {**workload, "metadata": {**meta, "namespace": "other"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    with pytest.raises(ApiError, match='PodGroup rejected: Workload "train" not found'):
        _created(namespace, elsewhere, _group(podGroupTemplateRef=reference("worker")))
    words = 'PodGroup rejected: PodGroupTemplate "driver" not found in Workload "train"'
    with pytest.raises(ApiError, match=words):
        _created(workload, _group(podGroupTemplateRef=reference("driver")))
