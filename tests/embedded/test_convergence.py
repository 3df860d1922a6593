"""Whatever is asked of the cluster, in the end there is what its workloads want."""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from policy_sched.client.apimachinery import resources
from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.deletion import ENDED, DeleteOptions
from policy_sched.manifests.workload_expansion import TEMPLATE_HASH
from tests.embedded.controllers.test_disruption import budget
from tests.embedded.world import World, node, pod_spec, typed, workload
from tests.examples import scaled

APPS = {"Deployment": "web", "StatefulSet": "db", "DaemonSet": "agent", "Job": "sum"}
KINDS = {
    "Deployment": resources.DEPLOYMENT,
    "StatefulSet": resources.STATEFUL_SET,
    "DaemonSet": resources.DAEMON_SET,
    "Job": resources.JOB,
}
IMAGES = st.sampled_from(["app:1", "app:2"])


class Operations(RuleBasedStateMachine):
    """People change workloads, pods and nodes come to harm, the process restarts, time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(nodes=2, stop=2_000_000_000)
        self.wanted: dict[str, Any] = {}

    def _apply(self, kind: str, image: str, **spec: Any) -> None:
        template = pod_spec("10m")
        template["containers"][0]["image"] = image
        given = workload(kind, APPS[kind], template=template, **spec)
        if kind == "Job":
            note = {"policysched.dev/duration": "4"}
            given["spec"]["template"]["metadata"]["annotations"] = note
        self.world.cluster.apply(given)
        self.wanted[kind] = (image, spec)

    @rule(replicas=st.integers(0, 5), image=IMAGES, recreate=st.booleans())
    def deploy(self, replicas: int, image: str, recreate: bool) -> None:
        """A deployment comes or changes."""
        strategy = {"type": "Recreate" if recreate else "RollingUpdate"}
        self._apply("Deployment", image, replicas=replicas, strategy=strategy)

    @rule(replicas=st.integers(0, 4), image=IMAGES)
    def number(self, replicas: int, image: str) -> None:
        """A stateful set comes or changes."""
        self._apply("StatefulSet", image, replicas=replicas)

    @rule(image=IMAGES)
    def serve(self, image: str) -> None:
        """A daemon set comes or changes."""
        self._apply("DaemonSet", image)

    @rule(completions=st.integers(1, 4), parallelism=st.integers(1, 3))
    def compute(self, completions: int, parallelism: int) -> None:
        """A job comes; one that is there stays."""
        if "Job" not in self.wanted:
            spec = {"completions": completions, "parallelism": parallelism, "backoffLimit": 100}
            self._apply("Job", "app:1", **spec)

    @rule(kind=st.sampled_from(list(APPS)))
    def delete(self, kind: str) -> None:
        """A workload goes."""
        if self.wanted.pop(kind, None) is not None:
            self.world.delete(KINDS[kind], APPS[kind])

    @rule(choice=st.integers(0, 100), grace=st.sampled_from([None, 0]))
    def harm(self, choice: int, grace: int | None) -> None:
        """A pod is deleted."""
        pods = self.world.pods()
        if pods:
            key = Key(resources.POD, "default", pods[choice % len(pods)].name)
            self.world.cluster.delete(key, DeleteOptions(grace))

    @rule(choice=st.integers(0, 100))
    def fail(self, choice: int) -> None:
        """A pod fails."""
        pods = [pod for pod in self.world.pods() if typed(pod).status.phase == "Running"]
        if pods:
            self.world.fail(pods[choice % len(pods)].name)

    @rule(number=st.integers(0, 3), taint=st.booleans())
    def change_node(self, number: int, taint: bool) -> None:
        """A node comes, or changes its taints; the first stays as it is."""
        taints = [{"key": "bad", "effect": "NoExecute"}] if taint and number else []
        self.world.cluster.apply(node(f"n{number}", taints=taints))

    @rule(number=st.integers(1, 3))
    def lose_node(self, number: int) -> None:
        """A node goes; the first stays."""
        self.world.cluster.delete(Key(resources.NODE, "", f"n{number}"))

    @rule()
    def guard(self) -> None:
        """There is a budget for the deployment's pods."""
        self.world.cluster.apply(budget(maxUnavailable=1))

    @rule()
    def restart(self) -> None:
        """Everything that only the parts knew is forgotten."""
        world = self.world
        world.cluster = EmbeddedCluster(world.store, world.cluster.times)
        world.client = EmbeddedClient(world.cluster)

    @rule(seconds=st.sampled_from([0, 0.5, 1, 3, 20]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.world.run(seconds)

    @invariant()
    def owners_are_there(self) -> None:
        """No object has an owner that is gone, unless it ends or will be collected."""
        collected = self.world.store.deleted_owners
        for obj in self.world.store.everything():
            for owner in obj.typed.metadata.owner_references:
                kind = (owner.api_version, owner.kind)
                stored = self.world.store.find(kind, obj.namespace, owner.name)
                is_there = stored is not None and stored.uid == owner.uid
                assert is_there or obj.deleting or owner.uid in collected

    def teardown(self) -> None:
        """Given time, every workload has the pods that it wants, of its present template."""
        self.world.run(3600)
        assert self.world.cluster.next_wakeup() is None
        for kind, (image, spec) in self.wanted.items():
            pods = [
                pod
                for pod in self.world.pods(app=APPS[kind])
                if typed(pod).status.phase not in ENDED or kind == "Job"
            ]
            if kind == "Job":
                self._judge_job(spec["completions"])
                continue
            assert all(typed(pod).status.phase == "Running" and not pod.deleting for pod in pods)
            images = [pod.data["spec"]["containers"][0]["image"] for pod in pods]
            nodes = sum(self._serves(pod) for pod in self.world.store.select(resources.NODE))
            assert images == [image] * spec.get("replicas", nodes), kind
            status = self.world.status(KINDS[kind], APPS[kind])
            ready = status.get("readyReplicas", status.get("numberReady", 0))
            assert ready == len(pods)
        self._judge_owned()

    def _serves(self, stored: Any) -> bool:
        return not stored.typed.spec.taints

    def _judge_job(self, completions: int) -> None:
        status = self.world.status(resources.JOB, "sum")
        assert status["succeeded"] == completions
        assert status["conditions"][-1]["type"] == "Complete"
        assert "active" not in status

    def _judge_owned(self) -> None:
        store = self.world.store
        if "Deployment" not in self.wanted:
            assert store.select(resources.REPLICA_SET) == []
        for replica_set in store.select(resources.REPLICA_SET):
            pods = self.world.pods(**{TEMPLATE_HASH: replica_set.labels[TEMPLATE_HASH]})
            running = sum(typed(pod).status.phase == "Running" for pod in pods)
            assert replica_set.data["spec"]["replicas"] == running
        for replica_set in store.select(resources.BUDGET):
            healthy = [p for p in self.world.pods(app="web") if typed(p).status.phase == "Running"]
            assert replica_set.data["status"]["currentHealthy"] == len(healthy)


Operations.TestCase.settings = settings(
    max_examples=scaled(60), stateful_step_count=30, deadline=None
)
TestOperations = Operations.TestCase
