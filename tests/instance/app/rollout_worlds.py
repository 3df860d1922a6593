"""Embedded schedulers with a rollout and a clock of their own, over files and over objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import yaml

from policy_sched import rollout
from policy_sched.client.apimachinery import POD, Key
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.app.embedded_instance import records_of
from policy_sched.instance.app.instance import POLICY, ROLLOUT
from policy_sched.instance.app.policy_objects import CustomRecord, Records, policy_object
from policy_sched.model import Kind
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of
from policy_sched.profiles.reload import PolicyFiles, first_compilation
from policy_sched.testing import FakeClock
from tests.embedded.world import node, pod

ROLLOUTS = ("policysched.dev", "Rollout")
NODES = ("a", "b", "c")
POLICY_TEXT = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: only}
spec:
  profiles: [default-scheduler]
  filter: [{expression: "%s", message: elsewhere}]
"""


def rollout_text(decisions: int, audit: int, canary: int, *rules: str) -> str:
    """Return a Rollout of an audit and two canaries of so many seconds, which rules abort."""
    return f"""\
apiVersion: policysched.dev/v1alpha1
kind: Rollout
metadata: {{name: careful}}
spec:
  steps:
  - audit: {{decisions: {decisions}, for: {audit}s}}
  - canary: {{percent: 30, by: Pod, for: {canary}s}}
  - canary: {{percent: 60, by: Pod, for: {canary}s}}
  abortWhen: [{", ".join(rules)}]
"""


ROLLOUT_TEXT = rollout_text(
    3,
    20,
    40,
    "{expression: candidate.errors > 0, message: a rule fails}",
    "{expression: candidate.unschedulable > stable.unschedulable + 0.5, message: no node}",
)


