"""Inputs of policies in a running scheduler: objects of declared kinds, followed as nodes are."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from policy_sched.cli.main import run
from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import DEFINITION, EVENT
from policy_sched.errors import PolicyError
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.model import Pod
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import ReloadResult

from . import test_embedded_instance
from .test_cluster_instance import World, acted, node, pod, until

GROUP = "example.com"
PATH = f"/apis/{GROUP}/v1/quotas"
SPEC = {"type": "object", "properties": {"most": {"type": "integer"}}}
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  inputs:
  - {name: quota, apiVersion: example.com/v1, kind: Quota, schema: quotas.yaml, key: object.name}
  filter:
  - expression: inputs.quota[?pod.namespace].optMap(q, q.spec.most > 0).orValue(true)
    message: over quota
"""
NONE = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  filter:
  - {expression: "true", message: never}
"""


def definition(spec: dict[str, Any] = SPEC) -> dict[str, Any]:
    """Return the definition of quotas."""
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"quotas.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "quotas", "kind": "Quota"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def quota(most: object, name: str = "default") -> dict[str, Any]:
    """Return a quota."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Quota", "metadata": {"name": name}}
    return {**head, "spec": {"most": most}}


def written(folder: Path, policy: str) -> tuple[str, ...]:
    """Write a policy and the schema of quotas; return what is given as policies."""
    (folder / "quotas.yaml").write_text(yaml.safe_dump(definition()), encoding="utf-8")
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    return (str(folder / "policy.yaml"),)


async def established(world: World) -> None:
    """Wait until quotas are served."""
    await until(lambda: world.cluster.store.custom.find((f"{GROUP}/v1", "Quota")))


async def reloaded(instance: ClusterInstance) -> ReloadResult:
    """Reload as `RunLoop` does."""
    compilation = await instance.readied(instance.reloader.store.prepare())
    await instance.settled()
    return instance.reload(compilation, "test").result


def test_a_decision_reads_objects_as_they_are_now(tmp_path: Path) -> None:
    """Rules could read nothing of the cluster but pods and nodes."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, POLICY))
        world.apply(definition(), node("a"))
        async with world.served():
            await established(world)
            world.apply(quota(0), pod("p"))
            async with world.scheduler():
                said = await until(lambda: world.condition("p", "PodScheduled"))
                assert "over quota" in said["message"]
                world.apply(quota(1))
                world.apply(pod("q"))
                await until(lambda: "q" in world.bound())

    acted(play)


def test_ps807_a_kind_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    """The message names the definition to apply."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, POLICY))
        async with world.served(), world.scheduler():
            assert world.live is not None
            with pytest.raises(PolicyError) as raised:
                await world.live
        (problem,) = raised.value.diagnostics
        said = "error PS807: the cluster has no Quota of example.com/v1"
        assert f"{tmp_path}/policy.yaml:6:53: {said}" in str(raised.value)
        assert problem.hint == (
            "apply its CustomResourceDefinition: kubectl apply -f"
            f" {tmp_path}/quotas.yaml; or write optional: true"
        )

    acted(play)


