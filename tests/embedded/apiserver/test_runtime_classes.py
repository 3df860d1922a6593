"""Runtime classes at the API server: pods are completed by them, or refused."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.embedded.apiserver.world import PODS, pod, serving
from tests.embedded.world import pod_spec, workload
from tests.model.test_cluster_objects import SANDBOXED

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def sandboxed(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod of the class."""
    made = pod(name)
    made["spec"] = {**made["spec"], "runtimeClassName": "sandboxed", **spec}
    return made


def test_a_pod_gets_overhead_and_scheduling_of_its_class() -> None:
    """Pods were scheduled as if their sandbox took nothing and ran everywhere."""

    async def run() -> None:
        async with serving() as world:
            status, body = await world.ask("POST", PODS, sandboxed("early"))
            assert status == 403
            assert body["message"] == (
                'pods "early" is forbidden: pod rejected: RuntimeClass "sandboxed" not found'
            )
            assert (await world.ask("POST", CLASSES, SANDBOXED))[0] == 201
            status, body = await world.ask("POST", PODS, sandboxed("p", nodeSelector={"a": "b"}))
            assert status == 201
            spec = body["spec"]
            assert spec["overhead"] == {"cpu": "250m", "memory": "120Mi"}
            assert spec["nodeSelector"] == {"a": "b", "sandbox": "yes"}
            keys = [toleration["key"] for toleration in spec["tolerations"]]
            assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
                            "sandbox"]  # fmt: skip
            status, body = await world.ask(
                "POST", PODS, sandboxed("q", nodeSelector={"sandbox": "no"})
            )
            assert (status, "conflict: runtimeClass.scheduling" in body["message"]) == (403, True)
            status, body = await world.ask("POST", PODS, sandboxed("q", overhead={"cpu": "9"}))
            assert (status, "Overhead doesn't match" in body["message"]) == (403, True)
            bare = pod("r")
            bare["spec"] = {**bare["spec"], "overhead": {"cpu": "1"}}
            status, body = await world.ask("POST", PODS, bare)
            assert (status, "without corresponding RuntimeClass" in body["message"]) == (403, True)

    asyncio.run(run())


def test_pods_of_workloads_pass_the_admission() -> None:
    """Those of a deployment whose class comes later are made when it is there."""

    async def run() -> None:
        async with serving() as world:
            template = pod_spec(runtimeClassName="sandboxed")
            made = workload("Deployment", template=template, replicas=1)
            path = "/apis/apps/v1/namespaces/default/deployments"
            assert (await world.ask("POST", path, made))[0] == 201
            assert not (await world.ask("GET", PODS))[1]["items"]
            assert (await world.ask("POST", CLASSES, SANDBOXED))[0] == 201
            world.clock.ns += 11 * 10**9
            world.cluster.step()
            (item,) = (await world.ask("GET", PODS))[1]["items"]
            assert item["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}

    asyncio.run(run())
