"""kubectl and the official client with custom resources; skipped where there are none.

The definitions that others published are those of scheduler-plugins and Kueue, beside the checkout.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl, words
from tests.embedded.apiserver.world import serving
from tests.embedded.schema.crds import definition, shirt, version
from tests.shown import blocks, examples, page

Plain = dict[str, Any]
PUBLISHED = Path(
    os.environ.get("POLICY_SCHED_PLUGINS") or Path(__file__).parents[4] / "shared/plugins"
)
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl")
COLUMNS = [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
QUOTA = "scheduling.x-k8s.io/v1alpha1"
KUEUE = "kueue.x-k8s.io/v1beta1"
FLAVOR = {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "a", "effect": "NoSchedule"}]}
TOLERATION = {"operator": "Exists", "tolerationSeconds": 5, "effect": "NoSchedule"}


def custom(api_version: str, kind: str, name: str, **parts: Any) -> Plain:
    """Return a custom object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}


GOOD = (
    custom(QUOTA, "ElasticQuota", "eq", spec={"min": {"cpu": 1}, "max": {"cpu": "2"}}),
    custom(QUOTA, "PodGroup", "pg", spec={"minMember": 3, "scheduleTimeoutSeconds": 10}),
    custom("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", "ag",
           spec={"numMembers": 1, "topologySortingAlgorithm": "KahnSort", "workloads": []}),
    custom("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology", "nt",
           spec={"configmapName": "c", "weights": []}),
    custom("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", "n",
           zones=[{"name": "z", "type": "Node"}]),
    custom("security-profiles-operator.x-k8s.io/v1beta1", "SeccompProfile", "sp",
           spec={"defaultAction": "SCMP_ACT_ERRNO"}),
    custom(KUEUE, "ClusterQueue", "cq", spec={}),
    custom(KUEUE, "Cohort", "co", spec={}),
    custom(KUEUE, "ResourceFlavor", "rf", spec=FLAVOR),
    custom(KUEUE, "Workload", "wl", spec={"queueName": "q", "podSets": [
        {"name": "main", "count": 1,
         "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}),
)  # fmt: skip
BAD = (
    (custom(QUOTA, "ElasticQuota", "eq", spec={"min": {"cpu": "x"}}),
     'The ElasticQuota "eq" is invalid: spec.min.cpu: Invalid value: "x": spec.min.cpu in body'),
    (custom(QUOTA, "ElasticQuota", "eq", spec={"minimum": {}}),
     'strict decoding error: unknown field "spec.minimum"'),
    (custom("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", "n"),
     'The NodeResourceTopology "n" is invalid: zones: Required value'),
    (custom("security-profiles-operator.x-k8s.io/v1beta1", "SeccompProfile", "sp", spec={}),
     'The SeccompProfile "sp" is invalid: spec.defaultAction: Required value'),
    (custom(KUEUE, "ResourceFlavor", "rf", spec={**FLAVOR, "tolerations": [TOLERATION]}),
     "effect must be 'NoExecute' when 'tolerationSeconds' is set"),
    (custom(KUEUE, "ClusterQueue", "cq", spec={"preemption": {
        "reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}}),
     'spec.preemption: Invalid value: "object": reclaimWithinCohort=Never and borrowWithinCohort'),
)  # fmt: skip


@needs_kubectl
@pytest.mark.skipif(not PUBLISHED.exists(), reason="no published definitions")
def test_published_definitions_are_served_and_validated(tmp_path: Path) -> None:
    """Objects of scheduler-plugins and Kueue had to be configuration maps."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await kubectl("create", "-f", str(PUBLISHED / "crds"))
            waited = await kubectl("wait", "--for", "condition=established", "crd", "--all")
            assert waited.count("condition met") == 10
            file = tmp_path / "object.json"
            for data, said in BAD:
                file.write_text(json.dumps(data), encoding="utf-8")
                assert said in await kubectl("create", "-f", str(file), fails=True)
            items = {"apiVersion": "v1", "kind": "List", "items": list(GOOD)}
            file.write_text(json.dumps(items), encoding="utf-8")
            made = await kubectl("apply", "-f", str(file))
            assert made.count(" created") == len(GOOD)
            again = await kubectl("apply", "--server-side", "-f", str(file))
            assert again.count(" serverside-applied") == len(GOOD)
            heads, row = words(await kubectl("get", "eq"))
            assert (heads, row[:2]) == (["NAME", "USED", "MAX", "AGE"], ["eq", '{"cpu":"2"}'])
            queue = json.loads(await kubectl("get", "clusterqueue", "cq", "-o", "json"))
            assert queue["spec"]["preemption"]["borrowWithinCohort"] == {"policy": "Never"}
            version = f"--api-version={KUEUE}"  # Kubernetes has workloads, too
            explained = await kubectl("explain", "workload.spec.podSets.count", version)
            assert "count is the number of pods for the spec." in explained

    asyncio.run(run())


@needs_kubectl
def test_kubectl_does_with_custom_resources_what_it_does_with_others(tmp_path: Path) -> None:
    """apply, get, describe, explain, patch, scale, wait and delete."""
    parts = {"status": {}, "scale": SCALE}
    data = definition(version(subresources=parts, additionalPrinterColumns=COLUMNS))
    for name, content in (("crd", data), ("shirt", shirt(size=4))):
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            crd, file = str(tmp_path / "crd.json"), str(tmp_path / "shirt.json")
            assert "created" in await kubectl("apply", "-f", crd)
            assert "unchanged" in await kubectl("apply", "-f", crd)
            await kubectl("wait", "--for", "condition=established", "-f", crd)
            assert "created" in await kubectl("apply", "-f", file)
            assert "unchanged" in await kubectl("apply", "-f", file)
            heads, row = words(await kubectl("get", "sh"))
            assert (heads, row) == (["NAME", "COLOR"], ["s", "red"])
            assert "shirt.stable.example.com/s" in await kubectl("get", "all", "-o", "name")
            assert "Color:     red" in await kubectl("describe", "shirt", "s")
            explained = await kubectl("explain", "shirt.spec.color")
            assert "FIELD: color <string>" in explained
            assert "ENUM:\n    red\n    blue" in explained
            patch = '{"spec": {"color": "blue"}}'
            assert "patched" in await kubectl("patch", "shirt", "s", "--type=merge", "-p", patch)
            refusal = await kubectl("patch", "shirt", "s", "-p", patch, fails=True)
            assert "application/strategic-merge-patch+json is not supported by" in refusal
            assert "scaled" in await kubectl("scale", "shirt", "s", "--replicas=3")
            status = '{"status": {"replicas": 3}}'
            await kubectl(
                "patch", "shirt", "s", "--subresource=status", "--type=merge", "-p", status
            )
            await kubectl("wait", "--for=jsonpath={.status.replicas}=3", "shirt/s")
            path = "jsonpath={.metadata.generation} {.spec.replicas}"
            assert await kubectl("get", "shirt", "s", "-o", path) == "3 3"
            assert "deleted" in await kubectl("delete", "crd", "shirts.stable.example.com")
            refusal = await kubectl("get", "shirts", fails=True)
            assert "the server could not find the requested resource" in refusal

    asyncio.run(run())


@needs_kubectl
def test_the_page_shows_what_kubectl_prints(tmp_path: Path) -> None:
    """The commands of docs/embedded-cluster.md, with their output."""
    shown = blocks(page("docs/embedded-cluster.md"))
    crd, team = (text for language, text in shown if language == "yaml")
    (tmp_path / "crd.yaml").write_text(crd, encoding="utf-8")
    (tmp_path / "team.yaml").write_text(team, encoding="utf-8")
    (console,) = (block for block in shown if block[0] == "console")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            for example in examples(console):
                given = shlex.split(example.command.replace(" -f ", f" -f {tmp_path}/"))[1:]
                printed = await kubectl(*given, fails="is invalid" in example.output)
                assert printed == example.output, example.command

    asyncio.run(run())


PROGRAM = """
import json, sys
from kubernetes import client, watch
api = client.ApiClient(client.Configuration(host=sys.argv[1]))
crds = client.ApiextensionsV1Api(api)
made = crds.create_custom_resource_definition(json.loads(sys.argv[2]))
assert made.status.accepted_names.kind == "Shirt", made
shirts = client.CustomObjectsApi(api)
place = ("stable.example.com", "v1", "default", "shirts")
shirts.create_namespaced_custom_object(*place, json.loads(sys.argv[3]))
since = shirts.list_namespaced_custom_object(*place)["metadata"]["resourceVersion"]
shirts.patch_namespaced_custom_object(*place, "s", {"spec": {"color": "blue"}})
stream = watch.Watch()
for event in stream.stream(shirts.list_namespaced_custom_object, *place, resource_version=since):
    print(event["type"], event["object"]["spec"]["color"])
    stream.stop()
try:
    shirts.patch_namespaced_custom_object(*place, "s", {"spec": {"color": "green"}})
except client.ApiException as error:
    print(error.status, json.loads(error.body)["details"]["causes"][0]["field"])
crds.delete_custom_resource_definition("shirts.stable.example.com")
"""


@pytest.mark.skipif(importlib.util.find_spec("kubernetes") is None, reason="no official client")
def test_the_official_client_reads_and_writes_custom_objects() -> None:
    """A controller in Python had nothing to watch."""

    async def run() -> None:
        async with serving() as world:
            given = json.dumps(definition()), json.dumps(shirt())
            command = [sys.executable, "-c", PROGRAM, world.url, *given]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout) == (
                0,
                "MODIFIED blue\n422 spec.color\n",
            ), done.stderr

    asyncio.run(run())