def test_ps807_names_no_file_that_cannot_be_applied(tmp_path: Path) -> None:
    """The message proposed to apply a shipped policy's JSON schema, or nothing at all."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}]}}}
    files = PolicyFiles({**head, "profiles": [profile]})
    kind = ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota")
    (problem,) = files.problems_of_input(kind, "it is not there")
    assert problem.file.endswith("capacity/policy.yaml")
    assert problem.hint == "apply its CustomResourceDefinition; or write optional: true"


def test_an_optional_kind_may_come_later(tmp_path: Path) -> None:
    """Nothing is asked about a kind that is not there: no 404 each minute, for ever."""
    asked: set[str] = set()
    found = asyncio.Event()

    async def note(_method: str, path: str) -> None:
        asked.add(path)
        if path == PATH:
            found.set()

    async def play(world: World) -> None:
        text = POLICY.replace("key:", "optional: true, key:")
        world.policies = replace(world.policies, policies=written(tmp_path, text))
        world.before = note
        world.apply(node("a"), pod("p"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: "p" in world.bound())
            assert not any(GROUP in path for path in asked)
            world.apply(definition())
            await established(world)
            world.apply(quota(0))
            await found.wait()
            await until(lambda: (instance.may_begin and not instance.informers.behind) or None)
            world.apply(pod("q"))
            said = await until(lambda: world.condition("q", "PodScheduled"))
            assert "over quota" in said["message"]

    acted(play)


def test_a_reload_waits_for_new_inputs_and_stops_old_ones(tmp_path: Path) -> None:
    """Meanwhile the old set decides; afterwards nothing is kept of what no policy reads."""
    listed = asyncio.Event()

    async def hold(_method: str, path: str) -> None:
        if path == PATH:
            await listed.wait()

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, NONE))
        world.before = hold
        world.apply(definition(), node("a"))
        async with world.served(), world.scheduler() as instance:
            await established(world)
            world.apply(quota(0))
            await until(lambda: instance.may_begin or None)
            written(tmp_path, POLICY)
            reload = asyncio.create_task(reloaded(instance))
            await until(lambda: len(instance.informers.reflectors) - before(instance) or None)
            world.apply(pod("p"))
            await until(lambda: "p" in world.bound())
            listed.set()
            assert await reload is ReloadResult.LOADED
            world.apply(pod("q"))
            said = await until(lambda: world.condition("q", "PodScheduled"))
            assert "over quota" in said["message"]
            written(tmp_path, NONE)
            assert await reloaded(instance) is ReloadResult.LOADED
            assert not instance.scheduler.handle.objects.of_kind((f"{GROUP}/v1", "Quota"))
            assert not instance.scheduler.handle.nodes.inputs
            assert not [r for r in instance.informers.reflectors if r.selection.plural]

    def before(instance: ClusterInstance) -> int:
        return len([r for r in instance.informers.reflectors if not r.selection.plural])

    acted(play)


def test_a_missing_kind_cannot_be_required_by_a_reload(tmp_path: Path) -> None:
    """The reload was accepted, and no pod was ever decided again."""

    async def play(world: World) -> None:
        may_be_missing = POLICY.replace("key: object.name}", "key: object.name, optional: true}")
        world.policies = replace(world.policies, policies=written(tmp_path, may_be_missing))
        world.apply(node("a"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.may_begin or None)
            written(tmp_path, POLICY)
            assert await reloaded(instance) is ReloadResult.REFUSED
            world.apply(pod("p"))
            await until(lambda: "p" in world.bound())
            world.apply(definition())
            await established(world)
            assert await reloaded(instance) is ReloadResult.LOADED

    acted(play)


@pytest.mark.parametrize("there", [False, True])
def test_a_reload_whose_inputs_cannot_be_listed_is_refused(tmp_path: Path, there: bool) -> None:
    """The old set stays, and an event says why."""

    async def refuse(_method: str, path: str) -> None:
        if path == PATH:
            await asyncio.Event().wait()

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, NONE))
        world.before = refuse
        if there:
            world.apply(definition())
        async with world.served(), world.scheduler("us") as instance:
            if there:
                await established(world)
            instance.patience = 0.05
            await until(lambda: instance.may_begin or None)
            written(tmp_path, POLICY)
            assert await reloaded(instance) is ReloadResult.REFUSED
            stored = await until(lambda: world.cluster.store.select(EVENT) or None)
            notes = [event.data["note"] for event in stored]
            why = "cannot be listed within" if there else "the cluster has no Quota"
            assert any(why in note and "policy.yaml:6:" in note for note in notes)
            assert not [r for r in instance.informers.reflectors if r.selection.plural]
            world.apply(node("a"), pod("p"))
            await until(lambda: "p" in world.bound())

    acted(play)


ANY = {"type": "object", "properties": {"most": {"x-kubernetes-preserve-unknown-fields": True}}}


def test_an_object_of_other_types_leaves_what_was_there(tmp_path: Path) -> None:
    """The cluster's definition admits what the policy's schema does not; an event says so."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, POLICY))
        world.apply(definition(ANY), node("a"))
        async with world.served():
            await established(world)
            world.apply(quota(0))
            async with world.scheduler("us") as instance:
                await until(lambda: instance.may_begin or None)
                world.apply(quota("many"))
                stored = await until(lambda: world.cluster.store.select(EVENT) or None)
                wanted = [e.data for e in stored if e.data["reason"] == "InvalidInput"]
                found = wanted or await until(
                    lambda: [
                        e.data
                        for e in world.cluster.store.select(EVENT)
                        if e.data["reason"] == "InvalidInput"
                    ]
                )
                assert found[0]["note"] == (
                    "input quota: Quota default: Expected `int`, got `str` - at `$.spec.most`"
                )
                text = instance.metrics.text()
                assert 'policy_sched_input_invalid_objects{input="quota"} 1.0' in text
                assert 'policy_sched_input_objects{input="quota"} 1.0' in text
                world.apply(pod("p"))
                said = await until(lambda: world.condition("p", "PodScheduled"))
                assert "over quota" in said["message"]
                world.apply(quota(1))
                await until(lambda: "p" in world.bound())
                assert 'invalid_objects{input="quota"} 0.0' in instance.metrics.text()

    acted(play)


