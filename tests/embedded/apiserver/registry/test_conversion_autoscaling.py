"""Autoscalers: one object in two versions, as clients of either know it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl, words
from tests.embedded.apiserver.world import World, serving

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = V1.replace("v1", "v2", 1)
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
QUEUE = {"type": "Pods", "pods": {
    "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"},
}}  # fmt: skip


def cpu(percent: int) -> dict[str, Any]:
    """Return the metric of v2 that v1 has a field for."""
    aim = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": aim}}


async def spec(world: World, path: str) -> Any:
    """Return an object's specification."""
    return (await world.ask("GET", path))[1]["spec"]


def test_a_target_of_v1_is_a_metric_of_v2() -> None:
    """Whichever version creates it; without any metric it is 80 percent."""

    async def run() -> None:
        async with serving() as world:
            given = {"scaleTargetRef": TARGET, "maxReplicas": 3}
            first = {"metadata": {"name": "a"}, "spec": {
                **given, "targetCPUUtilizationPercentage": 50,
            }}  # fmt: skip
            made = await world.create(V1, first)
            assert made["apiVersion"] == "autoscaling/v1"
            assert made["spec"] == {**first["spec"], "minReplicas": 1}
            assert (await spec(world, f"{V2}/a"))["metrics"] == [cpu(50)]
            await world.create(V2, {"metadata": {"name": "b"}, "spec": given})
            shown = await spec(world, f"{V1}/b")
            assert shown == {**given, "minReplicas": 1, "targetCPUUtilizationPercentage": 80}
            patch = {"spec": {"targetCPUUtilizationPercentage": 20, "maxReplicas": 9}}
            merge = "application/merge-patch+json"
            assert (await world.ask("PATCH", f"{V1}/a", patch, type=merge))[0] == 200
            found = await spec(world, f"{V2}/a")
            assert (found["metrics"], found["maxReplicas"]) == ([cpu(20)], 9)
            _, listed = await world.ask("GET", V1)
            assert listed["apiVersion"] == "autoscaling/v1"
            assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "b"]

    asyncio.run(run())


def test_what_v1_cannot_say_comes_back_whole() -> None:
    """Metrics and behavior are in annotations, as the API server writes them."""
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}

    async def run() -> None:
        async with serving() as world:
            wanted = {"scaleTargetRef": TARGET, "maxReplicas": 3, "minReplicas": 2}
            wanted |= {"metrics": [cpu(70), QUEUE], "behavior": behavior}
            await world.create(V2, {"metadata": {"name": "a"}, "spec": wanted})
            _, shown = await world.ask("GET", f"{V1}/a")
            assert shown["spec"]["targetCPUUtilizationPercentage"] == 70
            assert set(shown["metadata"]["annotations"]) == {
                "autoscaling.alpha.kubernetes.io/metrics",
                "autoscaling.alpha.kubernetes.io/behavior",
            }
            shown["spec"]["maxReplicas"] = 4
            assert (await world.ask("PUT", f"{V1}/a", shown))[0] == 200
            _, found = await world.ask("GET", f"{V2}/a")
            assert found["spec"] == {**wanted, "maxReplicas": 4}
            assert "annotations" not in found["metadata"]
            shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "{"
            status, body = await world.ask("PUT", f"{V1}/a", shown)
            assert (status, body["reason"]) == (400, "BadRequest")

    asyncio.run(run())


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl")
def test_kubectl_autoscales(tmp_path: Path) -> None:
    """And shows what it has made, in both versions."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await world.create("/apis/apps/v1/namespaces/default/deployments", deployment("web"))
            bounds = ("--min=2", "--max=5", "--cpu-percent=60")
            assert "autoscaled" in await kubectl("autoscale", "deployment", "web", *bounds)
            rows = words(await kubectl("get", "hpa"))
            assert rows[0][:3] == ["NAME", "REFERENCE", "TARGETS"]
            assert rows[1][:4] == ["web", "Deployment/web", "cpu:", "<unknown>/60%"]
            assert rows[1][4:7] == ["2", "5", "0"]
            assert words(await kubectl("get", "hpa.v1.autoscaling"))[1] == rows[1]
            described = await kubectl("describe", "hpa", "web")
            assert "Min replicas:" in described
            assert "resource cpu on pods" in described

    asyncio.run(run())
