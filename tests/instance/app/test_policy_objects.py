"""Policies as objects on a cluster: in force, refused, deleted; and what their status says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.leaderelection.state_machine import Election
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.errors import ClusterError
from policy_sched.instance.app import policy_objects
from policy_sched.instance.app.cluster_instance import Candidacy, ClusterInstance
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources, records_of
from policy_sched.instance.app.instance import POLICY, ROLLOUT
from policy_sched.instance.app.policy_objects import policy_object
from policy_sched.instance.app.run_loop import LONGEST_SLEEP, RunLoop
from policy_sched.model import ObjectMeta
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of
from policy_sched.profiles.reload.inputs import PolicyFiles, first_compilation
from policy_sched.profiles.reload.store import PolicyStore
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import write
from tests.profiles.reload.test_objects import FILTER, WRONG

from . import test_inputs
from .test_cluster_instance import CLOCKS, PATIENT, WATCHING, World, acted, node, pod, until

Plain = dict[str, Any]
KEY = ("policysched.dev", "Policy")
JOINS = ["default-scheduler"]


def policy(name: str, **spec: Any) -> Plain:
    """Return a policy that joins the default profile."""
    head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy", "metadata": {"name": name}}
    return {**head, "spec": {"profiles": JOINS, **spec}}


def served(world: World, *things: Plain) -> None:
    """Serve policies, and put objects into the cluster."""
    (definition,) = (definition_of(own) for own in CUSTOM_RESOURCES if own.kind == "Policy")
    world.apply(definition, node("a"), node("b"), *things)


def status(world: World, name: str) -> Plain:
    """Return the status of a policy as a client sees it."""
    shown: Plain = world.cluster.store.get(KEY, "", name).data.get("status", {})
    return shown


def conditions(world: World, name: str) -> tuple[str, ...]:
    """Return status and reason of both conditions of a policy, nothing while there are none."""
    shown = status(world, name).get("conditions", ())
    return tuple(word for c in shown for word in (c["status"], c["reason"]))


@asynccontextmanager
async def scheduler(
    world: World, name: str = "", selector: str = "", **files: Any
) -> AsyncIterator[ClusterInstance]:
    """Run a scheduler that reads objects; with a name it takes part in the election."""
    environment = ClientEnvironment(world.clocks, Random(name))
    access = ClusterAccess(f"http://{world.address.text}")
    candidacy = None
    if name:
        once = Api(access, environment, Settings(qps=0, retry_policy=RetryPolicy(tries=1)))
        election = Election(name, CLOCKS, Random(name), PATIENT)
        candidacy = Candidacy(election, once, "kube-system", "policy-sched")
    objects = tuple(map(policy_object, records_of(world.cluster, POLICY, selector)))
    rollouts = tuple(map(policy_object, records_of(world.cluster, ROLLOUT, selector)))
    files = {"objects": objects, "rollouts": rollouts, **files}
    given, compilation = first_compilation(PolicyFiles(**files))
    store = PolicyStore(given, time.time_ns, compilation)
    api = Api(access, environment, Settings(qps=0))
    instance = ClusterInstance(store, api, candidacy, world.records.append, watching=WATCHING)
    instance.follow_policies(selector)
    running = asyncio.create_task(RunLoop(instance, lambda: None, LONGEST_SLEEP).run())
    try:
        yield instance
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        instance.close()


IN_FORCE = ("True", "Accepted", "True", "InForce")


def test_an_object_decides_as_soon_as_it_is_there() -> None:
    """Created, changed and deleted while the scheduler runs; its status follows."""

    async def play(world: World) -> None:
        served(world)
        async with world.served(), scheduler(world) as instance:
            await until(lambda: instance.ready)
            world.apply(policy("mine", filter=FILTER))
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            assert status(world, "mine")["profiles"] == JOINS
            world.apply(pod("p"))
            assert await until(world.bound) == {"p": "b"}
            world.apply(policy("mine", filter=[{"expression": "node.name != 'b'"}]))
            await until(lambda: status(world, "mine")["observedGeneration"] == 2)
            world.apply(pod("q"))
            await until(lambda: "q" in world.bound())
            assert world.bound()["q"] == "a"
            generation = instance.reloader.store.status.generation
            world.cluster.store.delete(Key(KEY, "", "mine"))
            await until(lambda: instance.reloader.store.status.generation > generation)
            assert "mine" not in instance.reloader.store.current.plans[0].policies

    acted(play)


def test_a_broken_object_leaves_the_set_in_force_and_says_where_it_is_wrong() -> None:
    """Mended, it comes into force with what was refused beside it."""

    async def play(world: World) -> None:
        served(world, policy("mine", filter=FILTER))
        async with world.served(), scheduler(world) as instance:
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            world.apply(policy("bad", filter=WRONG), policy("other", filter=FILTER))
            await until(lambda: conditions(world, "other")[3:] == ("SetRefused",))
            (problem,) = status(world, "bad")["problems"]
            assert (problem["code"], problem["path"]) == ("PS102", "spec.filter[0].expression")
            assert conditions(world, "mine") == IN_FORCE
            assert {"mine", "other"} & {*instance.reloader.store.current.plans[0].policies} == {
                "mine"
            }
            world.apply(policy("bad", filter=FILTER))
            for name in ("bad", "other", "mine"):
                await until(lambda: conditions(world, name) == IN_FORCE)  # noqa: B023
            assert status(world, "bad")["problems"] == []

    acted(play)


def test_a_selector_chooses_and_a_file_comes_first(tmp_path: Path) -> None:
    """What is not selected is another scheduler's, and gets no status from this one."""
    text = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\n"
    write(tmp_path / "mine.yaml", text + "spec: {filter: [{expression: 'true'}]}\n")

    async def play(world: World) -> None:
        mine, others = policy("mine", filter=FILTER), policy("others", filter=FILTER)
        for labelled in (mine,):
            labelled["metadata"]["labels"] = {"team": "a"}
        served(world, mine, others)
        files = {"policies": (str(tmp_path),)}
        async with world.served(), scheduler(world, "", "team=a", **files):
            await until(lambda: conditions(world, "mine"))
            assert conditions(world, "mine") == ("False", "PS708", "False", "NotAccepted")
            assert "mine.yaml, and files come first" in status(world, "mine")["problems"][0]["hint"]
            assert conditions(world, "others") == ()

    acted(play)


