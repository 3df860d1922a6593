"""What our client expects of an API server when it reads: of the embedded one, and of any.

Set POLICY_SCHED_KUBECONFIG to the path of a kubeconfig to run it against a real kube-apiserver.
Everything happens in a namespace and on nodes of its own, which are deleted in the end.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from policy_sched.client.embedded.resources import POD
from policy_sched.client.kube.decoding import Decoding
from policy_sched.client.kube.listing import list_all
from policy_sched.client.kube.mirror import Change
from policy_sched.client.kube.paths import Selection, object_path
from policy_sched.client.kube.reflector import Reflector, ReflectorSettings
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from tests.client.kube.conformance.servers import (
    Acting,
    Ground,
    played,
    until,
)

T = TypeVar("T", bound=ApiObject)


def test_pages_make_the_whole_list(server: str) -> None:
    """Seven pods in pages of two are seven pods at one version."""

    async def play(ground: Ground) -> None:
        names = [f"p{i}" for i in range(7)]
        for name in names:
            await ground.pod(name)
        selection = Selection(POD, ground.namespace)
        listing = await list_all(ground.api, selection, Decoding(POD, Pod), limit=2)
        assert [pod.metadata.name for pod in listing.items] == names
        assert listing.version
        assert listing.unread == []
        assert listing.items[0].kind == "Pod"

    played(server, play)


def test_selectors_select(server: str) -> None:
    """Field selectors of bound and unbound pods, label selectors in lists."""

    async def play(ground: Ground) -> None:
        await ground.pod("free")
        taken = await ground.pod("taken")
        await ground.merge(POD, "taken", {"metadata": {"labels": {"app": "x"}}})
        assert await Acting(ground).bound(taken, ground.nodes[0]) is None
        for more, expected in (
            ({"field_selector": "spec.nodeName="}, ["free"]),
            ({"field_selector": f"spec.nodeName={ground.nodes[0]}"}, ["taken"]),
            ({"field_selector": "status.phase!=Succeeded,status.phase!=Failed"}, ["free", "taken"]),
            ({"label_selector": "app in (x,y)"}, ["taken"]),
        ):
            selection = Selection(POD, ground.namespace, **more)
            listing = await list_all(ground.api, selection, Decoding(POD, Pod))
            assert [pod.metadata.name for pod in listing.items] == expected

    played(server, play)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_reflector_follows(server: str, *, streaming: bool) -> None:
    """List, changes with old and new, deletion, in order, by streaming list and by pages."""

    async def play(ground: Ground) -> None:
        told: list[Change[Pod]] = []
        reflector = Reflector(
            ground.api,
            Selection(POD, ground.namespace),
            Pod,
            told.extend,
            settings=ReflectorSettings(streaming=streaming, page=1),
        )
        for name in ("a", "b"):
            await ground.pod(name)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        assert len(reflector.mirror) == 2
        await ground.pod("c")
        await ground.merge(POD, "c", {"metadata": {"labels": {"app": "x"}}})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        path = object_path(POD, ground.namespace, "a")
        await ground.api.request("DELETE", path, options)
        await until(lambda: _deleted(told, "a"))
        task.cancel()
        of_c = [change for change in told if change.object.metadata.name == "c"]
        assert [change.type for change in of_c][:2] == ["ADDED", "MODIFIED"]
        assert of_c[1].old is of_c[0].new
        assert of_c[1].object.metadata.labels == {"app": "x"}
        assert len(reflector.mirror) == 2

    played(server, play)


async def _deleted(told: list[Change[Pod]], name: str) -> bool:
    return any(c.type == "DELETED" and c.object.metadata.name == name for c in told)


@pytest.mark.parametrize("streaming", [True, False])
def test_objects_as_large_as_they_may_be_are_read(server: str, *, streaming: bool) -> None:
    """Annotations of 250 KB: in a list (which a server compresses then), and in a watch."""

    async def play(ground: Ground) -> None:
        told: list[Change[Pod]] = []
        note = {"metadata": {"annotations": {"policy-sched/note": "lorem ipsum " * 20_000}}}
        for name in ("a", "b"):
            await ground.pod(name)
            await ground.merge(POD, name, note)
        selection, settings = (
            Selection(POD, ground.namespace),
            ReflectorSettings(streaming=streaming),
        )
        reflector = Reflector(ground.api, selection, Pod, told.extend, settings=settings)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        await ground.pod("c")
        await ground.merge(POD, "c", note)
        await until(lambda: _noted(reflector, 3))
        task.cancel()

    played(server, play)


async def _noted(reflector: Reflector[Pod], wanted: int) -> bool:
    long = [pod for pod in reflector.mirror if sum(map(len, pod.metadata.annotations.values()))]
    return len(long) == wanted


def test_a_reflector_goes_on_after_its_watch_has_ended(server: str) -> None:
    """Watches that last a second: every pod is told once, none is missed."""

    async def play(ground: Ground) -> None:
        told: list[Change[Pod]] = []
        settings = ReflectorSettings(shortest=0.5)
        selection = Selection(POD, ground.namespace)
        reflector = Reflector(ground.api, selection, Pod, told.extend, settings=settings)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        for number in range(6):
            await ground.pod(f"p{number}")
            await asyncio.sleep(0.3)
        await until(lambda: _count(told, 6))
        task.cancel()
        added = [c.object.metadata.name for c in told if c.type == "ADDED"]
        assert added == [f"p{number}" for number in range(6)]

    played(server, play)


async def _count(told: list[Change[Pod]], wanted: int) -> bool:
    return sum(change.type == "ADDED" for change in told) >= wanted
