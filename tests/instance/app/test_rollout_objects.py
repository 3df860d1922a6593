"""Rollouts as objects on a cluster: steps, requests, restarts, leaders, and what their status says.

Pods may run on every node until a candidate is in force, which keeps them on node b.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import yaml

from policy_sched.client.apimachinery.object import Key
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of
from policy_sched.profiles.models.rollout_status import RolloutStatus
from policy_sched.rollout import Phase, report_of_object
from tests.instance.app.rollout_worlds import ROLLOUT_TEXT, ObjectProcess, ObjectWorld
from tests.profiles.policy_texts import write

from .test_cluster_instance import World, acted, node, pod, until
from .test_policy_objects import IN_FORCE, Plain, conditions, policy, scheduler

KEY = ("policysched.dev", "Rollout")
ANYWHERE = [{"expression": "true"}]
ONLY_B = [{"expression": "node.name == 'b'", "message": "not b"}]
AUDIT = {"audit": {"decisions": 2, "for": "1s"}}
CANARY = {"canary": {"percent": 50, "by": "Pod", "for": "1s"}}
LONG = {"audit": {"decisions": 1, "for": "10h"}}
PROMOTE, ABORT = "policysched.dev/promote", "policysched.dev/abort"
names = (f"p{number}" for number in itertools.count())


def rolled(name: str, *steps: Plain, **spec: Any) -> Plain:
    """Return a Rollout."""
    head = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": name}}
    return {**head, "spec": {"steps": list(steps), **spec}}


def served(world: World, *things: Plain) -> None:
    """Serve both kinds, and put objects into the cluster."""
    definitions = [definition_of(own) for own in CUSTOM_RESOURCES]
    big = [node("a"), node("b")]
    for each in big:  # pods come until a step has ended
        each["status"]["allocatable"] |= {"pods": "1000", "cpu": "1000"}
    world.apply(*definitions, *big, *things)


def status(world: World, name: str = "careful") -> Plain:
    """Return the status of a rollout as a client sees it."""
    shown: Plain = world.cluster.store.get(KEY, "", name).data.get("status", {})
    return shown


def accepted(world: World, name: str = "careful") -> str:
    """Return the reason of the condition Accepted, nothing while there is none."""
    shown = {one["type"]: one["reason"] for one in status(world, name).get("conditions", ())}
    return str(shown.get("Accepted", ""))


def at(world: World, phase: str, step: str = "") -> bool:
    """Return whether the rollout is there."""
    shown = status(world)
    return shown.get("phase") == phase and (not step or shown["step"] == step)


async def flowing(world: World, phase: str, step: str = "") -> None:
    """Apply a pod every now and then until the rollout is there."""
    while not at(world, phase, step):
        world.apply(pod(next(names), "1m"))
        await asyncio.sleep(0.05)


def annotated(world: World, key: str, value: str) -> None:
    """Ask for something as `policy-sched rollout` does."""
    patch = {"metadata": {"annotations": {key: value}}}
    world.cluster.store.patch(Key(KEY, "", "careful"), patch)


def in_force(instance: ClusterInstance) -> str:
    """Return the hash of the set in force."""
    return instance.reloader.store.current.content_hash


async def begun(world: World, instance: ClusterInstance, rules: list[Plain] = ONLY_B) -> str:
    """Change the policy once the rollout is at rest; return what is in force."""
    await until(lambda: conditions(world, "mine") == IN_FORCE)
    await until(lambda: status(world).get("policies"))
    before = in_force(instance)
    world.apply(policy("mine", filter=rules))
    await until(lambda: at(world, "Progressing"))
    return before


def test_a_changed_object_passes_its_steps_and_is_promoted() -> None:
    """Audit, canary, promoted; the status is what `rollout status` shows at each."""

    async def play(world: World) -> None:
        asked: set[tuple[str, str]] = set()

        async def note(method: str, path: str) -> None:
            if "rollouts" in path:
                asked.add((method, path.removeprefix("/apis/policysched.dev/v1alpha1/")))

        world.before = note
        served(world, policy("mine", filter=ANYWHERE), rolled("careful", AUDIT, CANARY))
        async with world.served(), scheduler(world, keeps_texts=True) as instance:
            before = await begun(world, instance)
            assert (status(world)["step"], status(world)["percent"]) == ("1/2", 0)
            assert in_force(instance) == before
            await until(lambda: conditions(world, "mine")[2:] == ("False", "RollingOut"))
            await flowing(world, "Progressing", "2/2")
            assert status(world)["percent"] == 50
            assert in_force(instance) == before
            await flowing(world, "Promoted")
            await until(lambda: in_force(instance) == status(world)["candidate"])
            await until(lambda: conditions(world, "mine") == IN_FORCE)
            shown = world.cluster.store.get(KEY, "", "careful").data
            assert report_of_object(shown).phase == "Promoted"
            assert shown["status"]["percent"] == 100
            RolloutStatus.model_validate(shown["status"], strict=False)
            assert accepted(world) == "Accepted"
            world.apply(pod("last"))
            await until(lambda: "last" in world.bound())
            assert world.bound()["last"] == "b"
        got = {("GET", "rollouts"), ("PUT", "rollouts/careful/status")}
        assert got <= asked <= got | {("GET", "rollouts/careful")}, "what its account may"

    acted(play)


def test_a_restart_and_another_leader_go_on_from_the_status() -> None:
    """Also one that compiled only the changed objects: it puts in force what was."""

    async def play(world: World) -> None:
        served(world, policy("mine", filter=ANYWHERE), rolled("careful", AUDIT, LONG))
        async with world.served():
            async with scheduler(world, "one", keeps_texts=True) as one:
                before = await begun(world, one)
                await flowing(world, "Progressing", "2/2")
                began = status(world)["state"]["began"]
            async with scheduler(world, "two", keeps_texts=True) as two:
                assert in_force(two) != before
                await until(lambda: two.leads and two.rolled_out)
                assert in_force(two) == before
                assert (status(world)["step"], status(world)["state"]["began"]) == ("2/2", began)
                async with scheduler(world, "three", keeps_texts=True) as three:
                    await until(lambda: three.ready)
                    annotated(world, PROMOTE, status(world)["candidate"])
                    await until(lambda: at(world, "Promoted"))
                    await until(lambda: in_force(two) == status(world)["candidate"])

    acted(play)


def test_a_rollout_that_is_deleted_between_two_schedulers_is_aborted() -> None:
    """Without an election, too: the status of the policy has the text that is in force."""

    async def play(world: World) -> None:
        served(world, policy("mine", filter=ANYWHERE), rolled("careful", LONG))
        async with world.served():
            async with scheduler(world, keeps_texts=True) as one:
                before = await begun(world, one)
                await until(lambda: conditions(world, "mine")[2:] == ("False", "RollingOut"))
            world.cluster.store.delete(Key(KEY, "", "careful"))
            async with scheduler(world, keeps_texts=True) as two:
                assert in_force(two) != before
                await until(lambda: two.rolled_out and in_force(two) == before)
                await until(lambda: conditions(world, "mine")[2:] == ("False", "RolloutAborted"))

    acted(play)


def test_a_rule_aborts_it(tmp_path: Path) -> None:
    """The stable set stays, and the figures are in the status."""
    world = ObjectWorld(tmp_path)
    before = world.hash
    world.change("false")
    world.run(25)
    shown = world.status()
    assert shown["phase"] == "Aborted"
    assert shown["state"]["figures"]["candidate.unschedulable"] == 1.0
    assert world.in_force() == ("False", "RolloutAborted")
    assert world.hash == before


def test_what_no_step_tries_is_told_when_a_rollout_begins(tmp_path: Path) -> None:
    """Once in the log, as `check` says it, and in the status while the candidate is on its way."""
    world = ObjectWorld(tmp_path)
    rare = {"every": "1h", "victim": "pod.priority < 0"}
    world.home.apply(policy("only", filter=ONLY_B, evict=rare))
    world.run(30)
    (line,) = [line for line in world.lines if line.get("code") == "PS718"]
    text = "no step of the Rollout careful tries a change of evict"
    assert (line["level"], line["msg"]) == ("warning", text)
    shown = world.status()
    assert (shown["phase"], shown["step"]) == ("Progressing", "2/3")
    assert [told.partition(": ")[2] for told in shown["untried"]] == [text]
    untried = shown["conditions"][-1]
    assert (untried["type"], untried["status"], untried["reason"]) == ("Untried", "True", "PS718")
    RolloutStatus.model_validate(shown, strict=False)
    world.annotate({PROMOTE: world.rolled.candidate})
    world.run(2)
    assert world.status()["untried"] == []
    world.change("node.name == 'b'")
    told = [line["msg"] for line in world.lines if line.get("code") == "PS718"]
    assert told == [text, text], "what is gone is told, too"


def test_an_annotation_is_a_request_and_is_done_once(tmp_path: Path) -> None:
    """For the candidate that it names; the same candidate, tried again, is not aborted again."""
    world = ObjectWorld(tmp_path)
    before = world.hash
    world.change("node.name == 'b'")
    candidate = world.rolled.candidate
    world.annotate({PROMOTE: "another", ABORT: candidate})
    world.run(2)
    shown = world.status()
    assert (shown["phase"], shown["message"]) == (
        "Aborted",
        f"aborted in step 1 by annotation {ABORT}",
    )
    assert shown["answered"] == {"abort": candidate, "promote": "another"}
    assert world.hash == before
    world.change("false")
    world.change("node.name == 'b'")
    world.run(5)
    shown = world.status()
    assert (shown["phase"], shown["candidate"]) == ("Progressing", candidate)
    world.annotate({PROMOTE: f"{candidate}/2"})
    world.run(2)
    assert (world.status()["phase"], world.hash) == ("Promoted", candidate)


def test_a_stale_leader_writes_nothing_and_nothing_follows(tmp_path: Path) -> None:
    """Another one has written meanwhile: the write is refused, and the state is read again."""
    world = ObjectWorld(tmp_path)
    before, instance = world.hash, world.instance
    world.change("node.name == 'b'")
    assert isinstance(instance, ObjectProcess)
    assert instance.rollouts is not None
    instance.falls_behind()
    stored = world.home.store.get(KEY, "", "careful").data
    other = {**stored["status"]["state"], "phase": "Aborted", "message": "by another"}
    shown = {**stored["status"], "phase": "Aborted", "state": other}
    world.home.store.update({**stored, "status": shown}, "status")
    assert instance.rollouts.request("promote", "", "stale") == ""
    world.run(1)
    text = "it was changed by another scheduler meanwhile"
    assert [line for line in world.lines if line.get("error") == text]
    instance.stale.clear()
    world.run(2)
    assert world.rolled.message == "by another"
    assert world.status()["state"] == other
    assert (instance.reloader.store.staged, world.hash) == (None, before)


def test_two_schedulers_without_an_election_promote_once(tmp_path: Path) -> None:
    """Of two that believe to lead, one writes; both end with the same set."""
    world = ObjectWorld(tmp_path)
    both = [world.instance, world.start()]

    def act() -> None:
        for _ in range(10):
            world.clock.advance(1)
            for instance in both:
                world.act(instance)

    world.write("node.name == 'b'")
    act()
    candidate = world.status()["candidate"]
    assert candidate not in {instance.reloader.store.current.content_hash for instance in both}
    world.annotate({PROMOTE: candidate})
    act()
    assert world.status()["phase"] == "Promoted"
    assert {instance.reloader.store.current.content_hash for instance in both} == {candidate}
    assert len({state.began for state in world.written if state.phase is Phase.PROMOTED}) == 1


def test_a_rollout_that_is_deleted_leaves_the_stable_set_in_force(tmp_path: Path) -> None:
    """It is told; the next change is in force at once, and a new Rollout begins anew."""
    world = ObjectWorld(tmp_path)
    before = world.hash
    world.change("node.name == 'b'")
    world.write_rollout(None)
    world.settle()
    told = "the Rollout was deleted before its candidate was promoted"
    assert [line for line in world.lines if line.get("detail") == told]
    assert world.in_force() == ("False", "RolloutAborted")
    broken = policy("broken", filter=[{"expression": "nothing"}])
    world.home.apply(broken)
    world.settle()
    world.home.store.delete(Key(("policysched.dev", "Policy"), "", "broken"))
    world.settle()
    assert world.hash == before
    world.write_rollout(ROLLOUT_TEXT)
    world.settle()
    assert (world.status()["phase"], world.hash) == ("Progressing", before)
    world.write_rollout(None)
    world.change("false")
    assert world.in_force() == ("True", "InForce")
    assert world.hash != before


def test_a_broken_rollout_holds_changes_back_and_says_where_it_is_wrong(tmp_path: Path) -> None:
    """Also at a start; mended, it rolls out what has waited, and it can always be aborted."""
    wrong = ROLLOUT_TEXT.replace("candidate.errors", "candidate.erors")
    world = ObjectWorld(tmp_path, text=wrong)
    before = world.hash
    assert world.accepted() == "PS102"
    (problem,) = world.status()["problems"]
    assert problem["path"] == "spec.abortWhen[0].expression"
    world.change("node.name == 'b'")
    for _ in range(2):
        assert world.in_force() == ("False", "RollingOut")
        assert world.hash == before
        world.start()
    world.write_rollout(ROLLOUT_TEXT)
    world.settle()
    assert (world.status()["phase"], world.accepted()) == ("Progressing", "Accepted")
    assert (world.status()["problems"], world.hash) == ([], before)
    began = world.rolled.began
    world.write_rollout(wrong)
    world.start()
    assert world.accepted() == "PS102"
    assert (world.status()["phase"], world.rolled.began, world.hash) == (
        "Progressing",
        began,
        before,
    )
    world.annotate({ABORT: world.rolled.candidate})
    world.run(2)
    assert (world.status()["phase"], world.hash) == ("Aborted", before)


def test_one_rollout_counts(tmp_path: Path) -> None:
    """The first sound one by name, or that of a file; the others say so."""
    file = tmp_path / "rollout.yaml"
    write(file, ROLLOUT_TEXT.replace("careful", "of-a-file"))
    world = ObjectWorld(tmp_path)
    world.home.apply(yaml.safe_load(ROLLOUT_TEXT.replace("careful", "other")))
    wrong = ROLLOUT_TEXT.replace("careful", "broken").replace("candidate.errors", "candidate.erors")
    world.home.apply(yaml.safe_load(wrong))
    world.settle()
    found = [world.accepted(name) for name in ("broken", "careful", "other")]
    assert found == ["PS102", "Accepted", "PS708"]
    world.files = {"rollout": str(file)}
    world.start()
    assert world.accepted() == "PS708"
    rollouts = world.instance.rollouts
    assert rollouts is not None
    assert (rollouts.plan and rollouts.plan.name, rollouts.uid) == ("of-a-file", "")
