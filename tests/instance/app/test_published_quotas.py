"""Quotas that policies publish: what each uses, in the status of its object."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from policy_sched.cluster.tables.quotas import Grant, QuotaState
from policy_sched.errors import ClusterError
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.app.published_quotas import MOST_FAILURES, status_patch

from . import test_embedded_instance
from .test_cluster_instance import World, acted, node, pod, until

GROUP = "example.com"
KIND = (f"{GROUP}", "Budget")
AMOUNTS = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": "^[0-9]+(m|Ki|Mi|Gi)?$",
    },
}
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Budgets}
spec:
  inputs:
  - name: budget
    apiVersion: example.com/v1
    kind: Budget
    schema: budgets.yaml
    key: object.namespace
  quotas:
  - name: team
    of: inputs.budget
    pods: pod.namespace
    nominal: object.spec.most
    publish: {used: object.status.used, borrowed: object.status.borrowed}
  preFilter:
    rules: [{expression: "!quota.exists || quota.name != ''", message: never}]
"""


def definition() -> dict[str, Any]:
    """Return the definition of budgets."""
    parts = {
        "spec": {"type": "object", "properties": {"most": AMOUNTS}},
        "status": {"type": "object", "properties": {"used": AMOUNTS, "borrowed": AMOUNTS}},
    }
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"budgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "budgets", "kind": "Budget"},
            "versions": [
                {**version, "schema": {"openAPIV3Schema": {"type": "object", "properties": parts}}}
            ],
        },
    }


def budget(name: str = "all", namespace: str = "default", **most: str) -> dict[str, Any]:
    """Return a budget."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Budget"}
    return {
        **head,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"most": most or {"cpu": "1"}},
    }


def written(folder: Path) -> tuple[str, ...]:
    """Write the policy and its schema; return what is given as policies."""
    (folder / "budgets.yaml").write_text(yaml.safe_dump(definition()), encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return (str(folder / "policy.yaml"),)


def status(world: World, name: str = "all", namespace: str = "default") -> dict[str, Any]:
    """Return the status of a budget as a client sees it."""
    stored = world.cluster.store.get(KIND, namespace, name)
    shown: dict[str, Any] = stored.data.get("status", {})
    return shown


async def began(world: World, folder: Path, *things: dict[str, Any]) -> None:
    """Set the policy, and serve budgets."""
    world.policies = replace(world.policies, policies=written(folder))
    world.apply(definition(), node("a"), *things)


async def served(world: World) -> None:
    """Wait until budgets are served."""
    await until(lambda: world.cluster.store.custom.find((f"{GROUP}/v1", "Budget")))


async def seen(instance: ClusterInstance, world: World, wanted: dict[str, Any]) -> None:
    """Publish until a budget shows this."""
    while status(world) != wanted:
        await instance.published.publish()
        await asyncio.sleep(0.005)


def test_the_status_follows_what_is_used(tmp_path: Path) -> None:
    """``kubectl get`` of a quota showed nothing of what its team used."""
    sent: list[str] = []

    async def note(method: str, path: str) -> None:
        if method == "PATCH" and "/budgets/" in path:
            sent.append(path)

    async def play(world: World) -> None:
        world.before = note
        await began(world, tmp_path)
        async with world.served():
            await served(world)
            world.apply(budget(cpu="1", memory="1Gi"), pod("p", "1500m"))
            async with world.scheduler() as instance:
                await until(lambda: "p" in world.bound())
                used = {"cpu": "1500m", "memory": "0"}
                await seen(
                    instance, world, {"used": used, "borrowed": {"cpu": "500m", "memory": "0"}}
                )
                await until(lambda: not instance.behind)
                count = len(sent)
                await instance.published.publish()
                assert len(sent) == count
                world.apply(pod("q", "250m"))
                await until(lambda: "q" in world.bound())
                await seen(
                    instance,
                    world,
                    {
                        "used": {"cpu": "1750m", "memory": "0"},
                        "borrowed": {"cpu": "750m", "memory": "0"},
                    },
                )
                counts = instance.metrics.policies.quota_status_writes_total.values
                assert counts["budget", "success"] == len(sent)
        assert set(sent) == {f"/apis/{GROUP}/v1/namespaces/default/budgets/all/status"}

    acted(play)


def test_the_task_publishes_from_time_to_time(tmp_path: Path) -> None:
    """It is asked for every 10 seconds; here they pass at once."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0.005)

    async def play(world: World) -> None:
        await began(world, tmp_path)
        async with world.served():
            await served(world)
            world.apply(budget(), pod("p"))
            async with world.scheduler() as instance:
                instance.published.sleep = sleep
                await until(lambda: status(world).get("used") == {"cpu": "500m"})
        assert slept[0] == 10.0

    acted(play)


