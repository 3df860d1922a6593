"""Deletions and what is owned: in the background, in the foreground, and left alone."""

from __future__ import annotations

import asyncio

from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.world import PODS, serving

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


def test_each_propagation_policy_is_followed() -> None:
    """In the foreground the object is shown as it waits, and a watch sees it go last."""

    async def run() -> None:
        async with serving() as world:
            for name in ("a", "b", "c"):
                await world.create(DEPLOYMENTS, deployment(name))
            world.cluster.step()
            options = {"propagationPolicy": "Orphan"}
            status, body = await world.ask("DELETE", f"{DEPLOYMENTS}/a", options)
            assert (status, body["metadata"]["finalizers"]) == (200, ["orphan"])
            world.cluster.step()
            _, sets = await world.ask("GET", f"{SETS}?labelSelector=app%3Da")
            assert [item["metadata"].get("ownerReferences") for item in sets["items"]] == [None]
            options = {"propagationPolicy": "Background"}
            assert (await world.ask("DELETE", f"{DEPLOYMENTS}/b", options))[0] == 200
            world.cluster.step()
            _, sets = await world.ask("GET", f"{SETS}?labelSelector=app%3Db")
            assert sets["items"] == []
            async with world.watch(f"{DEPLOYMENTS}?fieldSelector=metadata.name%3Dc") as lines:
                assert (await anext(lines))["type"] == "ADDED"
                path = f"{DEPLOYMENTS}/c?propagationPolicy=Foreground"
                status, body = await world.ask("DELETE", path)
                assert (status, body["kind"]) == (200, "Deployment")
                assert body["metadata"]["finalizers"] == ["foregroundDeletion"]
                events = [await anext(lines)]
                while events[-1]["type"] != "DELETED":
                    events.append(await anext(lines))
            _, pods = await world.ask("GET", f"{PODS}?labelSelector=app%3Dc")
            assert pods["items"] == []

    asyncio.run(run())