def test_a_restart_and_another_leader_write_nothing_anew() -> None:
    """Times stay, a broken object keeps its problems, and counts go on from what is shown."""

    async def play(world: World) -> None:
        served(world, policy("mine", filter=FILTER), policy("bad", filter=WRONG))
        async with world.served():
            async with scheduler(world, "one") as one:
                await until(lambda: one.leads)
                await until(lambda: conditions(world, "mine") == IN_FORCE)
                await until(lambda: conditions(world, "bad")[:2] == ("False", "PS102"))
                async with scheduler(world, "two") as two:
                    await until(lambda: two.ready)
                    assert not two.leads
                    older = {"candidate": None, "stable": None}  # no scheduler wrote them before
                    key = Key(KEY, "", "mine")
                    world.cluster.store.patch(key, {"status": older}, subresource="status")
                    before = [status(world, name) for name in ("mine", "bad")]
            async with scheduler(world, "two") as two:
                await until(lambda: two.leads)
                assert two.policy_objects is not None
                await until(lambda: not two.policy_objects._due)
                assert [status(world, name) for name in ("mine", "bad")] == before
                world.apply(policy("bad", filter=FILTER))
                await until(lambda: conditions(world, "bad") == IN_FORCE)

    acted(play)


def test_what_a_policy_did_is_counted() -> None:
    """Evaluations, nodes that it rejected, and errors in its rules; once a minute."""

    async def play(world: World) -> None:
        rules = [{"expression": "node.name == 'c'", "message": "not c"}]
        failing = [{"expression": "int(pod.name) > 0", "onError": "Abort"}]
        served(world, policy("mine", filter=rules))
        async with world.served(), scheduler(world) as instance:
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            world.apply(pod("p"))
            await until(lambda: ("p", "FailedScheduling") in world.events())
            assert instance.policy_objects is not None
            assert status(world, "mine")["counts"]["nodesRejected"] == 0
            instance.policy_objects._counted_at = 0
            await until(lambda: status(world, "mine")["counts"]["nodesRejected"] >= 2)
            assert status(world, "mine")["counts"]["podsMatched"] >= 1
            world.apply(policy("mine", filter=failing))
            await until(lambda: status(world, "mine")["observedGeneration"] == 2)
            world.apply(pod("q"))
            await until(lambda: ("q", "FailedScheduling") in world.events())
            instance.policy_objects._counted_at = 0
            await until(lambda: status(world, "mine")["counts"]["errors"] >= 1)

    acted(play)


