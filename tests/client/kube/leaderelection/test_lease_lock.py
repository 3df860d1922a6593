"""Leases over HTTP, and electors against a server that keeps one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from policy_sched.client.kube.leaderelection import lease_lock, state_machine
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from tests.client.kube.stage import LONGEST, Asked, Stage, Wire, acted, bookmark, stage, status

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@dataclass
class Kept:
    """An API server's one lease."""

    lease: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    stuck: bool = False
    watches: list[Wire] = field(default_factory=list)

    async def __call__(self, asked: Asked, wire: Wire) -> None:
        """Answer as an API server does."""
        if self.stuck:
            await asyncio.Event().wait()
        if "watch" in asked.query:
            await wire.begin()
            await wire.line("BOOKMARK", bookmark(self.version, end=True))
            self.watches.append(wire)
            await asyncio.Event().wait()
        if asked.method == "GET":
            if not self.lease:
                return await wire.respond(404, status(404, "NotFound"))
            return await wire.respond(200, self.lease)
        body = asked.json
        if asked.method == "POST":
            assert asked.path == PATH
            if self.lease:
                return await wire.respond(409, status(409, "AlreadyExists"))
        elif body["metadata"]["resourceVersion"] != str(self.version):
            return await wire.respond(409, status(409, "Conflict"))
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        await wire.respond(200, body)
        for watch in self.watches:
            await watch.line("MODIFIED", body)
        return None


def elector(here: Stage, api: Any, name: str, told: list[str]) -> lease_lock.Elector:
    """Return a candidate that writes down what it is told."""
    clocks = here.environment.clocks
    election = state_machine.Election(name, clocks, Random(1), state_machine.ElectionSettings())
    return lease_lock.Elector(
        lease_lock.Lease(api, "kube-system", "policy-sched"),
        election,
        api,
        lambda leads: told.append(f"{name} {'leads' if leads else 'led'}"),
        lambda holder: told.append(f"{name}: {holder or 'none'}"),
    )


ONCE = Settings(retry_policy=RetryPolicy(tries=1))


def test_two_electors_share_one_lease() -> None:
    """One leads, the other follows, and takes over when the first gives the lease back."""
    told: list[str] = []

    async def play() -> None:
        kept = Kept()
        async with stage(kept) as here, here.api(ONCE) as api:
            a, b = (elector(here, api, name, told) for name in "ab")
            assert await a.try_once()
            assert not await b.try_once()
            here.monotonic.advance(2)
            here.wall.advance(2)
            assert await a.try_once()
            assert here.asked[-1].method == "PUT", "a leader renews in one request"
            assert kept.lease["spec"]["holderIdentity"] == "a"
            assert kept.lease["spec"]["renewTime"] == "2027-01-15T08:00:02.000000Z"
            assert kept.lease["spec"]["acquireTime"] == "2027-01-15T08:00:00.000000Z"
            kept.lease["metadata"]["labels"] = {"kept": "yes"}
            await a.release(LONGEST)
            assert await b.try_once()
            assert kept.lease["spec"]["leaseTransitions"] == 1
            assert kept.lease["metadata"]["name"] == "policy-sched"

    acted(play())
    assert told == ["a leads", "a: a", "b: a", "a led", "a: none", "b leads", "b: b"]


def test_a_server_that_does_not_answer_cannot_hold_an_elector() -> None:
    """A leader whose renewal hangs gives up when its deadline comes."""
    told: list[str] = []

    async def play() -> None:
        kept = Kept()
        async with stage(kept) as here, here.api(ONCE) as api:
            one = elector(here, api, "a", told)
            assert await one.try_once()
            kept.stuck = True
            here.monotonic.advance(11.95)
            assert not await one.try_once()
            here.monotonic.advance(0.1)
            assert not await one.try_once()
            assert not one.election.leading

    acted(play())
    assert told == ["a leads", "a: a", "a led"]


def test_a_running_elector_waits_between_its_attempts() -> None:
    """The task sleeps until the next attempt is due."""

    async def play() -> None:
        async with stage(Kept()) as here, here.api(ONCE) as api:
            task = asyncio.create_task(elector(here, api, "a", []).run())
            while len(here.slept) < 4:
                await asyncio.sleep(0.001)
            task.cancel()
            assert here.slept[:4] == [2, 2, 2, 2]

    acted(play())


def test_a_released_lease_is_acquired_on_its_watch_event() -> None:
    """The watch of the lease wakes the other candidate, whose next try is not due for long."""
    told: list[str] = []

    async def play() -> None:
        kept = Kept()

        async def sleep(_seconds: float) -> None:
            await asyncio.Event().wait()

        async with stage(kept) as here, here.api(ONCE) as api:
            a = elector(here, api, "a", told)
            assert await a.try_once()
            api.environment = ClientEnvironment(
                api.environment.clocks, api.environment.random, sleep
            )
            task = asyncio.create_task(elector(here, api, "b", told).run())
            while "b: a" not in told or not kept.watches:
                await asyncio.sleep(0.001)
            await a.release(LONGEST)
            while "b leads" not in told:
                await asyncio.sleep(0.001)
            task.cancel()

    acted(play())


