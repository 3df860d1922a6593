"""Lists: pages, selectors, large objects, pages that have become too old, refusals."""

from __future__ import annotations

import base64
import json

import pytest

from policy_sched.client.apimachinery.resources import POD, ApiError
from policy_sched.client.kube.cache.reflector import list_all
from policy_sched.client.kube.rest.decoding import Decoding
from policy_sched.client.kube.rest.errors import Selection, expired, object_path
from policy_sched.model.pod import Pod
from tests.client.kube.conformance.ground import Acting, Ground, played

PODS = Decoding(POD, Pod)


def test_pages_make_the_whole_list(server: str) -> None:
    """Seven pods in pages of two are seven pods at one version."""

    async def play(ground: Ground) -> None:
        names = [pod.name for pod in await ground.pods(7)]
        selection = Selection(POD, ground.namespace)
        listing = await list_all(ground.api, selection, PODS, limit=2)
        assert [pod.metadata.name for pod in listing.items] == names
        assert listing.version
        assert listing.unread == []
        assert listing.items[0].kind == "Pod"
        assert [bool(query.get("continue")) for query in ground.api.lists] == [False] + 3 * [True]

    played(server, play)


def test_all_pages_of_a_list_are_of_one_version(server: str) -> None:
    """What comes and goes between two pages is not in the later ones."""

    async def play(ground: Ground) -> None:
        pods = await ground.pods(4)
        selection = Selection(POD, ground.namespace)
        first = PODS.page(await ground.api.get(selection.path, selection.query(limit="2")))
        await ground.pod("p9")
        await ground.delete("p3")
        more = selection.query(limit="2", **{"continue": first.next})
        second = PODS.page(await ground.api.get(selection.path, more))
        found = [pod.metadata.name for pod in (*first.items, *second.items)]
        assert found == [pod.name for pod in pods]
        assert second.version == first.version

    played(server, play)


def test_selectors_choose_the_objects_of_a_list(server: str) -> None:
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
            listing = await list_all(ground.api, selection, PODS, limit=1)
            assert [pod.metadata.name for pod in listing.items] == expected

    played(server, play)


def _long_past(token: str) -> str:
    """Return a token that goes on with a list of the first version."""
    try:
        said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except ValueError:
        pytest.skip("the server's tokens are of a form that cannot be made older")
    old = json.dumps({**said, "rv": 1}).encode()
    return base64.urlsafe_b64encode(old).rstrip(b"=").decode()


async def _too_old(ground: Ground, selection: Selection, token: str) -> bool:
    """Tell whether the server refuses to go on from a token."""
    try:
        query = selection.query(limit="2", **{"continue": token})
        await ground.api.get(selection.path, query)
    except ApiError as error:
        return expired(error)
    return False


def test_a_list_whose_pages_are_too_old_is_begun_again(server: str) -> None:
    """The server says 410 to the second page; the list is complete all the same."""

    async def play(ground: Ground) -> None:
        names = [pod.name for pod in await ground.pods(5)]
        selection = Selection(POD, ground.namespace)
        page = PODS.page(await ground.api.get(selection.path, selection.query(limit="2")))
        ground.forget()
        token = _long_past(page.next)
        if not await _too_old(ground, selection, token):
            pytest.skip("the server has not forgotten its first version yet")
        ground.api.lists.clear()
        ground.api.instead["continue"] = token
        listing = await list_all(ground.api, selection, PODS, limit=2)
        assert [pod.metadata.name for pod in listing.items] == names
        beginnings = [query for query in ground.api.lists if "continue" not in query]
        assert len(beginnings) == 2

    played(server, play)


def test_refusals_say_why(server: str) -> None:
    """Status, reason, message and details of what is not there and of what is not valid."""

    async def play(ground: Ground) -> None:
        with pytest.raises(ApiError) as caught:
            await ground.api.get(object_path(POD, ground.namespace, "none"))
        error = caught.value
        assert (error.code, error.reason) == (404, "NotFound")
        assert error.message == 'pods "none" not found'
        assert error.details["name"] == "none"
        with pytest.raises(ApiError) as caught:
            await ground.pod("Bad_Name")
        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        await ground.pod("twice")
        with pytest.raises(ApiError) as caught:
            await ground.pod("twice")
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")

    played(server, play)
