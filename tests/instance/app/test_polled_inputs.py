"""Polled inputs: answers of a URL and of an API without watch, in a running scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from policy_sched.client.apimachinery.resources import EVENT
from policy_sched.instance.app import polled_inputs
from policy_sched.instance.app.polled_inputs import MAX_BYTES, PollFailed
from policy_sched.profiles.build import declared_inputs
from policy_sched.profiles.reload.inputs import PolicyFiles

from .test_cluster_instance import World, acted, node, pod, until
from .test_inputs import definition, established, quota, written as with_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "window": {"type": "integer"},
        "data": {
            "type": "object",
            "properties": {
                "nodes": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"load": {"type": "integer"}},
                    },
                }
            },
        },
    },
}
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Load}}
spec:
  inputs:
  - {{name: load, url: "{url}", items: data.nodes, schema: load.json, poll: 30s}}
  filter:
  - expression: |-
      inputs.load[?node.name].optMap(l, l.load < inputs.load.root.window).orValue(false)
    message: too busy
"""


def written(folder: Path, url: str) -> PolicyFiles:
    """Write the policy; return what is given as policies."""
    (folder / "load.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY.format(url=url), encoding="utf-8")
    return PolicyFiles(None, (str(folder / "policy.yaml"),))


Respond = Callable[[web.Request], web.StreamResponse]


@asynccontextmanager
async def serving(respond: Respond) -> AsyncIterator[str]:
    """Serve answers on the loopback; yield their URL."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return respond(request)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/load"
    finally:
        await runner.cleanup()


def answer(load: object, window: int = 10) -> dict[str, Any]:
    """Return what the URL answers about node a."""
    return {"window": window, "data": {"nodes": {"a": {"load": load}}}}


def test_answers_count_from_the_next_decision_on_and_the_last_one_stays(tmp_path: Path) -> None:
    """A load watcher's answer had to be copied into annotations of nodes."""
    now: list[Any] = [answer(99)]
    polls = asyncio.Queue[float]()
    go_on = asyncio.Semaphore(0)

    def respond(_request: web.Request) -> web.StreamResponse:
        if now[0] is None:
            return web.Response(status=503)
        return web.json_response(now[0])

    async def sleep(seconds: float) -> None:
        polls.put_nowait(seconds)
        await go_on.acquire()

    async def play(world: World) -> None:
        async with serving(respond) as url, world.served():
            world.policies = written(tmp_path, url)
            world.apply(node("a"), pod("p"))
            async with world.scheduler("us") as instance:
                instance.polls.sleep = sleep
                said = await until(lambda: world.condition("p", "PodScheduled"))
                assert "too busy" in said["message"]
                assert 30 <= await polls.get() <= 33
                now[0] = answer(1)
                go_on.release()
                await until(lambda: "p" in world.bound())
                await polls.get()
                for least in (60, 120):
                    now[0] = None
                    go_on.release()
                    assert least <= await polls.get() <= least * 1.1
                world.apply(pod("q"))
                await until(lambda: "q" in world.bound())
                await until(
                    lambda: [
                        stored
                        for stored in world.cluster.store.select(EVENT)
                        if stored.data["reason"] == "FailedPoll" and "503" in stored.data["note"]
                    ]
                )
                text = instance.metrics.text()
                assert 'policy_sched_input_polls_total{input="load",result="error"} 2.0' in text
                assert 'policy_sched_input_polls_total{input="load",result="success"} 2.0' in text

    acted(play)


def test_no_pod_is_decided_before_the_first_answer(tmp_path: Path) -> None:
    """Rules would have found no measurements, and taken any node."""
    status = [503]

    def respond(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=503) if status[0] == 503 else web.json_response(answer(1))

    async def play(world: World) -> None:
        async with serving(respond) as url, world.served():
            world.policies = written(tmp_path, url)
            world.apply(node("a"), pod("p"))
            async with world.scheduler() as instance:
                again = asyncio.Event()

                async def sleep(_seconds: float) -> None:
                    await again.wait()

                instance.polls.sleep = sleep
                await until(lambda: instance.polls.errors or None)
                assert not instance.may_begin
                status[0] = 200
                again.set()
                await until(lambda: "p" in world.bound())

    acted(play)


def test_an_api_without_watch_is_listed(tmp_path: Path) -> None:
    """NodeMetrics of metrics.k8s.io are no resource that can be watched."""
    text = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Load}