def test_a_leader_does_not_stir_for_what_it_wrote_itself() -> None:
    """Its own renewals come back by the watch, and lead to no further one."""

    async def play() -> None:
        kept = Kept()

        async def sleep(_seconds: float) -> None:
            await asyncio.Event().wait()

        async with stage(kept) as here, here.api(ONCE) as api:
            api.environment = ClientEnvironment(
                api.environment.clocks, api.environment.random, sleep
            )
            one = elector(here, api, "a", [])
            task = asyncio.create_task(one.run())
            while not (one.watch.following and one.election.leading):
                await asyncio.sleep(0.001)
            for count in range(1, 4):
                assert await one.try_once()
                while one.watch.version != str(kept.version):
                    await asyncio.sleep(0.001)
                assert [asked.method for asked in here.asked].count("PUT") == count
            task.cancel()

    acted(play())


def test_a_lease_is_released_after_an_outage() -> None:
    """A release that fails is tried again for a moment."""

    async def play() -> None:
        kept, failing = Kept(), [""] * 2

        async def script(asked: Asked, wire: Wire) -> None:
            if kept.lease and failing:
                failing.pop()
                return wire.cut()
            return await kept(asked, wire)

        async with stage(script) as here, here.api(ONCE) as api:
            one = elector(here, api, "a", [])
            assert await one.try_once()
            await one.release(LONGEST)
            assert not failing
            assert kept.lease["spec"]["holderIdentity"] == ""

    acted(play())


def test_an_answer_that_is_no_lease_is_a_failure() -> None:
    """A spec of another form, or no JSON at all, is not believed."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.respond(200, b"<html>" if asked.method == "GET" else {"spec": [1]})

    async def play() -> None:
        async with stage(script) as here, here.api(ONCE) as api:
            lease = lease_lock.Lease(api, "kube-system", "x")
            record = lease_lock.record_of({"spec": {"holderIdentity": "a"}})
            assert isinstance(await lease.send(state_machine.Create(record)), state_machine.Failed)

    acted(play())


def test_failures_to_acquire_are_reported() -> None:
    """No right to it, no server: said; a lease that is not there, or others wrote, is neither."""
    codes = [403, 404, 409, 0]

    async def script(asked: Asked, wire: Wire) -> None:
        code = codes.pop(0)
        if not code:
            return wire.cut()
        return await wire.respond(code, status(code, "", f"no {code}"))

    async def play() -> None:
        told: list[str] = []
        async with stage(script) as here, here.api(ONCE) as api:
            lease = lease_lock.Lease(api, "kube-system", "x", told.append)
            responses = [type(await lease.send(state_machine.Get())).__name__ for _ in range(4)]
        assert responses == ["Failed", "NotThere", "Failed", "Failed"]
        path = "GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
        assert told == ["403: no 403", f"{path}: Server disconnected"]

    acted(play())


def test_recorded_leases_are_read_and_written_as_they_are() -> None:
    """The spec of a lease goes through our record and comes out the same."""
    spec = {
        "holderIdentity": "host_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000001Z",
        "leaseTransitions": 3,
    }
    assert lease_lock.spec_of(lease_lock.record_of({"spec": json.loads(json.dumps(spec))})) == spec
    assert lease_lock.record_of({"spec": {"holderIdentity": None}}).holder == ""


def test_a_server_that_never_answers_holds_no_release_up() -> None:
    """It is given up after a moment: the process is to end."""

    async def play() -> None:
        kept = Kept()
        async with stage(kept) as here, here.api(ONCE) as api:
            one = elector(here, api, "a", [])
            assert await one.try_once()
            kept.stuck = True
            before = len(here.asked)
            await one.release()
            assert len(here.asked) == before + 1
            assert not one.election.leading

    acted(play())


def test_an_annotation_is_written_with_a_renewal_by_the_holder_alone() -> None:
    """Whoever does not hold the lease writes nothing; the next holder reads it."""
    told: list[str] = []
    said: list[str] = []

    async def play() -> None:
        kept = Kept()
        async with stage(kept) as here, here.api(ONCE) as api:
            a, b = (elector(here, api, name, told) for name in "ab")
            assert await a.try_once()
            assert not await b.try_once()
            b.lease.annotate("key", "of b", said.append)
            a.lease.annotate("key", "of a", said.append)
            assert not await b.try_once()
            assert said == []
            here.monotonic.advance(2)
            assert await a.try_once()
            assert said == [""]
            assert kept.lease["metadata"]["annotations"] == {"key": "of a"}
            here.monotonic.advance(2)
            assert await a.try_once()
            assert (said, a.lease.annotation("key")) == ([""], "of a")
            await a.release(LONGEST)
            c = elector(here, api, "c", told)
            assert await c.try_once()
            assert c.lease.annotation("key") == "of a"
            assert c.lease.annotation("other") is None

    acted(play())