def test_ps804_a_schema_that_changes_in_the_cluster_is_in_the_status() -> None:
    """An object states types in `fields`; it decides as before until it is mended."""
    quotas = {"name": "quota", "apiVersion": "example.com/v1", "kind": "Quota", "optional": True}
    reads = policy(
        "mine",
        inputs=[{**quotas, "fields": {"spec.most": "int"}}],
        filter=[{"expression": "inputs.quota[?'x'].spec.most.orValue(1) > 0"}],
    )

    async def play(world: World) -> None:
        served(world, reads, test_inputs.definition())
        async with world.served(), scheduler(world):
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            assert status(world, "mine")["problems"] == []
            world.apply(test_inputs.definition(test_inputs.TEXT))
            (problem,) = await until(lambda: status(world, "mine")["problems"])
            assert (problem["code"], problem["path"]) == ("PS804", "spec.inputs[0].fields")
            assert problem["message"] == test_inputs.CHANGED
            assert conditions(world, "mine") == IN_FORCE
            world.apply(test_inputs.definition())
            await until(lambda: status(world, "mine")["problems"] == [])

    acted(play)


def test_a_cluster_without_the_kind_gets_it_later() -> None:
    """The definition may be applied after the scheduler."""

    async def play(world: World) -> None:
        world.apply(node("a"), node("b"))
        async with world.served(), scheduler(world) as instance:
            await until(lambda: instance.ready)
            served(world, policy("mine", filter=FILTER))
            await until(lambda: conditions(world, "mine") == IN_FORCE)

    acted(play)


def test_an_embedded_cluster_reads_the_policies_among_its_manifests(tmp_path: Path) -> None:
    """From the first pod on; a broken one does not keep it from its start, and says so."""

    (definition,) = (definition_of(own) for own in CUSTOM_RESOURCES if own.kind == "Policy")
    things = [definition, node("a"), node("b"), pod("p")]
    things += [policy("mine", filter=FILTER), policy("bad", filter=WRONG)]
    write(tmp_path / "all.yaml", yaml.safe_dump_all(things))
    sources = Sources(PolicyFiles(), (str(tmp_path),), policy_objects="")
    instance = EmbeddedInstance(sources, time.time_ns, lambda _: None)

    def shown(name: str) -> Plain:
        found: Plain = instance.cluster.store.get(KEY, "", name).data.get("status", {})
        return found

    async def play() -> None:
        running = asyncio.create_task(RunLoop(instance, lambda: None, LONGEST_SLEEP).run())
        async with asyncio.timeout(60):
            await until(lambda: shown("mine"))
            await until(lambda: shown("bad"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    try:
        asyncio.run(play())
        pod_at = instance.cluster.store.get(("v1", "Pod"), "default", "p").data["spec"]["nodeName"]
        assert pod_at == "b"
        assert shown("mine")["conditions"][1]["status"] == "True"
        assert shown("bad")["problems"][0]["code"] == "PS102"
    finally:
        instance.close()


def test_many_objects_are_told_one_after_the_other_and_each_once() -> None:
    """One change of one object is one write; nothing is written that is shown already."""
    records = [record(f"p{i}", FILTER) for i in range(200)]
    written: list[str] = []

    async def write_status(name: str, status: Plain) -> None:
        number = int(name[1:])
        records[number] = msgspec.structs.replace(records[number], status=status)
        written.append(name)

    instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, lambda _: None)
    counts = policy_objects.PolicyCounts(instance.scheduler, instance.metrics)
    objects = policy_objects.PolicyObjects(
        counts, lambda: True, write_status, lambda *_: None, time.time_ns, instance.reloader.store
    )
    objects.records, objects.sleep = lambda: records, _at_once
    store = instance.reloader.store

    def judge() -> None:
        given = objects.given()
        compilation = PolicyFiles(objects=given).compile()
        objects.judge(given, compilation.paths, store.commit(compilation))

    judge()
    asyncio.run(objects.publish())
    assert written == [f"p{i}" for i in range(200)]
    for turn in range(3):  # another kind of problem each time
        written.clear()
        wrong = [{"expression": f"node.x{turn} == {'1' * turn}"}]
        records[5] = msgspec.structs.replace(
            record("p5", wrong, turn + 2), status=records[5].status
        )
        judge()
        asyncio.run(objects.publish())
        assert written == ["p5"]
    instance.close()


def record(name: str, rules: list[Plain], generation: int = 1) -> policy_objects.CustomRecord:
    """Return a policy as it is listed."""
    meta = ObjectMeta(name=name, uid=name, generation=generation)
    return policy_objects.CustomRecord(
        api_version=POLICY[0], kind=POLICY[1], metadata=meta, spec={"filter": rules}
    )


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


def test_only_what_differs_reaches_the_compiler() -> None:
    """A status that is written is no change: the object is the same value."""

    async def play(world: World) -> None:
        served(world, policy("mine", filter=FILTER))
        async with world.served(), scheduler(world) as instance:
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            objects = instance.policy_objects
            assert objects is not None
            before = objects.given()
            counts = dict(instance.reloader.store.status.counts)
            version = world.cluster.store.version
            world.cluster.store.patch(
                Key(KEY, "", "mine"), {"status": {"hash": "x"}}, subresource="status"
            )
            objects._due = True
            await until(lambda: len(status(world, "mine")["hash"]) == 64)
            assert world.cluster.store.version > version
            assert objects.given()[0] is before[0]
            await asyncio.sleep(policy_objects.SPACING)
            assert dict(instance.reloader.store.status.counts) == counts

    acted(play)


def test_a_write_that_fails_is_tried_again_later() -> None:
    """Each time later, and others do not wait for it; one of an object that is gone is not."""
    clock, records = FakeClock(10**18), [record("mine", FILTER), record("other", FILTER)]
    refusing, written, told = [True], list[str](), list[str]()

    async def write_status(name: str, status: Plain) -> None:
        if name == "mine" and refusing[0]:
            raise ClusterError("refused")
        if name == "gone":
            raise ApiError(404, "NotFound", "gone")
        index = next(i for i, one in enumerate(records) if one.metadata.name == name)
        records[index] = msgspec.structs.replace(records[index], status=status)
        written.append(name)

    instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, lambda _: None)
    counts = policy_objects.PolicyCounts(instance.scheduler, instance.metrics)
    store = instance.reloader.store

    def tell(name: str, why: str) -> None:
        told.append(f"{name}: {why}")

    objects = policy_objects.PolicyObjects(counts, lambda: True, write_status, tell, clock, store)
    objects.records, objects.sleep = lambda: records, _at_once
    given = objects.given()
    reload = instance.reloader.store.commit(PolicyFiles(objects=given).compile())
    objects.judge(given, {}, reload)
    asyncio.run(objects.publish())
    asyncio.run(objects.publish())
    assert (written, told) == (["other"], ["mine: refused"])
    clock.ns += 2 * 10**9
    asyncio.run(objects.publish())
    clock.ns += 2 * 10**9
    asyncio.run(objects.publish())
    assert told == ["mine: refused"] * 2
    refusing[0] = False
    clock.ns += 2 * 10**9
    asyncio.run(objects.publish())
    assert written == ["other", "mine"]
    records.append(record("gone", FILTER))
    objects.judge(objects.given(), {}, reload)
    asyncio.run(objects.publish())
    assert told == ["mine: refused"] * 2
    instance.close()


