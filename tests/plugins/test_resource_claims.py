"""What DynamicResources says of pods that have no claims."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.scheduler.wiring import assemble, read
from policy_sched.testing import make_node
from tests.scheduler.world import run

UNFIT = "0/1 nodes are available: 1 Insufficient cpu."
CLAIMS = "no new claims to deallocate"
NOBODY = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def refused(*disabled: str) -> str:
    """Return what is said of a pod that is too large, with these plugins disabled."""
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": name} for name in disabled]}}
    group = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler = assemble(read({**group, "profiles": [{"plugins": plugins}]}, ())[0])
    scheduler.cache.add_node(make_node("n0", cpu="1"))
    return run(scheduler, name="large", cpu="2").message


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
