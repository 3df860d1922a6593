"""A whole instance under a clock that stands still: files in, decisions out, and shutdown.

The metrics of an embedded cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.resources import EVENT, POD
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.errors import PolicyError
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.instance.observability.log import Record
from policy_sched.model.pod import Pod
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import ReloadResult
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import HEAD, config, keeping, write

NODES = "".join(
    f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n"
    "status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n---\n"
    for name in "ab"
)


def pod(name: str, cpu: str = "1", scheduler: str = "default-scheduler") -> str:
    """Return the manifest of a pod."""
    container = f"{{name: m, resources: {{requests: {{cpu: {cpu}}}}}}}"
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        f"spec: {{schedulerName: {scheduler}, containers: [{container}]}}\n---\n"
    )


class World:
    """A folder of policies, one of manifests, and an instance that follows them."""

    def __init__(self, folder: Path, data: str | None = None) -> None:
        self.folder = folder
        (folder / "policies").mkdir(exist_ok=True)
        (folder / "cluster").mkdir(exist_ok=True)
        self.clock = FakeClock(1_000_000_000_000)
        self.records: list[Record] = []
        self.data = data
        self.policy('node.name == "a"')
        self.files(nodes=NODES)

    def start(self) -> EmbeddedInstance:
        """Start the instance, and run the first step."""
        policies = PolicyFiles(self.config, (str(self.folder / "policies"),))
        sources = Sources(policies, [str(self.folder / "cluster")], self.data)
        self.instance = EmbeddedInstance(sources, self.clock, self.records.append)
        self.instance.step()
        return self.instance

    @property
    def config(self) -> str | None:
        """The configuration, if there is one."""
        path = self.folder / "config.yaml"
        return str(path) if path.exists() else None

    def policy(self, expression: str) -> None:
        """Write the policy."""
        write(self.folder / "policies" / "keep.yaml", keeping("Keep", expression))

    def files(self, **texts: str) -> None:
        """Write manifests."""
        for name, text in texts.items():
            write(self.folder / "cluster" / f"{name}.yaml", text)

    def apply(self, **texts: str) -> None:
        """Write manifests, and let the instance apply them."""
        self.files(**texts)
        self.instance.apply(self.instance.manifests.read())
        self.instance.step()

    def reload(self) -> ReloadResult:
        """Let the instance reload the policies."""
        result = self.instance.reload(self.instance.reloader.store.prepare(), "test").result
        self.instance.step()
        return result

    def node_of(self, name: str) -> str:
        """Return the pod's node in the cluster."""
        found = self.instance.cluster.store.get(POD, "default", name).typed
        assert isinstance(found, Pod)
        return found.spec.node_name

    def messages(self, message: str) -> list[Record]:
        """Return the records with this message."""
        return [record for record in self.records if record["msg"] == message]

    def sleep(self) -> None:
        """Advance the time until something is due, and run it."""
        wakeup = self.instance.next_wakeup()
        assert wakeup is not None
        self.clock.ns = max(wakeup, self.clock.ns)
        self.instance.step()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A policy that selects node a, and two nodes."""
    world = World(tmp_path)
    yield world
    if hasattr(world, "instance"):
        world.instance.cluster.close()


def test_a_pod_lands_where_the_policy_selects(world: World) -> None:
    """It is bound in the store and runs after a while; the record has node, reason and policies."""
    world.files(pod=pod("p"))
    instance = world.start()
    assert world.node_of("p") == "a"
    (record,) = world.messages("Successfully bound pod to node")
    facts = {"pod": "default/p", "node": "a", "evaluatedNodes": 2, "feasibleNodes": 1}
    assert facts.items() <= record.items()
    assert record["generation"] == 1
    pipeline = instance.scheduler.profiles["default-scheduler"].pipeline
    assert record["contentHash"] == pipeline.content_hash
    (decided,) = instance.log.last
    assert (decided.pod, decided.node) == ("default/p", "a")
    while instance.next_wakeup() is not None:
        world.sleep()
    running = instance.cluster.store.get(POD, "default", "p").data
    assert running["status"]["phase"] == "Running"


def test_an_edit_of_a_policy_moves_the_next_pod(world: World) -> None:
    """The same generation decides until the files are read; then the next one does."""
    world.start()
    world.policy('node.name == "b"')
    world.apply(first=pod("first"))
    assert world.reload() is ReloadResult.LOADED
    world.apply(second=pod("second"))
    assert (world.node_of("first"), world.node_of("second")) == ("a", "b")
    generations = [r["generation"] for r in world.messages("Successfully bound pod to node")]
    assert generations == [1, 2]
    assert world.messages("Reloaded policies")[0]["policies"] == ["Keep"]


def test_a_broken_policy_is_reported_and_changes_nothing(world: World) -> None:
    """The problem has its line, numbers and status show it, and pods land where they did."""
    instance = world.start()
    world.policy('node.nam == "b"')
    assert world.reload() is ReloadResult.REFUSED
    world.apply(p=pod("p"))
    assert world.node_of("p") == "a"
    (record,) = world.messages("Node has no field 'nam'; did you mean 'name'?")
    assert (record["level"], record["code"], record["line"]) == ("error", "PS102", 6)
    assert record["file"].endswith("keep.yaml")
    (failed,) = world.messages("Failed to reload policies; keeping the current ones")
    assert (failed["problems"], failed["generation"]) == (1, 1)
    assert instance.reloader.store.status.problems
    events = [stored.data for stored in instance.cluster.store.select(EVENT)]
    (event,) = [data for data in events if data["reason"] == "FailedReload"]
    assert event["regarding"]["name"] == "kube-system"
    assert "keep.yaml:6:" in event["note"]
    text = instance.metrics.text()
    assert "policy_sched_config_last_reload_successful 0" in text
    assert 'policy_sched_reloads_total{result="refused",trigger="test"} 1' in text
    world.policy('node.name == "b"')
    assert world.reload() is ReloadResult.LOADED
    text = instance.metrics.text()
    assert "policy_sched_config_last_reload_successful 1" in text
    assert 'policy_sched_policy_generation{profile="default-scheduler"} 2' in text


def test_nothing_starts_with_mistakes(world: World) -> None:
    """The problems of policies and of manifests are reported together."""
    world.policy("node.nam")
    world.files(bad="kind: Pod\n")
    with pytest.raises(PolicyError) as caught:
        world.start()
    names = {Path(problem.file).name for problem in caught.value.diagnostics}
    assert names == {"keep.yaml", "bad.yaml"}


def test_an_unschedulable_pod_waits_for_free_resources(world: World) -> None:
    """It has a reason, and is bound when a pod leaves the node."""
    world.files(p=pod("p", "3"))
    world.start()
    world.apply(q=pod("q", "3"))
    assert world.node_of("q") == ""
    assert "Insufficient cpu" in world.messages("Unable to schedule pod; no fit; waiting")[0]["err"]
    (world.folder / "cluster" / "p.yaml").unlink()
    world.apply()
    for _ in range(20):
        if world.node_of("q"):
            break
        world.sleep()
    assert world.node_of("q") == "a"


def test_a_broken_manifest_leaves_the_cluster_as_it_is(world: World) -> None:
    """The cluster stays, and the dashboard shows the problem until it is fixed."""
    instance = world.start()
    world.apply(bad="kind: [\n")
    assert instance.manifest_problems
    assert world.messages("Failed to apply manifests; the cluster stays as it is")
    world.apply(bad="")
    assert not instance.manifest_problems


def test_a_deleted_policy_is_reported(world: World) -> None:
    """The default profile was all that was left, and the log said that policies were reloaded."""
    write(world.folder / "policies" / "other.yaml", keeping("Other", 'node.name == "a"'))
    world.start()
    (world.folder / "policies" / "other.yaml").unlink()
    assert world.reload() is ReloadResult.LOADED
    (one,) = world.messages("Policies were removed")
    assert (one["level"], one["policies"]) == ("warning", ["Other"])
    (world.folder / "policies" / "keep.yaml").unlink()
    assert world.reload() is ReloadResult.LOADED
    (last,) = world.messages("Policies were removed; only the default plugins decide")
    assert last["policies"] == ["Keep"]


def test_pods_of_a_profile_are_scheduled_once_it_exists(world: World) -> None:
    """Pods that named it before it existed are scheduled; no other profile took them."""
    write(world.folder / "config.yaml", config({"default-scheduler": ["Keep"]}))
    world.files(p=pod("p", scheduler="other"))
    world.start()
    assert world.node_of("p") == ""
    write(world.folder / "config.yaml", config({"default-scheduler": ["Keep"], "other": ["Keep"]}))
    assert world.reload() is ReloadResult.LOADED
    assert world.node_of("p") == "a"


def test_nothing_is_due_without_reason(world: World) -> None:
    """An idle instance sleeps: no step is due."""
    world.files(p=pod("p"))
    instance = world.start()
    for _ in range(10):
        wakeup = instance.next_wakeup()
        if wakeup is None:
            return
        world.sleep()
    assert wakeup is None


def test_no_attempt_begins_after_the_shutdown_and_none_stays_incomplete(world: World) -> None:
    """After the shutdown began, no pod is popped, and no attempt stays incomplete."""
    instance = world.start()
    instance.stop()
    instance.stop()
    world.apply(p=pod("p"))
    assert world.node_of("p") == ""
    assert instance.stopped
    instance.close()
    assert [len(world.messages(message)) for message in ("Stopping", "Stopped")] == [1, 1]


def test_data_outlive_the_instance(tmp_path: Path) -> None:
    """A second instance on the same file finds the pods where the first one put them."""
    data = str(tmp_path / "data.db")
    world = World(tmp_path, data)
    world.files(p=pod("p"))
    world.start().close()
    world.policy('node.name == "b"')
    instance = world.start()
    world.apply(q=pod("q"))
    assert (world.node_of("p"), world.node_of("q")) == ("a", "b")
    assert len(world.messages("Successfully bound pod to node")) == 2
    assert instance.scheduler.cache.nodes.pod_total == 2
    instance.close()


def test_the_state_on_request(world: World) -> None:
    """One record holds the queues and every metric."""
    world.files(p=pod("p", "64"))
    world.start().dump()
    (record,) = world.messages("State")
    assert record["queues"]["unschedulable"] == 1
    assert 'scheduler_pending_pods{queue="unschedulable"} 1' in record["metrics"]
    labels = 'profile="default-scheduler",result="unschedulable"'
    assert f"scheduler_schedule_attempts_total{{{labels}}} 1.0\n" in record["metrics"]


def test_the_end_waits_for_bindings_that_were_sent(world: World) -> None:
    """A pod whose binding takes a second is bound before the instance has ended."""
    instance = world.start()
    client = instance.scheduler.handle.client
    assert isinstance(client, EmbeddedClient)
    client.latency = 1_000_000_000
    world.apply(p=pod("p"))
    assert (instance.scheduler.in_flight, world.node_of("p")) == (1, "")
    assert not world.messages("Pod waits before it is bound"), "it is as good as done"
    instance.stop()
    assert not instance.stopped
    while not instance.stopped:
        world.sleep()
    assert world.node_of("p") == "a"
    (record,) = world.messages("Successfully bound pod to node")
    assert (record["evaluatedNodes"], record["feasibleNodes"]) == (2, 1), "as it was chosen"


def test_the_end_undoes_what_waits_for_permission(world: World) -> None:
    """The pod holds no node any more, and is not bound."""
    waiting = "  permit:\n    allow: 'false'\n    message: not yet\n    timeout: 10m\n"
    write(world.folder / "policies" / "wait.yaml", HEAD.replace("NAME", "Wait") + waiting)
    instance = world.start()
    world.apply(p=pod("p"))
    assert instance.scheduler.in_flight == 1
    instance.stop()
    assert instance.stopped
    assert world.node_of("p") == ""
    assert instance.scheduler.cache.nodes.pod_total == 0
    assert sum(instance.queue_lengths().values()) == 1


def test_failures_of_controllers_and_objects_set_aside_are_counted(tmp_path: Path) -> None:
    """An operator sees problems of the cluster's own parts on /metrics."""
    instance = World(tmp_path).start()
    store = instance.cluster.store
    store.sync_errors["daemonset"] += 3
    text = instance.metrics.text()
    assert 'policy_sched_controller_sync_errors_total{controller="daemonset"} 3.0' in text
    assert "policy_sched_objects_set_aside 0.0" in text
    instance.close()
