"""A whole life under one clock: cluster, client, scheduler, watch; and plugins that fail.

Nothing happens by itself: the driver decides when the cluster acts, when the scheduler receives
events, and when time passes.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.client.protocol import Done
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.kubelet import KubeletTimes
from policy_sched.errors import ClusterError
from policy_sched.framework.evaluate.evaluator import Evaluator
from policy_sched.framework.evaluate.nominated_pods import Nominations
from policy_sched.framework.extender import Extender
from policy_sched.framework.handle import Handle
from policy_sched.framework.runtime.runner import Runner
from policy_sched.model.cluster_objects import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.scheduler.attempt import Profile
from policy_sched.scheduler.queueing_hints import queue_gate, queue_hints
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.setup.factory import EPOCH, assemble_with_assembly
from policy_sched.scheduler.setup.profiles import Assembly
from policy_sched.scheduler.setup.reload import Reloader
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import gating, keeping, write
from tests.scheduler.chaos import CALM, LOST, Chaos, Looking
from tests.scheduler.witness import Overheard, Witness
from tests.scheduler.world import with_plugins


class ChaoticAssembly(Assembly):
    """Adds the plugin to every profile, whatever its policies."""

    def __init__(self, handle: Handle, chaos: Chaos) -> None:
        super().__init__(handle, [])
        self._chaos = chaos

    def _profile(
        self, ready: CompiledPlan, extenders: tuple[Extender, ...], generation: int
    ) -> Profile:
        made = super()._profile(ready, extenders, generation)
        if any(hook.plugin == "Chaos" for hook in made.pipeline.at("reserve")):
            return made
        pipeline = with_plugins(made.pipeline, {"Chaos": self._chaos})
        bind = pipeline.hooks["bind"]
        last_first = (*bind[-1:], *bind[:-1])
        pipeline = replace(pipeline, hooks={**pipeline.hooks, "bind": last_first})
        runner = Runner(pipeline)
        handle = self._handle
        nominations = Nominations(handle.cache, handle.nominator)
        evaluator = Evaluator(runner, handle.nodes, nominations=nominations)
        return replace(made, pipeline=pipeline, runner=runner, evaluator=evaluator)


class FlakyClient(EmbeddedClient):
    """Fails on request, and can lose the response to a binding."""

    faults: dict[str, str]
    witness: Witness

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        if self.faults.get("bind") == "raise":
            del self.faults["bind"]
            raise ClusterError("the connection cannot be made")

        def answered(error: ClusterError | None) -> None:
            self.witness.answered(pod.uid, bound=error is None)
            lost = error is None and self.faults.pop(LOST, "")
            done(ClusterError("the connection was lost") if lost else error)

        self.witness.sent(pod.uid)
        super().bind(pod, node, answered)


class Known(PolicyFiles, frozen=True):
    """Policies that were compiled earlier."""

    found: Compilation | None = None

    def compile(self) -> Compilation:
        assert self.found is not None, "it was compiled"
        return self.found


@lru_cache
def policies() -> dict[str, Known]:
    """Return sets of policies by name, compiled."""
    other: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "other"}],
    }
    texts = {
        "keep": keeping("Keep", 'node.name != "n0"'),
        "gate": gating("Gate", "pod.priority > 0"),
        "broken": keeping("Keep", "node.nmae == 1"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            write(Path(folder) / f"{name}.yaml", text)
        files = {name: PolicyFiles(None, (f"{folder}/{name}.yaml",)) for name in texts}
        files |= {"plain": PolicyFiles(), "gone": PolicyFiles(other)}
        return {name: Known(found=one.compile()) for name, one in files.items()}


class Life:
    """The whole system, and queries of its state.

    ``latency``: seconds that a binding takes. ``looking``: chaos also in the decisions.
    """

    def __init__(self, *, latency: float = 0.0, looking: bool = False) -> None:
        self.clock = FakeClock(EPOCH)
        self.cluster = EmbeddedCluster.open(None, self.clock, kubelets=KubeletTimes())
        self.store = self.cluster.store
        self.calls: dict[str, str] = {}
        self.client = FlakyClient(self.cluster, latency=round(latency * SECOND), fault=self._fault)
        self.client.faults = self.calls
        self.witness = self.client.witness = Witness()
        files = policies()["plain"]
        assert files.found is not None
        # The periodic flush is off: a pod that no event moves is never retried.
        timing = Timing(unschedulable_timeout=10**6 * SECOND)
        self.scheduler, _ = assemble_with_assembly(
            files.found.plans, client=self.client, now=self.clock, timing=timing
        )
        self.witness.nominated = self.scheduler.handle.nominator.pods_on
        self.witness.ends = self._ends
        self.chaos = Looking(self.witness) if looking else Chaos(self.witness)
        assembly = ChaoticAssembly(self.scheduler.handle, self.chaos)
        self.reloader = Reloader(self.scheduler, assembly, PolicyStore(files, self.clock))
        built = assembly.build(files.found.plans)
        assembly.settle(built)
        self.scheduler.profiles = built.profiles
        gate, hints = queue_gate(built.profiles), queue_hints(built.profiles)
        self.scheduler.queue.reload(gate, hints)
        self.feed = Overheard(self.store, self.scheduler, self.witness)
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        self.cluster.apply({**priority, "metadata": {"name": "high"}, "value": 10})
        self.outcomes: list[Outcome] = []

    def _fault(self, call: str, _key: str) -> ClusterError | None:
        self.chaos.others_act(f"call {call}")
        fault = self.calls.pop(call, "")
        return ClusterError(f"chaos at {call}") if fault else None

    def _ends(self, uid: str) -> bool:
        """Return whether a waiting attempt can be cancelled."""
        pods = self.scheduler.handle.waiting_pods
        waiting = pods.get(uid)
        return uid in pods.pre_binding or (waiting is not None and not waiting.ended)

    # Queries.

    def pods(self) -> list[Pod]:
        """Return the pods that have not ended."""
        found = [stored.typed for stored in self.store.select(POD)]
        alive = [pod for pod in found if isinstance(pod, Pod)]
        return [pod for pod in alive if pod.status.phase not in {"Succeeded", "Failed"}]

    def nodes(self) -> list[Node]:
        """Return the nodes."""
        found = [stored.typed for stored in self.store.select(NODE)]
        return [node for node in found if isinstance(node, Node)]

    def free(self, node: Node, at_least: int = -1) -> int:
        """Return the free cpu of a node beside its pods of some priority, in millis."""
        infos = [PodInfo.of(pod) for pod in self.pods() if pod.spec.node_name == node.metadata.name]
        used = sum(info.requests.get("cpu", 0) for info in infos if info.priority >= at_least)
        return int(str(node.status.allocatable["cpu"])) * 1000 - used

    # Actions.

    def node(self, name: str, *, closed: bool = False, cpu: int = 4) -> None:
        """Create or change a node."""
        amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        meta = {"name": name}
        spec = {"unschedulable": closed}
        head = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        self.cluster.apply({**head, "spec": spec, "status": status})

    def pod(self, name: str, cpu: int, *, high: bool, gated: bool) -> None:
        """Create a pod, or do nothing if it exists."""
        if self.store.find(POD, "default", name) is not None:
            return
        container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": str(cpu)}}}
        spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 2}
        if high:
            spec["priorityClassName"] = "high"
        if gated:
            spec["schedulingGates"] = [{"name": "wait"}]
        head = {"apiVersion": "v1", "kind": "Pod"}
        self.cluster.apply(
            {**head, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )

    def bind_elsewhere(self, which: int, where: int, *, careful: bool) -> None:
        """Bind a pending pod as another scheduler, which may check the free capacity."""
        waiting = [PodInfo.of(pod) for pod in self.pods() if not pod.spec.node_name]
        pods = [pod for pod in waiting if not pod.scheduling_gates and not pod.terminating]
        nodes = self.nodes()
        if not pods or not nodes:
            return
        pod, node = pods[which % len(pods)], nodes[where % len(nodes)]
        name = node.metadata.name
        if careful and self.free(node) < pod.requests["cpu"]:
            return
        there = [one.metadata.uid for one in self.pods() if one.spec.node_name == name]
        self.witness.other_bindings(pod.uid, there if careful else ())
        self.store.bind(
            "default", pod.name, {"metadata": {"name": pod.name}, "target": {"name": name}}
        )

    def meanwhile(self, point: str, which: int, where: int, *, careful: bool) -> None:
        """Let another scheduler bind a pod when that point is reached."""
        self.chaos.meanwhile[point] = lambda: self.bind_elsewhere(which, where, careful=careful)

    def patch(self, name: str, patch: dict[str, Any]) -> None:
        """Change an existing pod."""
        if self.store.find(POD, "default", name) is not None:
            self.store.patch(Key(POD, "default", name), patch)

    def keep(self, name: str, *finalizers: str) -> None:
        """Add a finalizer that keeps a deleted pod, or remove it."""
        self.patch(name, {"metadata": {"finalizers": list(finalizers) or None}})

    def reload(self, name: str) -> bool:
        """Reload policies, which may be refused; return whether others are in force now."""
        found = policies()[name].found
        assert found is not None
        reload = self.reloader.commit(found)
        self.feed.adopt(reload.changes.added)
        return reload.result is ReloadResult.LOADED

    def hear(self) -> None:
        """Deliver events to the scheduler."""
        while self.feed.behind:
            self.feed.process()

    def shutdown(self) -> None:
        """Abandon waiting attempts."""
        self.outcomes += self.scheduler.shutdown("stop")

    def schedule(self) -> None:
        """Decide one pod."""
        if isinstance(self.chaos, Looking):
            self.chaos.rows = self.scheduler.cache.nodes.n
        outcome = self.scheduler.schedule_one()
        if outcome is not None:
            self.outcomes += (outcome, *outcome.others)

    def tick(self) -> None:
        """Run what is due."""
        self.outcomes += self.scheduler.run_due()

    def go_on(self) -> None:
        """Let every component run once."""
        self.cluster.step()
        self.hear()
        self.tick()
        self.schedule()
        self.schedule()
        self.cluster.step()
        self.hear()

    def calm_down(self) -> None:
        """End all faults."""
        self.calls.clear()
        self.chaos.calm()
        for waiting in self.scheduler.handle.waiting_pods:
            waiting.allow("Chaos")

    def settle(self, rounds: int = 3000) -> None:
        """Run until nothing happens by itself any more.

        Without any node pods would be retried for ever, as by kube-scheduler, so one is added.
        """
        if not self.nodes():
            self.node("n0")
        self.reload("plain")
        self.calm_down()
        for pod in self.pods():
            self.keep(pod.metadata.name)
        self._everything()
        self.scheduler.queue.move_all_to_active_or_backoff(CALM)
        for _ in range(rounds):
            self._everything()
            times = (self.cluster.next_wakeup(), self.scheduler.next_wakeup())
            due = min((time for time in times if time is not None), default=None)
            if due is None or due > self.clock.ns + 10**5 * SECOND:
                return
            assert due > self.clock.ns, "what was due is done"
            self.clock.ns = due
        last = [(one.pod.name, one.message) for one in self.outcomes[-6:]]
        raise AssertionError(f"it does not come to rest: {last}")

    def _everything(self) -> None:
        for _ in range(500):
            self.cluster.step()
            self.hear()
            self.tick()
            self.schedule()
            if self.scheduler.idle() and not self.feed.behind:
                wakeup = self.cluster.next_wakeup()
                if wakeup is None or wakeup > self.clock.ns:
                    return
        last = [(one.pod.name, one.message) for one in self.outcomes[-6:]]
        raise AssertionError(f"the same moment has no end: {last}")