class World:
    """An embedded scheduler with its files and a clock of its own."""

    def __init__(self, folder: Path, rule: str = "true", text: str = ROLLOUT_TEXT) -> None:
        self.folder = folder
        self.clock = FakeClock(10**18)
        self.policies = "policies"
        self.count = 0
        self.lines: list[dict[str, Any]] = []
        self.text = text
        self.state: str | None = str(folder / "state.json")
        self.place()
        self.write(rule)
        self.write_rollout(text)
        self.instance: EmbeddedInstance = self.start()

    def place(self) -> None:
        """Make the place where policies and rollout are."""
        (self.folder / self.policies).mkdir()

    def write(self, rule: str) -> None:
        """Write the policy."""
        (self.folder / self.policies / "only.yaml").write_text(POLICY_TEXT % rule)

    def write_rollout(self, text: str | None) -> None:
        """Write the Rollout, or delete it."""
        path = self.folder / self.policies / "rollout.yaml"
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)

    @property
    def has_rollout(self) -> bool:
        """Whether changes are rolled out."""
        return (self.folder / self.policies / "rollout.yaml").exists()

    def process(self) -> EmbeddedInstance:
        """Return a process that has read what there is."""
        files = PolicyFiles(None, (str(self.folder / self.policies),), keeps_texts=True)
        return EmbeddedInstance(Sources(files, controllers=False), self.clock, self.lines.append)

    def started(self, instance: EmbeddedInstance) -> None:
        """Do nothing with a process that has not taken a step: a test may."""

    def start(self) -> EmbeddedInstance:
        """Start a process; it is the one that is looked at from now on."""
        instance = self.instance = self.process()
        self.started(instance)
        instance.rollout_state = self.state
        instance.audit_share = 1.0
        instance.scheduler.observers.timer = lambda: self.clock() / 1e9
        for name in NODES:
            instance.cluster.apply(node(name, "100000"))
        self.settle()
        self.changes = instance.cluster.store.watch(POD)
        return instance

    def change(self, rule: str) -> None:
        """Change the policy, and have it read."""
        self.write(rule)
        self.read(self.instance)
        self.settle()

    def read(self, instance: EmbeddedInstance) -> None:
        """Have a process read what there is."""
        instance.reload(instance.reloader.store.prepare(), "file")

    def act(self, instance: EmbeddedInstance) -> None:
        """Let a process do one thing that is due."""
        instance.step()

    def settle(self) -> None:
        """Do what is due now."""
        for _ in range(4):
            self.act(self.instance)

    def run(self, seconds: int, pods: int = 1) -> dict[str, str]:
        """Let time pass, with pods each second; return their nodes."""
        nodes = {}
        for _ in range(seconds):
            names = [f"p{self.count + i}" for i in range(pods)]
            self.count += pods
            for name in names:
                self.instance.cluster.apply(pod(name))
            force = self.sets()
            self.clock.advance(1)
            self.settle()
            if force == self.sets():
                assert set(self.written_of(names)) <= {0, 1}, "what is audited writes nothing"
            for name in names:
                stored = self.instance.cluster.store.get(POD, "default", name)
                nodes[name] = str(stored.data["spec"].get("nodeName") or "")
                self.instance.cluster.delete(stored.key)
        return nodes

    def sets(self) -> tuple[object, object]:
        """Return what decides."""
        return self.hash, self.instance.scheduler.canary

    def written_of(self, names: list[str]) -> list[int]:
        """Return how often something was written of each pod that follows from a decision."""
        seen: dict[str, list[Any]] = {}
        for change in self.changes.drain(1000):
            if change.type == "DELETED":
                continue
            data = change.new.data
            status = data["status"]
            conditions = [c for c in status.get("conditions", ()) if c["type"] == "PodScheduled"]
            held = data["spec"].get("nodeName"), status.get("nominatedNodeName"), conditions
            before = seen.setdefault(change.new.name, [])
            if held not in before:
                before.append(held)
        return [len(seen[name]) - 1 for name in names]

    @property
    def rolled(self) -> rollout.State:
        """The state of the rollout."""
        rollouts = self.instance.rollouts
        assert rollouts is not None
        assert rollouts.state is not None
        return rollouts.state

    @property
    def hash(self) -> str:
        """The hash of the set in force."""
        return self.instance.reloader.store.current.content_hash

    def messages(self, text: str) -> list[dict[str, Any]]:
        """Return the lines of the log with a message."""
        return [line for line in self.lines if line["msg"] == text]

    def events(self) -> list[str]:
        """Return the reasons of the events about the rollout, in order."""
        steps = {
            "A step of the rollout begins": "RolloutStepped",
            "Promoted the candidate": "RolloutPromoted",
            "Aborted the rollout": "RolloutAborted",
        }
        return [steps[line["msg"]] for line in self.lines if line["msg"] in steps]


class ObjectProcess(EmbeddedInstance):
    """A process whose policies and rollouts are objects of ``home``, where others use them, too.

    What it knows of them is as old as ``stale``, if that is set.
    """

    def __init__(
        self,
        home: EmbeddedCluster,
        now: Callable[[], int],
        write: Callable[[Any], None],
        files: dict[str, Any],
    ) -> None:
        self.home, self.leading = home, True
        self.stale: dict[Kind, list[CustomRecord]] = {}
        self.written: list[rollout.State] = []
        """The states that were written."""
        given = [tuple(map(policy_object, self.mirror(kind))) for kind in (POLICY, ROLLOUT)]
        known = PolicyFiles(objects=given[0], rollouts=given[1], keeps_texts=True, **files)
        super().__init__(Sources(first_compilation(known)[0], controllers=False), now, write)
        self.follow_policies("")
        self.known: PolicyFiles | None = None

    @property
    def leads(self) -> bool:
        """Whether it believes to lead."""
        return self.leading

    def mirror(self, kind: Kind) -> list[CustomRecord]:
        """Return the objects as this process knows them."""
        return self.stale.get(kind, records_of(self.home, kind, ""))

    def falls_behind(self) -> None:
        """Learn of nothing that happens from now on."""
        self.stale = {kind: self.mirror(kind) for kind in (POLICY, ROLLOUT)}

    def observe(self, kind: Kind, _selector: str, _changed: Callable[[], None]) -> Records:
        """Follow the objects of a kind."""
        return lambda: self.mirror(kind)

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Merge a status into that of an object."""
        key = Key(("policysched.dev", kind[1]), namespace, name)
        self.home.store.patch(key, {"status": dict(status)}, subresource="status")

    async def replace_status(self, record: CustomRecord, status: dict[str, Any]) -> CustomRecord:
        """Replace the status of an object if it is unchanged."""
        own, self.cluster = self.cluster, self.home
        try:
            done = await super().replace_status(record, status)
        finally:
            self.cluster = own
        if status.get("state") is not None:
            self.written.append(rollout.read_state(json.dumps(status["state"])))
        return done

    async def read_rollout(self, name: str) -> CustomRecord:
        """Return a Rollout as it is now."""
        own, self.cluster = self.cluster, self.home
        try:
            return await super().read_rollout(name)
        finally:
            self.cluster = own


def finished(work: Coroutine[None, None, None]) -> None:
    """Run what waits for nothing."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        return