def test_a_rollout_says_what_is_a_candidate_and_what_became_of_it() -> None:
    """Staged, promoted, and aborted: the conditions follow without another reload."""
    records, shown = [record("mine", FILTER)], dict[str, Plain]()
    records[0].spec["profiles"] = JOINS

    async def write_status(name: str, status: Plain) -> None:
        shown[name] = status

    instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, lambda _: None)
    store = instance.reloader.store
    counts = policy_objects.PolicyCounts(instance.scheduler, instance.metrics)
    objects = policy_objects.PolicyObjects(
        counts, lambda: True, write_status, lambda *_: None, time.time_ns, store
    )
    objects.records, objects.sleep = lambda: records, _at_once

    def reason() -> str:
        objects._due = True
        asyncio.run(objects.publish())
        return str(shown["mine"]["conditions"][1]["reason"])

    def stage() -> None:
        given = objects.given()
        compilation = PolicyFiles(objects=given).compile()
        objects.judge(given, compilation.paths, store.stage(compilation))

    stage()
    assert reason() == "RollingOut"
    store.unstage()
    assert reason() == "RolloutAborted"
    stage()
    store.promote()
    assert reason() == "InForce"
    assert shown["mine"]["profiles"] == JOINS
    instance.close()


def test_a_scheduler_asks_only_for_what_its_account_may() -> None:
    """It lists and watches policies, and patches their status; `manifests` grants that."""

    async def play(world: World) -> None:
        asked: set[tuple[str, str]] = set()

        async def note(method: str, path: str) -> None:
            if "policysched.dev" in path:
                asked.add((method, path.removeprefix("/apis/policysched.dev/v1alpha1/")))

        world.before = note
        served(world, policy("mine", filter=FILTER))
        async with world.served(), scheduler(world):
            await until(lambda: conditions(world, "mine") == IN_FORCE)
        assert asked == {
            ("GET", "policies"),
            ("GET", "rollouts"),
            ("PATCH", "policies/mine/status"),
        }

    acted(play)