TEXT = {"type": "object", "properties": {"most": {"type": "string"}}}
CHANGED = (
    "Quota of example.com/v1 in the cluster: inputs.quota.spec.most is string, and rules read int"
)
GAUGE = 'policy_sched_input_schema_differences{input="quota"}'


def notes(world: World, reason: str) -> list[str]:
    """Return the notes of the events with a reason."""
    events = (stored.data for stored in world.cluster.store.select(EVENT))
    return [event["note"] for event in events if event["reason"] == reason]


def test_ps804_a_schema_that_changes_in_the_cluster_is_told(tmp_path: Path) -> None:
    """Log, event and metric name the field; what is in force stays, and decides as before."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, POLICY))
        world.apply(definition(), node("a"))
        async with world.served():
            await established(world)
            world.apply(quota(0))
            async with world.scheduler("us") as instance:
                await until(lambda: instance.may_begin or None)
                assert f"{GAUGE} 0.0" in instance.metrics.text()
                world.apply(definition(TEXT))
                (note,) = await until(lambda: notes(world, "InputSchemaChanged"))
                assert note == f"input quota: {CHANGED}"
                assert f"{GAUGE} 1.0" in instance.metrics.text()
                (said,) = [r for r in world.records if r.get("code") == "PS804"]
                assert (said["msg"], said["line"]) == (CHANGED, 6)
                assert said["hint"] == (
                    "take the cluster's: kubectl get crd quotas.example.com -o yaml > quotas.yaml,"
                    " and check the policy"
                )
                world.apply(pod("p"))
                waits = await until(lambda: world.condition("p", "PodScheduled"))
                assert "over quota" in waits["message"]
                world.apply(definition())
                await until(lambda: f"{GAUGE} 0.0" in instance.metrics.text() or None)
                assert [r for r in world.records if "again as rules read it" in str(r)]
                world.cluster.delete(Key(DEFINITION, "", f"quotas.{GROUP}"))
                await until(lambda: f"{GAUGE} 1.0" in instance.metrics.text() or None)
                last = [r for r in world.records if r.get("code") == "PS804"][-1]
                assert last["msg"].endswith("its CustomResourceDefinition is gone")

    acted(play)


def test_ps804_a_policy_that_declares_the_kind_no_more_watches_no_definition(
    tmp_path: Path,
) -> None:
    """The watch ends with the input, and begins with one that a reload brings."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, NONE))
        world.apply(definition(TEXT), node("a"))
        async with world.served():
            await established(world)
            async with world.scheduler("us") as instance:
                await until(lambda: instance.may_begin or None)
                assert not notes(world, "InputSchemaChanged")
                written(tmp_path, POLICY)
                assert await reloaded(instance) is ReloadResult.LOADED
                await until(lambda: notes(world, "InputSchemaChanged"))
                written(tmp_path, NONE)
                assert await reloaded(instance) is ReloadResult.LOADED
                await until(lambda: instance.definitions.find(f"quotas.{GROUP}") is None or None)
                assert "input_schema_differences{" not in instance.metrics.text()

    acted(play)


def test_ps804_on_an_embedded_cluster(tmp_path: Path) -> None:
    """Its own store has the definitions; the embedded scheduler tells the same."""
    world = test_embedded_instance.World(tmp_path)
    written(tmp_path / "policies", POLICY)
    (tmp_path / "policies" / "keep.yaml").unlink()
    instance = world.start()
    instance.cluster.apply(definition())
    instance.step()
    assert f"{GAUGE} 0.0" in instance.metrics.text()
    instance.cluster.apply(definition(TEXT))
    instance.step()
    assert f"{GAUGE} 1.0" in instance.metrics.text()
    assert [r["msg"] for r in world.records if r.get("code") == "PS804"] == [CHANGED]
    assert world.reload() is ReloadResult.UNCHANGED
    instance.close()