class ObjectWorld(World):
    """The same with a policy and a rollout that are objects; its pods are in each process."""

    def place(self) -> None:
        """Make the cluster that has the objects."""
        self.written: list[rollout.State] = []
        self.files: dict[str, Any] = {}
        self.home = EmbeddedCluster.open(None, self.clock, controllers=False)
        for own in CUSTOM_RESOURCES:
            self.home.apply(definition_of(own))
        self.home.step()

    def write(self, rule: str) -> None:
        """Write the policy."""
        self.home.apply(yaml.safe_load(POLICY_TEXT % rule))

    def write_rollout(self, text: str | None) -> None:
        """Write the Rollout, or delete it."""
        if text is not None:
            self.home.apply(yaml.safe_load(text))
        elif self.has_rollout:
            self.home.store.delete(Key(ROLLOUTS, "", "careful"))

    @property
    def has_rollout(self) -> bool:
        """Whether changes are rolled out."""
        return bool(records_of(self.home, ROLLOUT, ""))

    def status(self, name: str = "careful") -> dict[str, Any]:
        """Return the status of a rollout as a client sees it."""
        shown: dict[str, Any] = self.home.store.get(ROLLOUTS, "", name).data.get("status", {})
        return shown

    def accepted(self, name: str = "careful") -> str:
        """Return the reason of the condition Accepted of a rollout."""
        conditions = {one["type"]: one["reason"] for one in self.status(name)["conditions"]}
        return str(conditions["Accepted"])

    def in_force(self) -> tuple[str, str]:
        """Return status and reason of the condition InForce of the policy."""
        stored = self.home.store.get(("policysched.dev", "Policy"), "", "only").data
        (shown,) = [one for one in stored["status"]["conditions"] if one["type"] == "InForce"]
        return shown["status"], shown["reason"]

    def annotate(self, annotations: dict[str, str]) -> None:
        """Ask for something as `policy-sched rollout` does."""
        patch = {"metadata": {"annotations": annotations}}
        self.home.store.patch(Key(ROLLOUTS, "", "careful"), patch)

    def process(self) -> ObjectProcess:
        """Return a process that has read what there is."""
        instance = ObjectProcess(self.home, self.clock, self.lines.append, self.files)
        instance.written = self.written
        assert instance.policy_objects is not None
        instance.policy_objects.sleep = _at_once
        return instance

    def read(self, instance: EmbeddedInstance) -> None:
        """Have a process read what it knows of."""
        assert isinstance(instance, ObjectProcess)
        store = instance.reloader.store
        store.files = instance.known = instance.files()
        compiled = store.prepare()
        instance.judge_objects(compiled, instance.reload(compiled, "object"))

    def act(self, instance: EmbeddedInstance) -> None:
        """Let a process do one thing that is due; objects that have changed are read."""
        assert isinstance(instance, ObjectProcess)
        if instance.files() != instance.known:
            self.read(instance)
        instance.step()
        assert instance.rollout_objects is not None
        assert instance.policy_objects is not None
        finished(instance.rollout_objects.publish())
        finished(instance.policy_objects.publish())


async def _at_once(_: float) -> None:
    """Wait for nothing."""
