"""The printed account runs the scheduler against an API server with RBAC: it may all, and no more.

One run does everything that a scheduler does to a cluster, and every request is remembered. Then
each right is taken away in thought: some request of the run must have needed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from policy_sched.cli.options.kubeconfig import connected
from policy_sched.client.apimachinery.resources import EVENT, POD
from policy_sched.client.kube import rbac_rules
from policy_sched.client.kube.rest.errors import collection_path, object_path
from policy_sched.deploy.manifests import Contents, Options, contents, manifests
from policy_sched.embedded.apiserver.security.rbac import Attributes, attributes_of
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.app.run_loop import LONGEST_SLEEP, RunLoop
from policy_sched.instance.observability.log import Record
from policy_sched.instance.shadow.instance import ShadowOptions
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.embedded.apiserver.security.guarded import guarded
from tests.embedded.apiserver.world import World
from tests.instance.app import test_inputs
from tests.instance.recording import Recording

Plain = dict[str, Any]
MASTER = "admin-token"
SIZES = {"cpu": "4", "memory": "8Gi", "pods": "20"}
RACKS = str(Path(__file__).parents[2] / "policies" / "rack-gang" / "policy.yaml")
GROUP: Plain = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "ring", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "example.com/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}
DEVICES: tuple[Plain, ...] = (
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "allNodes": True,
            "pool": {"name": "all", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}, {"name": "d1"}],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
            }
        },
    },
)
OF_TROUBLE = {
    ("", "pods/finalizers", "update"),
    ("resource.k8s.io", "resourceclaims", "get"),
    ("resource.k8s.io", "resourceclaims", "delete"),
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("resource.k8s.io", "resourceclaims", "update"),
    ("resource.k8s.io", "resourceclaims/binding", "update"),
    ("resource.k8s.io", "resourceclaims/status", "update"),
}
"""After a conflict, after an attempt that failed; what a server asks about a pod that owns a
claim, and beside the status; and where it keeps claims in protobuf."""


@dataclass(frozen=True)
class Run:
    """The requests of a run, and its log."""

    asked: frozenset[Attributes]
    records: tuple[Record, ...]

    @property
    def rights(self) -> set[tuple[str, str, str]]:
        """Group, resource and verb of every request."""
        return {(item.group, item.combined, item.verb) for item in self.asked if item.resource}


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A scheduler binds, preempts, gives up, provides volumes and answers requests."""
    options = Options(namespace="sched", scheduler_name="policy-sched")
    return asyncio.run(_run(tmp_path_factory.mktemp("run"), options, _everything, (RACKS,)))


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A shadow observes while another scheduler binds."""
    options = Options(shadow="other")
    return asyncio.run(_run(tmp_path_factory.mktemp("run"), options, _looked_on))


async def _run(
    folder: Path, options: Options, play: Callable[..., Any], chosen: tuple[str, ...] = ()
) -> Run:
    files = contents(options, None, chosen)
    config = folder / "config.yaml"
    config.write_text(files.config["config.yaml"])
    async with asyncio.timeout(60), guarded(folder) as world:
        await _apply(world, manifests(options, files))
        proxy = Recording(int(world.url.rpartition(":")[2]), unanswered=r"pods/first/binding ")
        async with proxy.served():
            token = await _token(world, options)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(_kubeconfig(proxy.port, token))
            records: list[Record] = []
            shadow = None if options.shadow is None else ShadowOptions(options.shadow)
            policies = PolicyFiles(str(config), chosen)
            given = str(kubeconfig), 0, records.append, shadow
            objects = options.policy_objects
            instance = await asyncio.to_thread(connected, policies, *given, objects=objects)
            watches = [] if instance.elector is None else [instance.elector.watch]
            for item in (*instance.informers.reflectors, *watches):
                item._streaming = False  # as before Kubernetes 1.34: a list, and then a watch
            tasks = [asyncio.create_task(work) for work in instance.beside()]
            tasks.append(asyncio.create_task(_drive(instance)))
            try:
                await play(world, instance, proxy)
            finally:
                for task in reversed(tasks):
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    return Run(frozenset(_attributes(proxy.requests)), tuple(records))


async def _everything(world: World, instance: ClusterInstance, proxy: Recording) -> None:
    """Make the scheduler ask for all that it ever asks for."""
    await _until(lambda: instance.ready and instance.leads)
    await _apply(world, [_node("a"), _pod("first", "3", priority=1)])
    await _until(lambda: _bound(world, "first"))
    # The answer to its binding was cut off: it was looked up.
    await _until(lambda: ("GET", "/api/v1/namespaces/default/pods/first") in proxy.requests)
    await _apply(world, [_pod("huge", "64", priority=9), _pod("big", "3", priority=5)])
    await _until(lambda: _asked(proxy, "DELETE", "/pods/first"))
    await _apply(world, [CLASS, _volume("disk"), _claim("data"), _node("b")])
    await _apply(world, [_pod("db", "1", claim="data")])
    await _until(lambda: _asked(proxy, "PATCH", "/persistentvolumes/disk"))
    await _apply(world, [_claim("more"), _pod("db2", "1", claim="more")])
    await _until(lambda: _asked(proxy, "PATCH", "/persistentvolumeclaims/more"))
    await _apply(world, [GROUP, _pod("member", "1", schedulingGroup={"podGroupName": "ring"})])
    await _until(lambda: _asked(proxy, "PATCH", "/podgroups/ring/status"))
    await _apply(world, DEVICES)
    entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    await _apply(world, [_pod("train", "0", resourceClaims=[entry])])
    await _until(lambda: _bound(world, "train"))
    served = _pod("served", "0")
    resources = served["spec"]["containers"][0]["resources"]
    resources["requests"]["example.com/gpu"] = "1"
    resources["limits"] = {"example.com/gpu": "1"}
    await _apply(world, [served])
    await _until(lambda: _bound(world, "served"))
    # A pod is told of, then as it is with its condition, and then for another time as it still is.
    await _apply(world, [_pod("stays", "64", priority=9)])
    for times, leaves in enumerate(("db", "db2"), 1):
        await _until(lambda times=times: _told(world, "stays") == times)
        await _delete(world, leaves)
    await _until(lambda: _asked(proxy, "PATCH", "/events/"))


async def _looked_on(world: World, instance: ClusterInstance, _proxy: Recording) -> None:
    await _until(lambda: instance.ready)
    await _apply(world, [_node("a")])
    await _until(lambda: instance.scheduler.cache.nodes.live_count == 1)
    await _apply(world, [_pod("p", "1", schedulerName="other")])
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "a"}}
    path = "/api/v1/namespaces/default/pods/p/binding"
    status, _ = await world.ask("POST", path, binding, token=MASTER)
    assert status == 201
    await _until(lambda: "policy_sched_shadow_decisions_total" in instance.metrics.text())
    wanted = 'result="agree"} 1.0'
    await _until(lambda: wanted in instance.metrics.text())


async def _drive(instance: ClusterInstance) -> None:
    while True:
        instance.step()
        await asyncio.sleep(0.002)


async def _until(what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0.01)


def _asked(proxy: Recording, method: str, part: str) -> bool:
    return any(request == method and part in path for request, path in proxy.requests)


def _told(world: World, name: str) -> int:
    events = (stored.data for stored in world.cluster.store.select(EVENT))
    return sum(item["regarding"].get("name") == name for item in events)


def _bound(world: World, name: str) -> bool:
    stored = world.cluster.store.find(("v1", "Pod"), "default", name)
    return stored is not None and bool(stored.data["spec"].get("nodeName"))


async def _apply(world: World, things: Iterable[Plain]) -> None:
    """Create objects as a master."""
    for thing in things:
        status, answer = await world.ask("POST", _path(thing), thing, token=MASTER)
        assert status == 201, answer


async def _delete(world: World, name: str) -> None:
    """Delete a pod at once, as a master."""
    path, at_once = object_path(POD, "default", name), {"gracePeriodSeconds": 0}
    status, answer = await world.ask("DELETE", path, at_once, token=MASTER)
    assert status == 200, answer


def _path(thing: Plain) -> str:
    kind = (thing["apiVersion"], thing["kind"])
    return collection_path(kind, thing["metadata"].get("namespace", ""))


async def _token(world: World, options: Options) -> str:
    path = f"/api/v1/namespaces/{options.namespace}/serviceaccounts/{options.name}/token"
    status, made = await world.ask("POST", path, {"spec": {}}, token=MASTER)
    assert status == 201, made
    return str(made["status"]["token"])


def _kubeconfig(port: int, token: str) -> str:
    return f"""\
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters: [{{name: k, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
"""


def _attributes(requests: Iterable[tuple[str, str]]) -> Iterable[Attributes]:
    for method, path in requests:
        parts = urlsplit(path)
        yield attributes_of(method, parts.path, dict(parse_qsl(parts.query)))


def _node(name: str) -> Plain:
    status = {"allocatable": SIZES, "capacity": SIZES}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _pod(name: str, cpu: str, claim: str = "", **spec: Any) -> Plain:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    whole = {"schedulerName": "policy-sched", "containers": [container], **spec}
    if claim:
        whole["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


def _claim(name: str) -> Plain:
    spec = {
        "storageClassName": "late",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec,
    }  # fmt: skip


def _volume(name: str) -> Plain:
    spec = {
        "storageClassName": "late",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
    }
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def rights(*tables: tuple[rbac_rules.Right, ...]) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of rights."""
    return {(item.group, item.resource, item.verb) for table in tables for item in table}


def test_no_request_of_a_run_is_forbidden(scheduled: Run, shadowed: Run) -> None:
    """No request of either run was refused."""
    for record in (*scheduled.records, *shadowed.records):
        assert record["level"] == "info", record


def test_a_scheduler_asks_for_exactly_what_it_may(scheduled: Run) -> None:
    """Whatever right is taken away, a request of the run needs it; and no request needs more."""
    groups = rbac_rules.GROUP_READING, rbac_rules.GROUP_WRITING
    assert (
        scheduled.rights
        == rights(rbac_rules.READING, rbac_rules.WRITING, rbac_rules.ELECTING, *groups) - OF_TROUBLE
    )


def test_a_shadow_asks_for_exactly_what_it_may(shadowed: Run) -> None:
    """It reads."""
    assert shadowed.rights == rights(rbac_rules.READING)
    assert {verb for _, _, verb in shadowed.rights} == {"list", "watch"}


async def _read_by_rules(world: World, instance: ClusterInstance, _proxy: Recording) -> None:
    """Make the scheduler watch the definition of an input's kind, and see it change."""
    await _until(lambda: instance.ready)
    await _apply(world, [test_inputs.definition()])
    name = f"quotas.{test_inputs.GROUP}"
    await _until(lambda: instance.definitions.find(name) is not None)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    status, _ = await world.ask("DELETE", path, token=MASTER)
    assert status == 200
    await _until(lambda: 'input_schema_differences{input="quota"} 1.0' in instance.metrics.text())


def test_definitions_of_inputs_are_watched_by_their_names(tmp_path: Path) -> None:
    """The account may list and watch one definition, and the scheduler asks for no other."""
    optional = test_inputs.POLICY.replace("key: object.name", "key: object.name, optional: true")
    policies = test_inputs.written(tmp_path, optional)
    run = asyncio.run(_run(tmp_path, Options(namespace="sched"), _read_by_rules, policies))
    assert not [record for record in run.records if "forbidden" in str(record)]
    asked = {(item.name, item.verb) for item in run.asked if "definitions" in item.resource}
    name = f"quotas.{test_inputs.GROUP}"
    assert asked in ({(name, "list"), (name, "watch")}, {(name, "watch")})  # by the server


async def _rolled_out(world: World, instance: ClusterInstance, _proxy: Recording) -> None:
    """Make the scheduler roll a policy that is an object out, and promote it on request."""
    await _until(lambda: instance.ready and instance.leads)
    await _apply(world, map(definition_of, CUSTOM_RESOURCES))
    running, version = RunLoop(instance, lambda: None, LONGEST_SLEEP), "policysched.dev/v1alpha1"
    objects, rollouts = instance.policy_objects, instance.rollout_objects
    assert objects is not None
    assert rollouts is not None

    async def applied(plural: str, kind: str, name: str, spec: Plain) -> None:
        thing = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        path = f"/apis/{version}/{plural}"
        status, answer = await world.ask("POST", path, thing, token=MASTER)
        assert status == 201, answer

    async def shown(name: str, value: str) -> Plain:
        while True:
            path = f"/apis/{version}/rollouts/careful"
            status: Plain = (await world.ask("GET", path, token=MASTER))[1].get("status", {})
            if status.get(name, "").startswith(value):
                return status
            await asyncio.sleep(0.05)

    await applied("rollouts", "Rollout", "careful", {"steps": [{"audit": {"for": "10h"}}]})
    rules = {"profiles": ["policy-sched"], "filter": [{"expression": "true"}]}
    await applied("policies", "Policy", "only", rules)
    await _until(lambda: bool(objects.given() and rollouts.given()))
    await running.reload("object")
    candidate = (await shown("phase", "Progressing"))["candidate"]
    patch = {"metadata": {"annotations": {"policysched.dev/promote": candidate}}}
    path, merge = f"/apis/{version}/rollouts/careful", "application/merge-patch+json"
    status, _ = await world.ask("PATCH", path, patch, token=MASTER, type=merge)
    assert status == 200
    await shown("phase", "Promoted")


def test_a_rollout_that_is_an_object_needs_no_more_than_is_printed(tmp_path: Path) -> None:
    """Both kinds are listed and watched; their status alone is written."""
    options = Options(namespace="sched", policy_objects="")
    run = asyncio.run(_run(tmp_path, options, _rolled_out))
    assert not [record for record in run.records if "forbidden" in str(record)]
    ours = {(r, verb) for group, r, verb in run.rights if group == "policysched.dev"}
    reads = {(plural, verb) for plural in ("policies", "rollouts") for verb in ("list", "watch")}
    writes = {("policies/status", "patch"), ("rollouts/status", "update")}
    assert reads | writes <= ours <= reads | writes | {("rollouts", "get")}


def test_only_its_own_lease_can_be_changed(scheduled: Run) -> None:
    """Reading and updating name the lease of the configuration; its namespace is the role's."""
    leases = [lease for lease in scheduled.asked if lease.resource == "leases"]
    assert {(lease.namespace, lease.name) for lease in leases if lease.verb != "create"} == {
        ("sched", "policy-sched")
    }
    assert {lease.namespace for lease in leases} == {"sched"}


@pytest.mark.parametrize("delegated", [True, False])
def test_callers_of_the_endpoints_can_be_looked_up(tmp_path: Path, *, delegated: bool) -> None:
    """By the binding of system:auth-delegator, and not without it."""

    async def play() -> None:
        options = Options()
        async with guarded(tmp_path) as world:
            things = manifests(options, Contents({}, {}, None))
            left_out = None if delegated else "policy-sched:auth-delegator"
            await _apply(
                world, [thing for thing in things if thing["metadata"]["name"] != left_out]
            )
            token = await _token(world, options)
            for group, kind, spec in (
                ("authentication", "TokenReview", {"token": "x"}),
                (
                    "authorization",
                    "SubjectAccessReview",
                    {"user": "x", "nonResourceAttributes": {}},
                ),
            ):
                path = f"/apis/{group}.k8s.io/v1/{kind.lower()}s"
                body = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
                status, _ = await world.ask("POST", path, body, token=token)
                assert status == (201 if delegated else 403)

    asyncio.run(play())


@pytest.mark.parametrize("options", [Options(), Options(shadow="default-scheduler")])
def test_the_printed_rules_grant_the_table_and_nothing_else(options: Options) -> None:
    """The same rights, rule by rule; no wildcard."""
    lease = None if options.shadow else ("kube-system", "policy-sched")
    roles = [
        manifest
        for manifest in manifests(options, Contents({}, {}, lease))
        if manifest["kind"].endswith("Role")
    ]
    granted = {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert "*" not in {word for right in granted for word in right}
    wanted = (
        (rbac_rules.READING,)
        if options.shadow
        else (rbac_rules.READING, rbac_rules.WRITING, rbac_rules.ELECTING)
    )
    assert granted == rights(*wanted)
    assert len(roles) == (1 if options.shadow else 2)


@pytest.mark.parametrize(
    ("policies", "gates", "granted"),
    [((), {}, False), ((), {"GenericWorkload": True}, True), ((RACKS,), {}, True)],
    ids=["neither", "the gate", "a policy"],
)
def test_pod_groups_are_granted_where_they_are_read(
    policies: tuple[str, ...], gates: dict[str, bool], granted: bool
) -> None:
    """By a feature gate, or by a policy whose rules read them."""
    options = Options(feature_gates=gates)
    files = contents(options, None, policies)
    assert files.pod_groups is granted
    text = str(list(manifests(options, files)))
    assert ("podgroups/status" in text) is granted
    assert ("--feature-gates=GenericWorkload=true" in text) is bool(gates)
