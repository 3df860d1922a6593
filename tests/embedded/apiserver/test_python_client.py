"""The official Python client against the server; skipped where it is not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys

import pytest

from tests.embedded.apiserver.world import PODS, pod, serving
from tests.embedded.world import node

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("kubernetes") is None, reason="no official client"
)

PROGRAM = """
import sys
from kubernetes import client, watch
api = client.CoreV1Api(client.ApiClient(client.Configuration(host=sys.argv[1])))
pods = api.list_namespaced_pod("default", limit=1)
assert [one.metadata.name for one in pods.items] == ["a"], pods
pods = api.list_namespaced_pod("default", limit=1, _continue=pods.metadata._continue)
assert [one.metadata.name for one in pods.items] == ["b"], pods
target = client.V1ObjectReference(kind="Node", name="n")
body = client.V1Binding(metadata=client.V1ObjectMeta(name="a"), target=target)
api.create_namespaced_binding("default", body, _preload_content=False)
since = pods.metadata.resource_version
stream = watch.Watch()
seen = []
for event in stream.stream(api.list_namespaced_pod, "default", resource_version=since):
    seen.append((event["type"], event["object"].metadata.name, event["object"].spec.node_name))
    stream.stop()
assert seen == [("MODIFIED", "a", "n")], seen
try:
    api.read_namespaced_pod("none", "default")
except client.ApiException as error:
    assert error.status == 404, error
api.patch_node("n", {"spec": {"unschedulable": True}})
api.delete_namespaced_pod("b", "default")
print([one.metadata.name for one in api.list_pod_for_all_namespaces().items])
"""


def test_the_official_client_lists_watches_and_binds() -> None:
    """In a process of its own, with its own threads and warnings."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            for name in ("a", "b"):
                await world.create(PODS, pod(name))
            command = [sys.executable, "-c", PROGRAM, world.url]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout) == (0, "['a']\n"), done.stderr

    asyncio.run(run())
