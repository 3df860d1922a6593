"""What DynamicResources says of pods that have no claims."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.framework.status import Code
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node
from tests.scheduler.world import run

UNFIT = "0/1 nodes are available: 1 Insufficient cpu."
CLAIMS = "no new claims to deallocate"
NOBODY = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def refused(*disabled: str) -> str:
    """Return what is said of a pod that is too large, with these plugins disabled."""
    return outcome_of(disabled, cpu="2").message


def outcome_of(disabled: tuple[str, ...], **spec: Any) -> Outcome:
    """Return what becomes of a pod on a node with 1 cpu, with these plugins disabled."""
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}
    group = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler = assemble(read({**group, "profiles": [{"plugins": plugins}]}, ())[0])
    scheduler.cache.add_node(make_node("n0", cpu="1"))
    return run(scheduler, name="large", **spec)


@pytest.mark.parametrize(
    ("disabled", "text"),
    [
        ((), f"{UNFIT} {CLAIMS}, {NOBODY}"),
        (("DefaultPreemption",), f"{UNFIT} {CLAIMS}"),
        (("DynamicResources",), f"{UNFIT} {NOBODY}"),
        (("DynamicResources", "DefaultPreemption"), UNFIT),
    ],
)
def test_its_words_stand_before_those_of_preemption(disabled: tuple[str, ...], text: str) -> None:
    """As kube-scheduler 1.36 joins them; a plugin that is disabled says nothing."""
    assert refused(*disabled) == text


CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]
MISSING = '0/1 nodes are available: persistentvolumeclaim "none" not found.'
CONFLICT: dict[str, Any] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": [name]}
                        for name in ("n0", "n1")
                    ]
                }
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("disabled", "text"),
    [
        ((), f"{MISSING} not found"),
        (("DefaultPreemption",), f"{MISSING} not found"),
        (("DynamicResources",), f"{MISSING} {NOBODY}"),
    ],
)
def test_a_pod_that_pre_filter_rejects_has_not_found_in_its_message(
    disabled: tuple[str, ...], text: str
) -> None:
    """A missing claim was told with words of preemption; kube-scheduler 1.36 runs no PostFilter
    plugin then.

    What failed is the search for room only: the pod is unschedulable, and no error is counted.
    """
    outcome = outcome_of(disabled, volumes=CLAIM)
    assert outcome.message == text
    assert outcome.status.code is Code.UNSCHEDULABLE


def test_contradicting_terms_have_the_same_message() -> None:
    """Whichever plugin before DynamicResources rejects the pod in PreFilter."""
    text = "0/1 nodes are available: pod affinity terms conflict. not found"
    assert outcome_of((), affinity=CONFLICT).message == text