def test_ps804_check_reports_it_at_the_inputs_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --kubeconfig` holds schema and keys of a policy against the cluster beforehand."""
    (policy,) = written(tmp_path, POLICY)
    kubeconfig = tmp_path / "kubeconfig"

    async def play(world: World) -> None:
        world.apply(definition(), node("a"))
        async with world.served():
            await established(world)
            cluster = {"name": "c", "cluster": {"server": f"http://{world.address.text}"}}
            context = {"name": "c", "context": {"cluster": "c", "user": ""}}
            text = {"current-context": "c", "clusters": [cluster], "contexts": [context]}
            kubeconfig.write_text(yaml.safe_dump(text), encoding="utf-8")
            arguments = ["check", policy, "--kubeconfig", str(kubeconfig)]
            world.apply(quota(1, "other"), pod("p"))
            assert await asyncio.to_thread(run, arguments) == 0, capsys.readouterr()
            said = capsys.readouterr().out
            assert "PS410: no pod of the snapshot finds an object of inputs.quota" in said
            assert "keys of it: other" in said
            world.apply(quota(1))
            assert await asyncio.to_thread(run, arguments) == 0
            assert capsys.readouterr().out == "no problems found\n"
            world.apply(definition(TEXT))
            assert await asyncio.to_thread(run, arguments) == 1
            said = capsys.readouterr().out
            assert f"{policy}:6:68: error PS804: {CHANGED}" in said
            assert "kubectl get crd quotas.example.com -o yaml > quotas.yaml" in said

    acted(play)


def test_an_embedded_cluster_waits_for_its_definitions_and_follows_objects(tmp_path: Path) -> None:
    """Nothing is decided before the kind is served; then decisions read it as it is."""
    world = test_embedded_instance.World(tmp_path)
    written(tmp_path / "policies", POLICY)
    (tmp_path / "policies" / "keep.yaml").unlink()
    world.files(pods=test_embedded_instance.pod("p"))
    instance = world.start()
    assert [record["code"] for record in world.records if "code" in record] == ["PS807"]
    assert "no Quota of example.com/v1" in instance.checks()["readyz"][-2].test()
    assert not world.node_of("p")
    cluster = instance.cluster
    cluster.apply(definition())
    instance.step()
    cluster.apply(quota(1))
    instance.step()
    assert world.node_of("p")
    cluster.apply(quota(0))
    world.apply(pods=test_embedded_instance.pod("q"))
    assert not world.node_of("q")
    cluster.delete(Key((GROUP, "Quota"), "", "default"))
    world.apply(pods=test_embedded_instance.pod("r"))
    assert world.node_of("r")
    world.policy("true")
    (tmp_path / "policies" / "policy.yaml").unlink()
    assert world.reload() is ReloadResult.LOADED
    assert not instance.scheduler.handle.nodes.inputs
    instance.close()


def test_verbs_on_a_live_cluster_and_snapshots_have_the_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`simulate --kubeconfig` decided without quotas, and a snapshot had none."""
    (policy,) = written(tmp_path, POLICY)
    file, kubeconfig = str(tmp_path / "cluster.jsonl.gz"), tmp_path / "kubeconfig"

    async def play(world: World) -> None:
        world.apply(definition(), node("a"))
        async with world.served():
            await established(world)
            world.apply(quota(0), pod("p"))
            cluster = {"name": "c", "cluster": {"server": f"http://{world.address.text}"}}
            context = {"name": "c", "context": {"cluster": "c", "user": ""}}
            text = {"current-context": "c", "clusters": [cluster], "contexts": [context]}
            kubeconfig.write_text(yaml.safe_dump(text), encoding="utf-8")
            for verb in (
                ["snapshot", file, "--policies", policy],
                ["simulate", "--policies", policy],
            ):
                arguments = [*verb, "--kubeconfig", str(kubeconfig)]
                assert await asyncio.to_thread(run, arguments) == 0, capsys.readouterr()

    acted(play)
    assert "over quota" in capsys.readouterr().out
    text = gzip.decompress(Path(file).read_bytes()).decode()
    (line,) = [line for line in text.splitlines() if '"Quota"' in line]
    assert msgspec.json.decode(line)["spec"] == {"most": 0}
    assert run(["simulate", file, "--policies", policy]) == 0
    assert "over quota" in capsys.readouterr().out
    assert run(["diff", policy, policy, "--cluster", file]) == 0
    secret = ["snapshot", file, "--cluster", file, "--policies", policy, "--anonymize"]
    assert run(secret) == 2
    assert "does not go together with --anonymize" in capsys.readouterr().err


OBJECT_POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  filter:
  - {expression: "!pod.object.spec.hostPID && node.object.spec.podCIDR != '10.0.0.0/24'", message: no host}
"""  # noqa: E501 - a rule on a line


def host_pod(name: str) -> dict[str, Any]:
    """Return a pod that shares the process IDs of its node."""
    made = pod(name)
    return {**made, "spec": {**made["spec"], "hostPID": True}}


def test_a_reload_that_reads_more_of_pods_and_nodes_reads_them_anew(tmp_path: Path) -> None:
    """What a new rule read of a pod that had come before was nothing."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=written(tmp_path, NONE))
        world.apply(definition())
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.may_begin or None)
            world.apply(host_pod("p"), pod("q"))  # no node: they wait
            await until(lambda: world.condition("q", "PodScheduled"))
            written(tmp_path, OBJECT_POLICY)
            assert await reloaded(instance) is ReloadResult.LOADED
            world.apply(node("a"))
            await until(lambda: "q" in world.bound())
            said = await until(lambda: _says(world.condition("p", "PodScheduled"), "no host"))
            assert said
            assert "p" not in world.bound()
            changed = {**node("a"), "spec": {"podCIDR": "10.0.0.0/24"}}
            world.apply(changed, pod("r"))
            await until(lambda: _says(world.condition("r", "PodScheduled"), "no host"))
            written(tmp_path, NONE)
            assert await reloaded(instance) is ReloadResult.LOADED
            await until(lambda: {"p", "r"} <= set(world.bound()))
            assert all(type(item) is Pod for item in instance.pods())

    acted(play)


def _says(condition: dict[str, Any] | None, words: str) -> bool | None:
    return (condition is not None and words in condition.get("message", "")) or None


def test_an_embedded_cluster_reads_more_of_pods_where_a_rule_does(tmp_path: Path) -> None:
    """A rule over a field that scheduling does not decode read nothing."""
    world = test_embedded_instance.World(tmp_path)
    world.files(pods=yaml.safe_dump(host_pod("p")))
    instance = world.start()
    assert world.node_of("p")
    (tmp_path / "policies" / "policy.yaml").write_text(OBJECT_POLICY, encoding="utf-8")
    assert world.reload() is ReloadResult.LOADED
    world.apply(pods=yaml.safe_dump(host_pod("q")))
    assert not world.node_of("q")
    world.apply(pods=test_embedded_instance.pod("r"))
    assert world.node_of("r")
    instance.close()


def test_files_of_an_embedded_cluster_have_custom_objects(tmp_path: Path) -> None:
    """`run --cluster` refused each object of a kind that a definition in the same files adds."""
    world = test_embedded_instance.World(tmp_path)
    written(tmp_path / "policies", POLICY)
    (tmp_path / "policies" / "keep.yaml").unlink()
    (tmp_path / "policies" / "quotas.yaml").rename(tmp_path / "cluster" / "zz.yaml")
    both = yaml.safe_dump_all([definition()])
    (tmp_path / "policies" / "quotas.yaml").write_text(both, encoding="utf-8")
    own = yaml.safe_dump(quota(0))
    world.files(pods=test_embedded_instance.pod("p"), aa=own)
    instance = world.start()
    assert not world.node_of("p")
    assert not [record for record in world.records if "code" in record]
    world.apply(aa=yaml.safe_dump(quota(1)), pods=test_embedded_instance.pod("q"))
    assert world.node_of("q")
    (tmp_path / "cluster" / "aa.yaml").unlink()
    world.apply(pods=test_embedded_instance.pod("r"))
    assert instance.cluster.store.find((GROUP, "Quota"), "", "default") is None
    world.apply(bb=own.replace("Quota", "Quote"))
    (said,) = [record for record in world.records if record.get("code") == "PS713"]
    assert 'no matches for kind "Quote" in version "example.com/v1"' in str(said)
    instance.close()
