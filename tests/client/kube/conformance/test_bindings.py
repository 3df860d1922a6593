"""Bindings: whose pod, to which node, how often, and what comes of it."""

from __future__ import annotations

import asyncio

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_pod
from tests.client.kube.conformance.ground import Acting, Ground, played

HELD = {"finalizers": ["policy-sched.example.com/hold"]}


def test_bindings_and_their_refusals(server: str) -> None:
    """Once is bound; twice to the same node is settled; to another, gated or gone is refused."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        here, there = ground.nodes
        pod = await ground.pod("web")
        assert await acting.bound(pod, here) is None
        seen = await ground.seen("web")
        assert seen["spec"]["nodeName"] == here
        scheduled = [c for c in seen["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert [c["status"] for c in scheduled] == ["True"]
        assert await acting.bound(pod, here) is None
        gated = await ground.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        missing = PodInfo.of(make_pod("none", namespace=ground.namespace, uid="x"))
        other = PodInfo.of(make_pod("free", namespace=ground.namespace, uid=str(pod.uid)))
        await ground.pod("free")
        for wanted, node, code, words in (
            (pod, there, 409, f'is already assigned to node "{here}"'),
            (gated, here, 409, "has non-empty .spec.schedulingGates"),
            (missing, here, 404, "not found"),
            (other, here, 409, "Precondition failed: UID in precondition"),
        ):
            error = await acting.refused(wanted, node)
            assert (error.code, words in str(error)) == (code, True), str(error)

    played(server, play)


def test_of_two_schedulers_one_binds(server: str) -> None:
    """Both send at once; one is told that the pod has a node, and which."""

    async def play(ground: Ground) -> None:
        for pod in await ground.pods(5):
            answers = await asyncio.gather(
                *(Acting(ground).bound(pod, node) for node in ground.nodes)
            )
            (refused,) = (error for error in answers if error is not None)
            node = ground.nodes[answers.index(None)]
            assert isinstance(refused, ApiError)
            assert refused.code == 409
            assert f'is already assigned to node "{node}"' in str(refused)
            assert (await ground.seen(pod.name))["spec"]["nodeName"] == node

    played(server, play)


def test_many_are_bound_at_once(server: str) -> None:
    """Each where it was sent, beside the others."""

    async def play(ground: Ground) -> None:
        acting, failures = Acting(ground), []
        chosen = {pod: ground.nodes[i % 2] for i, pod in enumerate(await ground.pods(30))}
        for pod, node in chosen.items():
            acting.client.bind(pod, node, failures.append)
        assert await acting.done() == []
        assert failures == [None] * len(chosen)
        for pod, node in chosen.items():
            assert (await ground.seen(pod.name))["spec"]["nodeName"] == node

    played(server, play)


def test_a_pod_that_is_going_is_not_bound(server: str) -> None:
    """A finalizer holds it; it is refused once and for all, and not asked for again."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web", HELD)
        await ground.delete("web")
        ground.api.lists.clear()
        error = await acting.refused(pod, ground.nodes[0])
        assert error.code == 409
        assert "is being deleted, cannot be assigned to a host" in str(error)
        assert len(ground.api.lists) == 1, "it was looked up once whether it is bound"
        assert "nodeName" not in (await ground.seen("web"))["spec"]

    played(server, play)


def test_a_warning_is_no_refusal(server: str) -> None:
    """Of a label that is out of date a server warns in a header; the pod is bound all the same."""

    async def play(ground: Ground) -> None:
        selector = {"beta.kubernetes.io/os": "linux"}
        pod = await ground.pod("web", nodeSelector=selector)
        assert await Acting(ground).bound(pod, ground.nodes[0]) is None

    played(server, play)