spec:
  inputs:
  - {name: quota, apiVersion: example.com/v1, kind: Quota, schema: quotas.yaml, poll: 30s}
  filter:
  - expression: inputs.quota[?pod.namespace].optMap(q, q.spec.most > 0).orValue(true)
    message: over quota
"""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=with_schema(tmp_path, text))
        world.apply(definition(), node("a"))
        async with world.served():
            await established(world)
            world.apply(quota(0), pod("p"))
            async with world.scheduler() as instance:
                said = await until(lambda: world.condition("p", "PodScheduled"))
                assert "over quota" in said["message"]
                assert not [r for r in instance.informers.reflectors if r.selection.plural]

    acted(play)


def _elsewhere(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "http://127.0.0.2:1/load"})


def _in_a_circle(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/load"})


@pytest.mark.parametrize(
    ("respond", "why"),
    [
        (lambda _: web.Response(text="x" * (MAX_BYTES + 1)), "has more than 1 MiB"),
        (_elsewhere, "redirects to another host: http://127.0.0.2:1"),
        (_in_a_circle, "redirects more than 3 times"),
        (lambda _: web.Response(text="<html>"), "cannot be used: JSON is malformed"),
        (lambda _: web.Response(text="[" * 100_000), "cannot be used"),
        (lambda _: web.Response(text='{"a": NaN}'), "cannot be used: JSON is malformed"),
        (lambda _: web.Response(body=b'{"a": "\xff"}'), "cannot be used"),
        (lambda _: web.json_response([1]), "cannot be used: Expected `object`, got `array`"),
        (lambda _: web.json_response(answer("much")), "Expected `int`, got `str`"),
        (lambda _: web.Response(status=404), "answered 404 Not Found"),
        (lambda _: web.Response(status=302, headers={"Location": "file:///etc/x"}), "another host"),
    ],
)
def test_bad_answers_are_told(tmp_path: Path, respond: Respond, why: str) -> None:
    """Each is bounded, and none ends the scheduler."""

    async def scenario() -> None:
        async with serving(respond) as url, aiohttp.ClientSession() as session:
            (given,) = declared_inputs(written(tmp_path, url).compile().plans)
            with pytest.raises(PollFailed) as raised:
                await polled_inputs.fetched(given, session)
        assert why in str(raised.value)

    asyncio.run(scenario())


def test_a_server_that_is_not_there_or_never_ends_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds; here after less."""
    monkeypatch.setattr(polled_inputs, "PATIENCE", 0.05)

    async def scenario() -> None:
        ended = asyncio.Event()

        async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await ended.wait()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/"
        (given,) = declared_inputs(written(tmp_path, url).compile().plans)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(PollFailed, match="did not answer within"):
                await polled_inputs.fetched(given, session)
            ended.set()
            server.close()
            await server.wait_closed()
            with pytest.raises(PollFailed, match="cannot be asked"):
                await polled_inputs.fetched(given, session)

    asyncio.run(scenario())


def test_an_answer_that_never_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the whole answer, not that until its first byte."""
    monkeypatch.setattr(polled_inputs, "PATIENCE", 0.2)

    async def scenario() -> None:
        ended = asyncio.Event()

        async def begin(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n{")
            await writer.drain()
            await ended.wait()
            writer.close()

        server = await asyncio.start_server(begin, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        (given,) = declared_inputs(written(tmp_path, url).compile().plans)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(PollFailed, match="did not answer within"):
                await polled_inputs.fetched(given, session)
        ended.set()
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())
