"""Watches: what a reflector tells of, whatever becomes of its streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from policy_sched.client.apimachinery.resources import CLAIM, POD
from policy_sched.client.kube.cache.reflector import Reflector, ReflectorSettings
from policy_sched.client.kube.cache.store import Change
from policy_sched.client.kube.rest.decoding import Decoding, WatchEvent
from policy_sched.client.kube.rest.errors import Selection
from policy_sched.model.pod import Pod
from policy_sched.model.storage import PersistentVolumeClaim
from tests.client.kube.conformance.ground import Acting, Ground, played, until
from tests.client.kube.conformance.servers import NAMED

NOTE = {"metadata": {"annotations": {"example.com/note": "lorem ipsum " * 20_000}}}
"""Annotations may have 256 KiB; this has 240 KB."""


@dataclass
class Told:
    """A reflector of pods, what it told, and what troubled it."""

    reflector: Reflector[Pod]
    changes: list[Change[Pod]] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def of(self, name: str) -> list[Change[Pod]]:
        """Return what was told of one pod."""
        return [change for change in self.changes if change.object.metadata.name == name]

    @property
    def names(self) -> list[str]:
        """The pods that are believed to be there."""
        return sorted(pod.metadata.name for pod in self.reflector.mirror)

    async def have(self, *names: str) -> None:
        """Wait until these pods are believed to be there, and no others."""

        async def same() -> bool:
            return self.names == sorted(names)

        await until(same)

    def check(self) -> None:
        """Check that what was told of each pod is one story."""
        for name in {change.object.metadata.name for change in self.changes}:
            before: Pod | None = None
            for change in self.of(name):
                assert change.old is before or change.type == "DELETED", change
                assert (change.type == "ADDED") is (before is None)
                before = change.new


@asynccontextmanager
async def following(
    ground: Ground, settings: ReflectorSettings, **selected: str
) -> AsyncIterator[Told]:
    """Follow the pods of a ground."""

    def changed(changes: Sequence[Change[Pod]]) -> None:
        told.changes += changes

    selection = Selection(POD, ground.namespace, **selected)
    reflector = Reflector(
        ground.api,
        selection,
        Pod,
        changed,
        settings=settings,
        trouble=lambda _selection, what: told.trouble.append(what),
    )
    told = Told(reflector)
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced.wait()
        yield told
    finally:
        task.cancel()
    told.check()


@pytest.mark.parametrize("streaming", [True, False])
def test_a_reflector_follows(server: str, *, streaming: bool) -> None:
    """List, changes with old and new, deletion, in order, by streaming list and by pages."""

    async def play(ground: Ground) -> None:
        await ground.pods(2)
        async with following(ground, ReflectorSettings(streaming=streaming, page=1)) as told:
            assert told.names == ["p0", "p1"]
            await ground.pod("c")
            await ground.merge(POD, "c", {"metadata": {"labels": {"app": "x"}}})
            await ground.delete("p0")
            await told.have("c", "p1")
            assert told.of("p0")[-1].type == "DELETED"
            first, *later = told.of("c")
            assert (first.type, "app" in first.object.metadata.labels) == ("ADDED", False)
            assert {change.type for change in later} == {"MODIFIED"}
            assert later[-1].object.metadata.labels["app"] == "x"
            assert told.trouble == []

    played(server, play)


@pytest.mark.parametrize("streaming", [True, False])
def test_an_empty_collection_is_read_at_once(server: str, *, streaming: bool) -> None:
    """A streaming list of nothing ends by its bookmark, however rare others are."""

    async def play(ground: Ground) -> None:
        settings = ReflectorSettings(streaming=streaming)
        selection = Selection(CLAIM, ground.namespace)
        reflector = Reflector(
            ground.api, selection, PersistentVolumeClaim, lambda _changes: None, settings=settings
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(reflector.run())
            await reflector.synced.wait()
            task.cancel()
        assert len(reflector.mirror) == 0

    played(server, play)


@pytest.mark.parametrize("streaming", [True, False])
def test_objects_as_large_as_they_may_be_are_read(server: str, *, streaming: bool) -> None:
    """Annotations of 240 KB: in a list (which a server compresses then), and in a watch."""

    async def play(ground: Ground) -> None:
        for pod in await ground.pods(2):
            await ground.merge(POD, pod.name, NOTE)
        async with following(ground, ReflectorSettings(streaming=streaming)) as told:
            await ground.pod("c")
            await ground.merge(POD, "c", NOTE)

            async def noted() -> bool:
                found = [pod.metadata.annotations for pod in told.reflector.mirror]
                return sum("example.com/note" in notes for notes in found) == 3

            await until(noted)

    played(server, play)


def test_a_reflector_resumes_after_its_watch_has_ended(one_server: str) -> None:
    """Watches that last a second: every pod is told once, none is missed, nothing is read again.

    The next watch begins where the last one was, and versions do not go back.
    """

    async def play(ground: Ground) -> None:
        await ground.pod("old")
        async with following(ground, ReflectorSettings(shortest=0.5)) as told:
            number = 0
            while len(ground.api.streams) < 3:
                await ground.pod(f"p{number}")
                number += 1
                await asyncio.sleep(0.3)  # a server ends a watch after whole seconds
            names = [f"p{n}" for n in range(number)]
            await told.have("old", *names)
            added = [c.object.metadata.name for c in told.changes if c.type == "ADDED"]
            assert added == ["old", *names]
            assert told.trouble == []
            first, *later = ground.api.streams
            assert (first.get("sendInitialEvents"), "resourceVersion" in first) == ("true", False)
            versions = [int(query["resourceVersion"]) for query in later]
            assert versions == sorted(versions)
            assert ground.api.lists == []

    played(one_server, play)


def test_what_no_selector_selects_any_more_has_gone(server: str) -> None:
    """A pod that is bound leaves the pods that are not; one that has ended leaves the living."""

    async def play(ground: Ground) -> None:
        pod = await ground.pod("web")
        settings = ReflectorSettings()
        async with following(ground, settings, field_selector="spec.nodeName=") as told:
            assert told.names == ["web"]
            assert await Acting(ground).bound(pod, ground.nodes[0]) is None
            await told.have()
            assert told.changes[-1].type == "DELETED"
            assert told.trouble == []

    played(server, play)


def test_a_version_that_is_too_old_leads_to_all_that_there_is(server: str) -> None:
    """A watch from the first version of all ends with 410, and everything is read again.

    A server that still knows that version tells all since then; what is believed is the same.
    """

    async def play(ground: Ground) -> None:
        await ground.pods(3)
        await ground.delete("p1")
        ground.forget()
        ground.api.instead["resourceVersion"] = "1"
        async with following(ground, ReflectorSettings(streaming=False)) as told:
            await ground.pod("new")
            await told.have("new", "p0", "p2")
            assert told.trouble or server == NAMED
            for what in told.trouble:
                assert "too old" in what
                assert len(ground.api.lists) == 2, "one at first, one after that"

    played(server, play)


def test_a_quiet_watch_sends_bookmarks_only(one_server: str) -> None:
    """Each is readable, is no object, and no older than where the watch began."""

    async def play(ground: Ground) -> None:
        selection = Selection(POD, ground.namespace)
        page = Decoding(POD, Pod).page(await ground.api.get(selection.path, selection.query()))
        begun = page.version
        # A kube-apiserver sends a bookmark two seconds before the end of a watch.
        seconds = "4" if one_server == NAMED else "1"
        query = selection.query(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=seconds,
            resourceVersion=begun,
        )
        events = await _events(ground, selection, query)
        assert {event.type for event in events} <= {"BOOKMARK"}
        assert all(event.object is None and event.unread is None for event in events)
        versions = [int(begun), *(int(event.version) for event in events)]
        assert versions == sorted(versions)

    played(one_server, play)


async def _events(
    ground: Ground, selection: Selection, query: dict[str, str]
) -> list[WatchEvent[Pod]]:
    decoding, events = Decoding(POD, Pod), []
    async with ground.api.stream(selection.path, query, silence=30.0) as chunks:
        async for lines in chunks:
            events += [decoding.event(line) for line in lines]
    return events
