"""Leases: leaders, candidates, late updates."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.leaderelection.lease_lock import LEASE, Elector, Lease
from policy_sched.client.kube.leaderelection.state_machine import Election, ElectionSettings
from policy_sched.client.kube.rest.errors import collection_path, object_path
from tests.client.kube.conformance.ground import LONGEST, Ground, played, until
from tests.client.kube.conformance.servers import CLOCKS

NAME = "policy-sched"


def _elector(ground: Ground, name: str) -> Elector:
    election = Election(name, CLOCKS, Random(name), ElectionSettings())
    lease = Lease(ground.api, ground.namespace, NAME)
    return Elector(lease, election, ground.api, lambda _leads: None)


def test_two_candidates_share_a_lease(server: str) -> None:
    """One leads; its renewals are written; the other takes over what is given back."""

    async def play(ground: Ground) -> None:
        a, b = (_elector(ground, name) for name in "ab")
        assert await a.try_once()
        assert not await b.try_once()
        first = await ground.seen(NAME, LEASE)
        assert await a.try_once()
        second = await ground.seen(NAME, LEASE)
        assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
        assert second["spec"]["acquireTime"] == first["spec"]["acquireTime"]
        assert b.election.holder == "a"
        await a.release(LONGEST)
        assert await b.try_once()
        assert not a.election.leading
        lease = await ground.seen(NAME, LEASE)
        assert lease["spec"]["holderIdentity"] == "b"
        assert lease["spec"]["leaseTransitions"] == 1

    played(server, play)


def test_a_standby_hears_that_a_lease_is_free(server: str) -> None:
    """It watches the lease by name, and leads when the other one has left."""

    async def play(ground: Ground) -> None:
        a, b = (_elector(ground, name) for name in "ab")
        assert await a.try_once()
        waiting = asyncio.create_task(b.run())
        await b.watch.synced.wait()
        assert not b.election.leading
        await a.release(LONGEST)
        await until(lambda: _leads(b))
        waiting.cancel()
        assert (await ground.seen(NAME, LEASE))["spec"]["holderIdentity"] == "b"

    played(server, play)


async def _leads(elector: Elector) -> bool:
    return elector.election.leading


def test_fields_of_others_in_a_lease_are_kept(server: str) -> None:
    """Labels and annotations; and the leader finds its lease changed, and renews it."""

    async def play(ground: Ground) -> None:
        a = _elector(ground, "a")
        assert await a.try_once()
        await ground.merge(LEASE, NAME, {"metadata": {"annotations": {"example.com/note": "x"}}})
        await a.try_once()
        assert await a.try_once()
        lease = await ground.seen(NAME, LEASE)
        assert lease["spec"]["holderIdentity"] == "a"
        assert lease["metadata"]["annotations"]["example.com/note"] == "x"

    played(server, play)


def test_a_lease_that_has_gone_is_made_again(server: str) -> None:
    """By the former leader, or by another."""

    async def play(ground: Ground) -> None:
        a = _elector(ground, "a")
        assert await a.try_once()
        path = object_path(LEASE, ground.namespace, NAME)
        await ground.api.request("DELETE", path)
        await a.try_once()
        assert await a.try_once()
        assert (await ground.seen(NAME, LEASE))["spec"]["holderIdentity"] == "a"

    played(server, play)


def test_a_lease_is_written_by_one_of_two(server: str) -> None:
    """Two candidates that read the same lease: the second one's write is a conflict."""

    async def play(ground: Ground) -> None:
        path = object_path(LEASE, ground.namespace, "one")
        made = await ground.make(LEASE, "one", {"spec": {"holderIdentity": "x"}})
        again = {**made, "metadata": {"name": "one", "namespace": ground.namespace}}
        await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "y"}})
        with pytest.raises(ApiError) as caught:
            await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "z"}})
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        with pytest.raises(ApiError) as caught:
            await ground.api.request("POST", collection_path(LEASE, ground.namespace), again)
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")

    played(server, play)