def test_a_standby_publishes_nothing(tmp_path: Path) -> None:
    """Only the leader writes; when it ends, the other one does."""

    async def play(world: World) -> None:
        await began(world, tmp_path)
        async with world.served():
            await served(world)
            world.apply(budget(), pod("p"))
            async with world.scheduler("one") as leader:
                await until(lambda: "p" in world.bound())
                async with world.scheduler("two") as standby:
                    await until(lambda: standby.ready)
                    await standby.published.publish()
                    assert status(world) == {}
                    await seen(leader, world, {"used": {"cpu": "500m"}, "borrowed": {"cpu": "0"}})

    acted(play)


def test_failures_are_told_once_and_tried_again_later(tmp_path: Path) -> None:
    """Without the right to write, each round would have sent a request for each quota."""
    refused: list[str] = []

    async def play(world: World) -> None:
        names = [f"n{i}" for i in range(MOST_FAILURES + 3)]
        await began(world, tmp_path)
        async with world.served():
            await served(world)
            for name in names:
                meta = {"name": name}
                world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
                world.apply(budget(namespace=name))
            async with world.scheduler() as instance:
                await until(lambda: instance.inputs.counts() == {"budget": (len(names), 0)})

                async def sleep(_seconds: float) -> None:
                    return

                async def forbidden(*where: Any) -> None:
                    refused.append(where[1])
                    raise ClusterError("forbidden")

                instance.published.sleep = sleep
                write, instance.client.patch_status = instance.client.patch_status, forbidden  # type: ignore[method-assign]  # an API server without the right
                await until(lambda: instance.may_begin)
                await instance.published.publish()
                assert refused == names[:MOST_FAILURES]
                await instance.published.publish()
                assert refused == names
                await instance.published.publish()  # each waits for two rounds
                assert sorted(refused[len(names) :]) == names[:MOST_FAILURES]
                told = [r for r in world.records if r["msg"] == "Failed to publish a quota"]
                assert [record["error"] for record in told] == ["Budget n0/all: forbidden"]
                instance.client.patch_status = write  # type: ignore[method-assign]  # the right is there
                for _ in range(8):
                    await instance.published.publish()
                assert all(status(world, namespace=name)["used"] == {"cpu": "0"} for name in names)

    acted(play)


def test_an_embedded_cluster_shows_it(tmp_path: Path) -> None:
    """`run` without a cluster, too, writes the status."""
    world = test_embedded_instance.World(tmp_path)
    written(tmp_path / "policies")
    amounts = [definition(), budget()]
    world.files(budgets="---\n".join(map(yaml.safe_dump, amounts)))
    instance = world.start()
    world.apply(pods=test_embedded_instance.pod("p", "2"))
    while instance.step():
        pass
    asyncio.run(instance.published.publish())
    shown = instance.cluster.store.get(KIND, "default", "all").data["status"]
    assert shown == {"used": {"cpu": "2"}, "borrowed": {"cpu": "1"}}


def test_a_patch_takes_away_what_is_shown_no_more() -> None:
    """A merge patch leaves what it does not name: a resource that went stayed for ever."""
    publish = (("nominal", ("status", "granted")), ("share", ("status", "inner", "share")))
    quota = QuotaState()
    quota._node.grant = Grant({"cpu": 1500})
    try:
        assert status_patch(publish, quota, ({"cpu": 1500}, 0)) == {}
        patch = status_patch(publish, quota, ({"memory": 1}, 7))
        assert patch == {"granted": {"cpu": "1500m", "memory": None}, "inner": {"share": 0}}
        assert status_patch(publish[:1], quota, (None,)) == {"granted": {"cpu": "1500m"}}
    finally:
        quota._node.grant = Grant()
