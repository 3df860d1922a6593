"""The endpoint /validate: what it refuses, and that a hostile policy holds nobody up."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from policy_sched.instance.http import admission_reviews
from policy_sched.instance.http.admission_reviews import AdmissionReviews
from policy_sched.instance.http.endpoints import Endpoints
from policy_sched.instance.http.listener import Listener
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles.reload import ProcessLimits
from tests.instance.app.test_policy_objects import policy
from tests.instance.http.test_endpoints import Served
from tests.profiles.reload.test_objects import FILTER, WRONG

Plain = dict[str, Any]
Ask = Callable[[Any], Any]


def review(data: Plain | None, kind: str = "Policy", **more: Any) -> Plain:
    """Return the AdmissionReview of an object."""
    named = {"group": "policysched.dev", "version": "v1alpha1", "kind": kind}
    request = {"uid": "u-1", "kind": named, "operation": "CREATE", "object": data, **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.fixture(scope="module")
def reviews() -> Iterator[AdmissionReviews]:
    """Return what judges, in one process for all tests but that of its limits."""
    with AdmissionReviews(MAX_ANNOTATED_COST) as reviews:
        yield reviews


@asynccontextmanager
async def asking(folder: Path, reviews: AdmissionReviews) -> AsyncIterator[Ask]:
    """Serve; yield a function that posts a body and returns status code and answer."""
    served = Served(folder)
    endpoints = Endpoints(served.offered(reviews=reviews), served.door)
    async with (
        Listener(endpoints.handle, ("127.0.0.1", 0), None) as listener,
        aiohttp.ClientSession() as client,
    ):

        async def ask(body: Any) -> tuple[int, Plain]:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            url = f"{listener.url}/validate"
            async with client.post(url, data=io.BytesIO(data)) as answer:
                return answer.status, await answer.json()

        yield ask
    served.instance.close()


def test_a_policy_is_judged_with_every_problem_and_its_field(
    tmp_path: Path, reviews: AdmissionReviews
) -> None:
    """Without a token: API servers present none; a sound policy has its lints as warnings."""

    async def play() -> None:
        async with asking(tmp_path, reviews) as ask:
            status, answer = await ask(review(policy("mine", filter=FILTER)))
            assert (status, answer["apiVersion"]) == (200, "admission.k8s.io/v1")
            assert answer["response"] == {"uid": "u-1", "allowed": True}
            bad = policy("bad", filter=WRONG, score={"expression": "node.cpus"})
            _, answer = await ask(review(bad))
            response = answer["response"]
            assert (response["uid"], response["allowed"]) == ("u-1", False)
            assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
            head, first, second = response["status"]["message"].splitlines()
            assert head == "Policy bad is not valid:"
            assert first.startswith("spec.filter[0].expression, line 8: PS102: Node has no field")
            assert second.startswith("spec.score.expression, line 12: PS102: Node has no field")
            linted = policy("odd", filter=[{"expression": "true"}], score={"expression": "1"})
            _, answer = await ask(review(linted))
            assert answer["response"]["allowed"] is True
            assert "spec.filter[0].expression" in answer["response"]["warnings"][0]

    asyncio.run(play())


def test_what_is_no_object_of_ours_passes(tmp_path: Path, reviews: AdmissionReviews) -> None:
    """A deletion has none; another kind is somebody else's."""

    async def play() -> None:
        async with asking(tmp_path, reviews) as ask:
            for given in (
                review(None, operation="DELETE"),
                review({"kind": "ConfigMap"}, kind="ConfigMap"),
            ):
                given["request"]["kind"]["group"] = (
                    "policysched.dev" if given["request"]["object"] is None else ""
                )
                _, answer = await ask(given)
                assert answer["response"]["allowed"] is True

    asyncio.run(play())


BODIES = (b"", b"{", b"[]", b"{}", b'{"request": 5}', b"[" * 10_000, b'{"request": {"uid": 1}}')


def test_what_is_no_review_is_refused(tmp_path: Path, reviews: AdmissionReviews) -> None:
    """With a reason, and no traceback."""

    async def play() -> None:
        async with asking(tmp_path, reviews) as ask:
            for body in BODIES:
                status, answer = await ask(body)
                assert (status, answer["reason"]) == (400, "BadRequest"), body

    asyncio.run(play())


def test_bodies_and_the_number_of_reviews_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reviews: AdmissionReviews
) -> None:
    """Anybody who reaches the port may ask: an object of 1 MB is judged, a larger body is not."""
    monkeypatch.setattr(admission_reviews, "WAITING", 1)

    async def play() -> None:
        async with asking(tmp_path, reviews) as ask:
            large = policy("large", filter=[{"expression": "true", "message": "x" * 2**20}])
            _, answer = await ask(review(large))
            assert "PS501" in answer["response"]["status"]["message"]
            status, answer = await ask(b" " * (admission_reviews.MOST_BYTES + 1))
            assert (status, "more than 4194304 bytes" in answer["message"]) == (400, True)
            both = [ask(review(policy(name, filter=FILTER))) for name in "ab"]
            assert sorted(status for status, _ in await asyncio.gather(*both)) == [200, 429]

    asyncio.run(play())


def test_a_policy_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    """What it does, it does to a process of its own; requests go on meanwhile."""

    async def play() -> None:
        limited = AdmissionReviews(MAX_ANNOTATED_COST, ProcessLimits(1, 2**29))
        with limited:
            async with asking(tmp_path, limited) as ask:
                rule = " || ".join(f"node.labels['{i}'] == pod.labels['{i}']" for i in range(25))
                _, answer = await ask(review(policy("costly", filter=[{"expression": rule}] * 60)))
                response = answer["response"]
                assert response["allowed"] is False
                assert (
                    "cannot be judged: it takes more than 1 seconds"
                    in response["status"]["message"]
                )

    asyncio.run(play())


def test_a_process_that_ends_is_replaced(reviews: AdmissionReviews) -> None:
    """Whatever ended it: the next policy is judged by another one."""

    async def play() -> None:
        body = json.dumps(review(policy("mine", filter=FILTER))).encode()
        assert (await reviews.review(body))["response"]["allowed"] is True
        os.kill(reviews.pid, signal.SIGKILL)
        answers = [(await reviews.review(body))["response"]["allowed"] for _ in range(2)]
        assert answers[-1] is True

    asyncio.run(play())


def test_an_endpoint_without_objects_has_no_such_page(tmp_path: Path) -> None:
    """A scheduler of files alone offers nothing to callers without credentials."""

    async def play() -> None:
        served = Served(tmp_path)
        async with served.session() as ask:
            assert (await ask("/validate", method="POST", body="{}"))["status"] == 403
        served.instance.close()

    asyncio.run(play())
