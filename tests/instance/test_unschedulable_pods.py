"""Pods that fit on no node: one attempt, one patch and one event each."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata:
  name: site
spec:
{requeue}  filter:
  - expression: >-
      {expression}
    message: not here
"""
PODS = 200


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ('pod.annotations[?"home"].orValue("") == node.name', ""),
        ("pod.schedulingGates.size() > 0", ""),
        ('pod.nodeSelector[?"home"].orValue("") == node.name', ""),
        ("false", "true"),
    ],
)
def test_an_unschedulable_pod_is_tried_once(expression: str, hint: str, tmp_path: Path) -> None:
    """Each was tried twice: the patch of its condition was taken for a change of the pod."""
    requeue = f'  requeue: {{hint: "{hint}"}}\n' if hint else ""
    file = tmp_path / "site.yaml"
    file.write_text(POLICY.format(expression=expression, requeue=requeue))

    async def play(world: World) -> None:
        world.policies = PolicyFiles(None, (str(file),))
        requested: list[str] = []

        async def before(method: str, path: str) -> None:
            requested.append(f"{method} {path}")

        world.before = before
        world.apply(node("a"), *(pod(f"p{i}") for i in range(PODS)))
        async with world.served(), world.scheduler() as instance:

            def known() -> int:
                pods = instance.informers.objects(("v1", "Pod"))
                return sum(any(c.reason for c in one.status.conditions) for one in pods)

            await until(lambda: known() == PODS and not instance.informers.behind)
            await until(lambda: len(world.events()) == PODS and instance.scheduler.queue.idle())
            lines = instance.metrics.text().splitlines()
            counted = [one for one in lines if one.startswith("scheduler_schedule_attempts_total{")]
            assert sum(float(one.rpartition(" ")[2]) for one in counted) == PODS
        patches = [one for one in requested if one.startswith("PATCH") and one.endswith("/status")]
        assert len(patches) == PODS
        assert len([one for one in requested if one.startswith("POST") and "events" in one]) == PODS

    acted(play)
